//! Addresses of git repositories, compared as people mean them: `git@github.com:acme/api.git` and
//! `https://github.com/acme/api` are one.

/// Where a repository is: a host and a path there, or a directory of this machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RemoteAddress {
    /// `None` for a directory of this machine.
    pub host: Option<String>,
    /// The path without slashes at its ends and without `.git`; a directory keeps its first slash.
    pub path: String,
}

impl RemoteAddress {
    /// Parses an address as git takes it. `None` for a path that is not absolute, and for what is not an address.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() || text.contains(char::is_control) {
            return None;
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            if scheme.eq_ignore_ascii_case("file") {
                return Self::local(rest);
            }
            let (authority, path) = rest.split_once('/')?;
            return Self::at(authority, path);
        }
        if text.starts_with('/') {
            return Self::local(text);
        }
        // `user@host:path`, as ssh and scp have it.
        let (authority, path) = text.split_once(':')?;
        if authority.contains('/') || path.is_empty() { None } else { Self::at(authority, path) }
    }

    /// The address that `relative` (`../shared.git`) means in a repository with this address.
    pub fn join(&self, relative: &str) -> Option<Self> {
        if !(relative.starts_with("./") || relative.starts_with("../")) {
            return None;
        }
        let mut parts: Vec<&str> = self.path.split('/').collect();
        for part in relative.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop()?;
                }
                part => parts.push(part),
            }
        }
        let path = clean(&parts.join("/"));
        (!path.is_empty()).then(|| Self { host: self.host.clone(), path })
    }

    /// `owner/name`, for a repository on a host.
    pub fn slug(&self) -> Option<&str> {
        self.host.as_ref().map(|_| self.path.as_str()).filter(|path| path.contains('/'))
    }

    /// Whether a user's words mean this repository: an address, or `owner/name` on any host.
    pub fn is_meant_by(&self, text: &str) -> bool {
        match Self::parse(text) {
            Some(address) => self.is_same(&address),
            None => self.slug().is_some_and(|slug| slug.eq_ignore_ascii_case(&clean(text))),
        }
    }

    /// Whether both mean one repository. A host without a dot is an alias of a person's ssh configuration, and may be
    /// any host.
    pub fn is_same(&self, other: &Self) -> bool {
        let same_host = match (&self.host, &other.host) {
            (None, None) => true,
            (Some(a), Some(b)) => a == b || !a.contains('.') || !b.contains('.'),
            _ => false,
        };
        let same_path = match self.host {
            None => self.path == other.path,
            Some(_) => self.path.eq_ignore_ascii_case(&other.path),
        };
        same_host && same_path
    }

    fn at(authority: &str, path: &str) -> Option<Self> {
        let host = authority.rsplit('@').next().unwrap_or_default();
        let host = host.split(':').next().unwrap_or_default().to_ascii_lowercase();
        let path = clean(path.trim_start_matches('/'));
        (!host.is_empty() && !path.is_empty()).then_some(Self { host: Some(host), path })
    }

    fn local(path: &str) -> Option<Self> {
        path.starts_with('/').then(|| Self { host: None, path: clean(path) })
    }
}

impl std::fmt::Display for RemoteAddress {
    /// Without a user and a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.host {
            Some(host) => write!(f, "{host}/{}", self.path),
            None => f.write_str(&self.path),
        }
    }
}

/// What git may use by itself; other schemes start a program that the address names.
const SCHEMES: [&str; 5] = ["https", "http", "ssh", "git", "file"];

/// The address to clone for a row's `remote`. An `owner/name` is on the host of `beside`, an address of the project's
/// own repository, and written like it; without one, on github.com. `None` for what git should not be given.
pub fn to_clone(remote: &str, beside: Option<&str>) -> Option<String> {
    let remote = remote.trim();
    if is_slug(remote) {
        let slug = clean(remote);
        let like =
            beside.map(str::trim).filter(|beside| is_safe(beside)).and_then(|beside| like(beside, &slug));
        return Some(like.unwrap_or_else(|| format!("https://github.com/{slug}.git")));
    }
    is_safe(remote).then(|| remote.to_owned())
}

/// The address of another repository on the host of `beside`, without a password.
fn like(beside: &str, slug: &str) -> Option<String> {
    RemoteAddress::parse(beside)?.host?;
    match beside.split_once("://") {
        Some((scheme, rest)) => {
            let authority = rest.split('/').next()?;
            let host = authority.rsplit('@').next()?;
            let at = if scheme.eq_ignore_ascii_case("ssh") { authority } else { host };
            Some(format!("{scheme}://{at}/{slug}.git"))
        }
        None => Some(format!("{}:{slug}.git", beside.split(':').next()?)),
    }
}

/// `owner/name`, with groups between them on some hosts.
fn is_slug(text: &str) -> bool {
    let is_part = |part: &str| {
        let first = part.chars().next().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        first && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
    };
    text.contains('/') && text.split('/').all(is_part)
}

