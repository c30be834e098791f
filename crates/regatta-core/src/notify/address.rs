//! The address of a webhook: what it may contain, which part may be shown, and which machines it may reach.
//!
//! Invariant: the path of a webhook acts as its password. Only [`WebhookUrl::as_str`] and [`WebhookUrl::secret`] reveal
//! it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Longest address in bytes.
const LONGEST_ADDRESS_BYTES: usize = 2048;

/// An `https` address, or an `http` one for the user's own machines.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookUrl {
    text: String,
    scheme: &'static str,
    /// Offset of the path.
    path_at: usize,
}

impl WebhookUrl {
    /// Parses an address; the error completes a sentence that begins with "the address".
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > LONGEST_ADDRESS_BYTES {
            return Err("is longer than 2048 characters");
        }
        if !text.chars().all(|c| c.is_ascii_graphic() && !"\"<>\\^`{|}".contains(c)) {
            return Err("contains what must be percent-encoded there");
        }
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => ("https", rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => ("http", rest),
            _ => return Err("does not begin with https://"),
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err("has a user name or a password in it");
        }
        if rest.contains('#') {
            return Err("has a fragment (`#`), which is never sent");
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => match rest.split_once(']') {
                Some((host, port)) if host.parse::<Ipv6Addr>().is_ok() => (host, port.strip_prefix(':')),
                _ => return Err("has no host"),
            },
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if host.is_empty() || !authority.starts_with('[') && !host.chars().all(named) {
            return Err("has no host");
        }
        if port.is_some_and(|port| port.parse::<u16>().map_or(true, |port| port == 0)) {
            return Err("has a port that is not a number from 1 to 65535");
        }
        let path_at = text.len() - rest.len() + authority.len();
        Ok(Self { text: text.to_owned(), scheme, path_at })
    }

    /// The whole address, for sending.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the connection is encrypted.
    pub fn is_https(&self) -> bool {
        self.scheme == "https"
    }

    /// Path and query, which must stay secret.
    pub fn secret(&self) -> &str {
        self.text[self.path_at..].trim_start_matches('/')
    }

    /// The IP address, if the host is written as one.
    pub fn ip(&self) -> Option<IpAddr> {
        let authority = self.text[..self.path_at].rsplit("://").next()?;
        match authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next()?.parse().ok().map(IpAddr::V6),
            None => authority.split(':').next()?.parse().ok().map(IpAddr::V4),
        }
    }
}

impl fmt::Display for WebhookUrl {
    /// Omits the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.secret().is_empty() { "" } else { "/…" };
        write!(f, "{}{more}", &self.text[..self.path_at])
    }
}

impl fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebhookUrl({self})")
    }
}

/// Whether an address belongs to a machine on the public internet: not this machine, its network, a cloud's internal
/// services (169.254.169.254) or a reserved range, in whatever form it is wrapped.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let shared = a == 100 && (64..128).contains(&b);
    let assigned = a == 192 && b == 0 && c == 0;
    let relay = a == 192 && b == 88 && c == 99;
    let benchmark = a == 198 && (b == 18 || b == 19);
    !(a == 0
        || a >= 224
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_documentation()
        || shared
        || assigned
        || relay
        || benchmark)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    let tail = |at: usize| {
        let [a, b] = [parts[at], parts[at + 1]].map(u16::to_be_bytes);
        Ipv4Addr::new(a[0], a[1], b[0], b[1])
    };
    match parts {
        // Mapped and translated addresses are judged by the address they wrap; 6to4 wraps one at the front.
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => is_public_v4(tail(6)),
        [0x2002, ..] => is_public_v4(tail(1)),
        // Teredo, benchmarks and other assignments; documentation.
        [0x2001, 0..0x200, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..0x1000, ..] => false,
        // Only 2000::/3 has been assigned; that excludes loopback, local, multicast and compatible addresses.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}
