//! The value of `hub`: which repository machines share work through, read from its text alone.

/// What `hub` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HubAddress {
    /// `none`: work is not shared.
    None,
    /// A remote of the repository.
    Remote(String),
    /// A directory on this machine, as written.
    Path(String),
    /// An address for git: a URL, or `host:path`.
    Url(String),
}

impl HubAddress {
    /// Reads the value; the error completes a sentence that begins with the value.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text == "none" {
            return Ok(Self::None);
        }
        if text.starts_with('-') || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err("is neither a remote nor an address");
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            return Self::url(scheme, rest).map(|()| Self::Url(text.to_owned()));
        }
        // Git would start `git-remote-<helper>` for it, with whatever follows.
        if text.contains("::") {
            return Err("names a transport helper, which Regatta does not start");
        }
        let is_path = |text: &str| text.starts_with(['/', '.', '~']);
        match text.split_once(':') {
            Some((host, path)) if !is_path(text) && !host.contains('/') => {
                if host.is_empty() || path.is_empty() || path.starts_with('-') {
                    return Err("is not an address: it needs a host and a path");
                }
                Ok(Self::Url(text.to_owned()))
            }
            _ if is_path(text) || text.contains('/') => Ok(Self::Path(text.to_owned())),
            _ => Ok(Self::Remote(text.to_owned())),
        }
    }

    fn url(scheme: &str, rest: &str) -> Result<(), &'static str> {
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        if user.contains(':') {
            return Err("contains a password, which this file is no place for");
        }
        if host.starts_with('-') || user.starts_with('-') {
            return Err("has a host that ssh would take for an option");
        }
        match scheme {
            "file" => Ok(()),
            "ssh" | "https" | "http" if host.is_empty() || path.is_empty() => {
                Err("is not an address: it needs a host and a path")
            }
            "ssh" | "https" => Ok(()),
            // Neither knows who answers.
            "git" | "http" if is_loopback(host) => Ok(()),
            "git" | "http" => Err("is not protected on its way: use ssh:// or https://"),
            _ => Err("has a scheme that Regatta does not use"),
        }
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::HubAddress;

    #[test]
    fn a_remote_a_path_and_an_address_are_told_apart() {
        let url = |text: &str| HubAddress::Url(text.to_owned());
        let path = |text: &str| HubAddress::Path(text.to_owned());
        assert_eq!(HubAddress::parse("none"), Ok(HubAddress::None));
        assert_eq!(HubAddress::parse("origin"), Ok(HubAddress::Remote("origin".into())));
        for text in ["/srv/hub.git", "../hub.git", "~/hub.git", "hubs/shop.git", "./a:b"] {
            assert_eq!(HubAddress::parse(text), Ok(path(text)), "{text}");
        }
        for text in [
            "ssh://git@host/srv/hub.git",
            "https://host/x.git",
            "git@host:x.git",
            "file:///srv/hub.git",
            "git://127.0.0.1:9418/x.git",
            "http://[::1]:8080/x.git",
        ] {
            assert_eq!(HubAddress::parse(text), Ok(url(text)), "{text}");
        }
    }

    #[test]
    fn nothing_that_git_would_run_or_leak_is_an_address() {
        for text in [
            "-o",
            "--upload-pack=touch",
            "ext::sh -c id",
            "ext::id",
            "ssh://-oProxyCommand=id/x",
            "ssh://-oProxyCommand=id@host/x",
            "https://me:secret@host/x.git",
            "git://host/x.git",
            "http://host/x.git",
            "ftp://host/x.git",
            "host:-x",
            "ssh://host",
            "a b",
            "a\nb",
        ] {
            assert!(HubAddress::parse(text).is_err(), "{text}");
        }
    }
}