/// Whether git reads it as an address: neither as an option, nor as the name of a program.
fn is_safe(text: &str) -> bool {
    let Some(address) = RemoteAddress::parse(text) else { return false };
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_known = scheme.is_none_or(|scheme| SCHEMES.contains(&scheme.as_str()));
    let is_dashed = |part: &str| part.starts_with('-');
    let host = address.host.as_deref().unwrap_or_default();
    is_known && !is_dashed(text) && !is_dashed(host) && !text.contains("::") && !is_dashed(&address.path)
}

fn clean(path: &str) -> String {
    let path = path.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    path.strip_suffix(".git").unwrap_or(path).trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match RemoteAddress::parse(text) {
            Some(RemoteAddress { host, path }) => format!("{} {path}", host.as_deref().unwrap_or("-")),
            None => "none".to_owned(),
        }
    }

    #[test]
    fn all_spellings_of_one_repository_are_equal() {
        for text in [
            "https://github.com/acme/api",
            "https://github.com/acme/api.git",
            "https://user:secret@github.com/acme/api/",
            "git@github.com:acme/api.git",
            "ssh://git@GitHub.com:22/acme/api.git",
            "git://github.com/acme/api#main",
        ] {
            assert_eq!(shown(text), "github.com acme/api", "{text}");
        }
        for (text, expected) in [
            ("/srv/git/api.git", "- /srv/git/api"),
            ("file:///srv/git/api.git/", "- /srv/git/api"),
            ("git@gitlab.example.org:group/sub/api.git", "gitlab.example.org group/sub/api"),
            ("../api", "none"),
            ("", "none"),
            ("api", "none"),
            ("https://github.com", "none"),
            ("./a:b", "none"),
            ("git@github.com:", "none"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn hosts_differ_unless_one_is_an_alias() {
        let same =
            |a: &str, b: &str| RemoteAddress::parse(a).unwrap().is_same(&RemoteAddress::parse(b).unwrap());
        assert!(same("git@work:acme/api.git", "https://github.com/Acme/api"));
        assert!(!same("https://gitlab.com/acme/api", "https://github.com/acme/api"));
        assert!(!same("/srv/acme/api", "https://github.com/srv/acme/api"));
        assert!(!same("/srv/Api", "/srv/api"));
    }

    #[test]
    fn a_user_may_name_the_owner_and_the_name_only() {
        let address = RemoteAddress::parse("git@github.com:acme/api.git").unwrap();
        for text in ["acme/api", "Acme/API", "acme/api.git", "https://github.com/acme/api"] {
            assert!(address.is_meant_by(text), "{text}");
        }
        for text in ["acme/web", "api", "https://gitlab.com/acme/api", ""] {
            assert!(!address.is_meant_by(text), "{text}");
        }
    }

    #[test]
    fn what_is_cloned_is_an_address_and_nothing_else() {
        let own = |remote: &str, beside: &str| to_clone(remote, Some(beside)).unwrap();
        assert_eq!(to_clone("acme/api", None).as_deref(), Some("https://github.com/acme/api.git"));
        assert_eq!(own("acme/api", "/srv/git/home.git"), "https://github.com/acme/api.git");
        assert_eq!(own("acme/api", "git@github.com:acme/home.git"), "git@github.com:acme/api.git");
        assert_eq!(own("a/b/api", "https://x:secret@gitlab.org/a/home"), "https://gitlab.org/a/b/api.git");
        assert_eq!(own("acme/api", "ssh://git@host.org:2222/home"), "ssh://git@host.org:2222/acme/api.git");
        assert_eq!(own("acme/api", "ext::sh -c id"), "https://github.com/acme/api.git");
        for address in ["/srv/git/api.git", "file:///srv/api", "https://host.org/a/b", "git@host.org:a/b.git"]
        {
            assert_eq!(to_clone(address, None).as_deref(), Some(address));
        }
        for odd in [
            "",
            "api",
            "../api",
            "./a/b",
            "-u/x",
            "--upload-pack=id",
            "a/-b",
            "ext::sh -c id",
            "fd::7",
            "x::y:z",
            "evil://host/x",
            "-oProxyCommand=id:x",
            "ssh://-oProxyCommand=id/x",
            "git@-oProxyCommand=id:x",
            "a/b c",
            "a//b",
            "a/..",
            "host.org:-x",
            "https://host.org/a\nb",
        ] {
            assert_eq!(to_clone(odd, None), None, "{odd}");
        }
    }

    #[test]
    fn relative_addresses_begin_at_the_own_remote() {
        let own = RemoteAddress::parse("git@github.com:acme/api.git").unwrap();
        let joined = |text| own.join(text).map(|address| address.path);
        assert_eq!(joined("../shared.git").as_deref(), Some("acme/shared"));
        assert_eq!(joined("../../other/x").as_deref(), Some("other/x"));
        assert_eq!(joined("../../../../x"), None);
        assert_eq!(joined("https://example.org/x"), None);
        assert_eq!(joined("../.."), None);
    }
}
