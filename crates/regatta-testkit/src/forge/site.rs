//! Under which addresses a client has reached the server, and which addresses it gets back.

/// One of GitHub's faces: the public one, the local one or an Enterprise server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Site {
    /// The address of the API, without a slash at its end.
    pub(super) api: String,
    /// The address of the pages.
    pub(super) web: String,
}

/// What a request is for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The API: path with its query, without a prefix such as `/api/v3`.
    Api(Site, String),
    /// git, or a page: path with its query.
    Web(Site, String),
    /// A host that is none of ours.
    Elsewhere,
}

impl Place {
    /// `target` is a path, or a whole address if the client uses us as its proxy; `own` is our own address.
    pub(super) fn of(target: &str, host_header: &str, own: &str, enterprise: &[String]) -> Self {
        let (host, path) = match target.strip_prefix("http://") {
            Some(rest) => match rest.find('/') {
                Some(at) => (&rest[..at], &rest[at..]),
                None => (rest, "/"),
            },
            None => (host_header, target),
        };
        let host = host.strip_suffix(":80").unwrap_or(host).to_ascii_lowercase();
        let site = |scheme: &str, api: &str, web: &str| Site {
            api: format!("{scheme}://{api}"),
            web: format!("{scheme}://{web}"),
        };
        let local = || site("http", "api.github.localhost", "github.localhost");
        let public = || site("https", "api.github.com", "github.com");
        match host.as_str() {
            "api.github.localhost" => Self::Api(local(), path.to_owned()),
            "github.localhost" => Self::Web(local(), path.to_owned()),
            "api.github.com" => Self::Api(public(), path.to_owned()),
            "github.com" => Self::Web(public(), path.to_owned()),
            host if host == own => Self::Web(local(), path.to_owned()),
            host if enterprise.iter().any(|known| known == host) => {
                let site = site("https", &format!("{host}/api/v3"), host);
                if let Some(path) = path.strip_prefix("/api/v3") {
                    return Self::Api(site, path.to_owned());
                }
                match path.strip_prefix("/api/graphql") {
                    Some(_) => Self::Api(site, "/graphql".to_owned()),
                    None => Self::Web(site, path.to_owned()),
                }
            }
            _ => Self::Elsewhere,
        }
    }
}
