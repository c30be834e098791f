//! Random names and secrets: an attempt's token, a conversation's id.

use regatta_core::hex::hex;

/// 64 random hexadecimal digits: an attempt's secret.
pub fn fresh_token() -> String {
    hex(&random_bytes::<32>())
}

/// The form in which the store keeps a token.
pub fn token_hash(token: &str) -> String {
    use sha2::{Digest, Sha256};
    hex(&Sha256::digest(token.as_bytes()))
}

/// A random UUID, version 4.
pub(crate) fn fresh_uuid() -> String {
    let mut bytes = random_bytes::<16>();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = hex(&bytes);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has random bytes");
    bytes
}
