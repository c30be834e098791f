//! From the address of a git remote to a host and a repository on it.

use super::slug::{ForgeHost, NameError, Slug};

/// Where a git remote is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteAddress {
    /// The host, as the address has it: for ssh it may be an alias.
    pub host: ForgeHost,
    /// Whether ssh reaches it, so that its settings decide which host that is.
    pub ssh: bool,
    /// The repository.
    pub slug: Slug,
}

const EXPECTED: &str = "the address of a repository on a forge";

impl RemoteAddress {
    /// Parses an address as git understands it: `https://`, `http://`, `ssh://`, `git://`, or `user@host:path`.
    pub fn parse(url: &str) -> Result<Self, NameError> {
        let error = || NameError::new(&without_password(url), EXPECTED);
        let url = url.trim();
        let (ssh, authority, path) = match url.split_once("://") {
            Some((scheme, rest)) => {
                let ssh = match scheme.to_ascii_lowercase().as_str() {
                    "https" | "http" | "git" => false,
                    "ssh" | "git+ssh" | "ssh+git" => true,
                    _ => return Err(error()),
                };
                let (authority, path) = rest.split_once('/').ok_or_else(error)?;
                (ssh, authority, path)
            }
            None => {
                // As git has it: a slash before the first colon makes it a path.
                let (authority, path) = url.split_once(':').ok_or_else(error)?;
                if authority.contains('/') || path.starts_with(':') {
                    return Err(error());
                }
                (true, authority, path)
            }
        };
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let host = match host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            Some(_) => return Err(error()),
            None => host,
        };
        let host = ForgeHost::parse(host).map_err(|_| error())?;
        let path = path.trim_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path).trim_end_matches('/');
        let slug = Slug::parse(path).map_err(|_| error())?;
        Ok(Self { host: canonical(host), ssh, slug })
    }
}

/// GitHub's other names: `ssh.github.com` is ssh over the port of HTTPS.
fn canonical(host: ForgeHost) -> ForgeHost {
    match host.as_str() {
        "ssh.github.com" | "www.github.com" => ForgeHost::github(),
        _ => host,
    }
}

/// An address without what may be a password, for messages.
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => url.to_owned(),
    }
}
