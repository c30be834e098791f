//! TLS to the server.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::{Certificate, Trust};
use crate::{Result, StoreError};

/// What connects with TLS: it expects this of the server, and shows this certificate.
pub(super) fn connector(trust: &Trust, own: Option<&Certificate>) -> Result<MakeRustlsConnect> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::Invalid(format!("TLS cannot be used: {error}")))?;
    let builder = match trust {
        Trust::Anyone => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider))),
        Trust::Host(roots) => builder.with_root_certificates(authorities(roots.as_deref())?),
    };
    let Some(own) = own else { return Ok(MakeRustlsConnect::new(builder.with_no_client_auth())) };
    let key = PrivateKeyDer::from_pem_file(&own.key)
        .map_err(|error| StoreError::Invalid(format!("sslkey {}: {error}", own.key.display())))?;
    let config = builder
        .with_client_auth_cert(certificates("sslcert", &own.chain)?, key)
        .map_err(|error| StoreError::Invalid(format!("sslcert {}: {error}", own.chain.display())))?;
    Ok(MakeRustlsConnect::new(config))
}

/// The certificates in a file that a parameter names.
fn certificates(parameter: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let unreadable = |error: &dyn std::fmt::Display| {
        StoreError::Invalid(format!("{parameter} {}: {error}", file.display()))
    };
    let found = CertificateDer::pem_file_iter(file).map_err(|error| unreadable(&error))?;
    let found: Vec<_> = found.collect::<std::result::Result<_, _>>().map_err(|error| unreadable(&error))?;
    if found.is_empty() { Err(unreadable(&"it has no certificate")) } else { Ok(found) }
}

/// The authorities in a file, or those that the system trusts.
fn authorities(file: Option<&Path>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(file) => {
            for certificate in certificates("sslrootcert", file)? {
                roots.add(certificate).map_err(|error| {
                    StoreError::Invalid(format!("sslrootcert {}: {error}", file.display()))
                })?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(StoreError::Invalid(
                    "this system trusts no certificate authority; name one with sslrootcert".into(),
                ));
            }
        }
    }
    Ok(roots)
}

/// Accepts any certificate: `sslmode=require` only hides what is sent.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
