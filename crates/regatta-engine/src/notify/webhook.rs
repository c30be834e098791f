//! Notifies by HTTP: `https`, to the public internet, directly, in bounded time.
//!
//! Every address that the name resolves to is checked, in the same lookup whose answer is then connected to: a name
//! that changes its address (rebinding) is caught. Redirects are not followed and no proxy is used, since both would
//! connect to something unchecked.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use regatta_core::notify::{Notification, WebhookUrl, is_public};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};

use super::teller::Delivery;
use crate::context::Context;

/// Time limit of one try, from the lookup to the answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The pauses before the second and the third try.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];

/// Why a try failed.
struct Failure {
    why: String,
    /// Whether another try may succeed.
    is_passing: bool,
}

/// Sends it, retrying if that may help.
pub(super) async fn deliver(
    ctx: &Arc<Context>,
    url: &WebhookUrl,
    allow_private: bool,
    told: &Notification,
) -> Delivery {
    let certificates = ctx.settings.environment.value("SSL_CERT_FILE").map(PathBuf::from);
    match call(url, allow_private, told.payload().to_string(), certificates).await {
        Ok(()) => Delivery::Done,
        Err(why) => Delivery::GivenUp(why),
    }
}

/// Posts a JSON text, retrying if that may help. The error says why it was given up, without the secret part of the
/// address.
pub async fn call(
    url: &WebhookUrl,
    allow_private: bool,
    body: String,
    certificates: Option<PathBuf>,
) -> Result<(), String> {
    let mut pauses = PAUSES.into_iter();
    loop {
        let (url, body, certificates) = (url.clone(), body.clone(), certificates.clone());
        // Without the context: a try that outlives the run must not keep it from ending.
        let tried =
            tokio::task::spawn_blocking(move || post(&url, allow_private, &body, certificates.as_deref()));
        let failure = match tried.await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(failure)) => failure,
            Err(panicked) => Failure { why: panicked.to_string(), is_passing: false },
        };
        match pauses.next().filter(|_| failure.is_passing) {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return Err(failure.why),
        }
    }
}

fn post(
    url: &WebhookUrl,
    allow_private: bool,
    body: &str,
    certificates: Option<&std::path::Path>,
) -> Result<(), Failure> {
    let mut tls = TlsConfig::builder();
    if let Some(path) = certificates {
        tls = tls.root_certs(trusted(path)?);
    }
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(TIMEOUT))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .https_only(!allow_private)
        .user_agent(concat!("regatta/", env!("CARGO_PKG_VERSION")))
        .tls_config(tls.build())
        .build();
    let guard = Guard { inner: DefaultResolver::default(), allow_private, is_https: url.is_https() };
    let agent = ureq::Agent::with_parts(config, DefaultConnector::default(), guard);
    let sent = agent.post(url.as_str()).header("content-type", "application/json").send(body);
    match sent {
        Ok(answer) => match answer.status().as_u16() {
            200..300 => Ok(()),
            code @ 300..400 => Err(Failure {
                why: format!("it answers {code}, and redirects are not followed"),
                is_passing: false,
            }),
            code => {
                let is_passing = matches!(code, 408 | 425 | 429 | 500..);
                Err(Failure { why: format!("it answers {code}"), is_passing })
            }
        },
        Err(error) => Err(failure(&error, url)),
    }
}

/// The certificate authorities of a file, as in every program that supports `SSL_CERT_FILE`.
fn trusted(path: &std::path::Path) -> Result<RootCerts, Failure> {
    let bytes = std::fs::read(path).map_err(|error| Failure {
        why: format!("SSL_CERT_FILE {}: {error}", path.display()),
        is_passing: false,
    })?;
    let found = parse_pem(&bytes).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    Ok(RootCerts::from(found.collect::<Vec<_>>()))
}

fn failure(error: &ureq::Error, url: &WebhookUrl) -> Failure {
    let why = match error {
        ureq::Error::Other(refused) => refused.to_string(),
        ureq::Error::Timeout(_) => format!("no answer within {} s", TIMEOUT.as_secs()),
        // It would repeat the address.
        ureq::Error::BadUri(_) => "its address cannot be used".to_owned(),
        error => error.to_string(),
    };
    let why = match url.secret() {
        "" => why,
        secret => why.replace(secret, "…"),
    };
    let is_passing = match error {
        // An untrusted certificate arrives as invalid data on the connection.
        ureq::Error::Io(error) => error.kind() != std::io::ErrorKind::InvalidData,
        ureq::Error::Other(_) | ureq::Error::BadUri(_) | ureq::Error::Rustls(_) => false,
        _ => true,
    };
    Failure { why, is_passing }
}

/// Resolves names, and refuses those that lead where no webhook may go.
#[derive(Debug)]
struct Guard {
    inner: DefaultResolver,
    allow_private: bool,
    is_https: bool,
}

impl Resolver for Guard {
    fn resolve(
        &self,
        uri: &ureq::http::Uri,
        config: &ureq::config::Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.inner.resolve(uri, config, timeout)?;
        match found.iter().find_map(|address| self.refused(address.ip())) {
            Some(why) => Err(ureq::Error::Other(why.into())),
            None => Ok(found),
        }
    }
}

impl Guard {
    /// Why that address may not be connected to. One refused address refuses the whole name.
    fn refused(&self, address: IpAddr) -> Option<String> {
        match (is_public(address), self.allow_private, self.is_https) {
            (false, false, _) => Some(format!(
                "its name leads to {address}, on this machine or its network; `allow_private: true` allows that"
            )),
            (true, _, false) => {
                Some(format!("its name leads to {address}, which is not your own machine: use https"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_name_leads_to_decides() {
        let refused = |allow_private, is_https, address: &str| {
            let guard = Guard { inner: DefaultResolver::default(), allow_private, is_https };
            guard.refused(address.parse().unwrap()).is_some()
        };
        assert!(!refused(false, true, "1.1.1.1"));
        assert!(refused(false, true, "127.0.0.1"));
        assert!(refused(false, true, "::ffff:10.0.0.1"));
        assert!(!refused(true, true, "127.0.0.1"));
        assert!(!refused(true, false, "192.168.0.9"));
        assert!(refused(true, false, "1.1.1.1"));
    }

    #[test]
    fn a_name_that_leads_to_this_machine_is_refused_and_nothing_is_sent() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = WebhookUrl::parse(&format!("https://localhost:{port}/very-secret-path")).unwrap();
        let failure = post(&url, false, "{}", None).unwrap_err();
        assert!(failure.why.contains("allow_private") && !failure.is_passing, "{}", failure.why);
        assert!(!failure.why.contains("very-secret-path"));
        assert!(listener.accept().is_err(), "nobody connected");
    }
}
