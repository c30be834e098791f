//! Which hosts a sandbox with a network of its own may reach, and how programs inside learn of the way out.
//!
//! Invariant: a rule allows a name, never an address that the name happens to have. Addresses of this machine and its
//! network are reached only by a rule that writes them.

use std::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};

use super::SandboxSettings;
use super::settings::Network;
use crate::config::AgentKind;
use crate::notify::is_public;

/// The port of the proxy inside a sandbox.
pub const PROXY_PORT: u16 = 3128;

/// One allowed host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostRule {
    name: Name,
    /// The port; by default 443 and 80.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Name {
    Exact(String),
    /// Every name below this one.
    Below(String),
    /// An address, written as such.
    Address(IpAddr),
}

/// A host and port that a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    /// The name in lower case without a final dot, or the address.
    pub name: String,
    pub port: u16,
}

impl Host {
    /// A host by its name and port; `None` if the name cannot be one.
    pub fn new(name: &str, port: u16) -> Option<Self> {
        let name = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(inside) => inside.parse::<std::net::Ipv6Addr>().ok()?.to_string(),
            None => name_of(name)?,
        };
        (port != 0).then_some(Self { name, port })
    }

    /// A host as `NAME:PORT`, or `NAME` with this port.
    pub fn parse(text: &str, default: Option<u16>) -> Option<Self> {
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (inside, after) = rest.split_once(']')?;
                let port = match after.strip_prefix(':') {
                    Some(port) => Some(port),
                    None if after.is_empty() => None,
                    None => return None,
                };
                (format!("[{inside}]"), port)
            }
            None => match text.split_once(':') {
                Some((name, port)) => (name.to_owned(), Some(port)),
                None => (text.to_owned(), None),
            },
        };
        let port = match port {
            Some(text) => number(text)?,
            None => default?,
        };
        Self::new(&name, port)
    }

    /// The address, if it is written as one. Forms that only some programs read as addresses are none, and no names.
    pub fn address(&self) -> Option<IpAddr> {
        self.name.parse().ok()
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", self.name, self.port)
        }
    }
}

/// Digits alone: `+80` and ` 80` are not ports.
fn number(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten().filter(|port| *port != 0)
}

/// A host's name in its one form.
fn name_of(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    if name.is_empty() || name.len() > 253 || !name.split('.').all(is_label) {
        return None;
    }
    // `127.1`, `0x7f.1` and `2130706433` are addresses to some resolvers: only the usual form is one here.
    let last = name.rsplit('.').next().unwrap_or_default();
    let numeric = last.bytes().all(|byte| byte.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if numeric {
        return name.parse::<Ipv4Addr>().ok().map(|address| address.to_string());
    }
    Some(name)
}

impl HostRule {
    /// Parses `NAME`, `*.NAME`, an address, each with `:PORT` or without. The error completes a sentence that begins
    /// with the text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.contains("://") || text.contains('/') {
            return Err("is an address of a page: write the host alone");
        }
        let (below, rest) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if rest.contains('*') {
            return Err("has a `*` that is not at its beginning, followed by a dot");
        }
        let has_port = match rest.strip_prefix('[') {
            Some(rest) => rest.contains("]:"),
            None => rest.contains(':'),
        };
        // Any port does for reading the name.
        let host = Host::parse(rest, Some(443)).ok_or("is not a host, or host:port")?;
        let port = has_port.then_some(host.port);
        let name = match (host.address(), below) {
            (Some(_), true) => return Err("has a `*` before an address"),
            (Some(address), false) => Name::Address(address),
            (None, true) if !host.name.contains('.') => return Err("allows a whole top-level domain"),
            (None, true) => Name::Below(host.name),
            (None, false) => Name::Exact(host.name),
        };
        Ok(Self { name, port })
    }

    /// Whether it allows a host.
    pub fn allows(&self, host: &Host) -> bool {
        let port = match self.port {
            Some(port) => host.port == port,
            None => matches!(host.port, 443 | 80),
        };
        port && match &self.name {
            Name::Exact(name) => host.name == *name,
            Name::Below(name) => host
                .name
                .strip_suffix(name.as_str())
                .and_then(|front| front.strip_suffix('.'))
                .is_some_and(|front| !front.is_empty() && host.address().is_none()),
            Name::Address(address) => host.address() == Some(*address),
        }
    }
}

impl std::fmt::Display for HostRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Name::Exact(name) => write!(f, "{name}")?,
            Name::Below(name) => write!(f, "*.{name}")?,
            Name::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
            Name::Address(IpAddr::V4(address)) => write!(f, "{address}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl From<HostRule> for String {
    fn from(rule: HostRule) -> Self {
        rule.to_string()
    }
}

impl TryFrom<String> for HostRule {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).map_err(|why| format!("{text:?} {why}"))
    }
}

/// What a proxy lets through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyRules {
    /// The allowed hosts.
    pub hosts: Vec<HostRule>,
}

/// How a proxy decides about a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// Its name is allowed: each of its addresses has to be public.
    Public,
    /// Its address is written in the rules.
    Written,
    /// It is not allowed.
    Refused,
}

impl ProxyRules {
    /// The decision about a host.
    pub fn decide(&self, host: &Host) -> Ruling {
        if !self.hosts.iter().any(|rule| rule.allows(host)) {
            return Ruling::Refused;
        }
        if host.address().is_some() { Ruling::Written } else { Ruling::Public }
    }

    /// Whether a connection to an address may be made for a host that was decided about.
    pub fn may_reach(ruling: Ruling, address: IpAddr) -> bool {
        match ruling {
            Ruling::Public => is_public(address),
            Ruling::Written => true,
            Ruling::Refused => false,
        }
    }
}

/// The hosts of `network: trusted`, by what they are for.
pub const TRUSTED: [(&str, &[&str]); 15] = [
    (
        "claude",
        &[
            "api.anthropic.com",
            "console.anthropic.com",
            "platform.claude.com",
            "claude.ai",
            "statsig.anthropic.com",
            "downloads.claude.ai",
        ],
    ),
    ("codex", &["api.openai.com", "auth.openai.com", "chatgpt.com"]),
    (
        "gemini",
        &[
            "generativelanguage.googleapis.com",
            "cloudcode-pa.googleapis.com",
            "oauth2.googleapis.com",
            "accounts.google.com",
            "www.googleapis.com",
            "aiplatform.googleapis.com",
        ],
    ),
    ("opencode", &["opencode.ai", "*.opencode.ai", "models.dev", "openrouter.ai"]),
    (
        "rust",
        &[
            "crates.io",
            "index.crates.io",
            "static.crates.io",
            "static.rust-lang.org",
            "doc.rust-lang.org",
            "docs.rs",
        ],
    ),
    (
        "npm",
        &[
            "registry.npmjs.org",
            "registry.yarnpkg.com",
            "repo.yarnpkg.com",
            "nodejs.org",
            "jsr.io",
            "npm.jsr.io",
        ],
    ),
    (
        "python",
        &[
            "pypi.org",
            "files.pythonhosted.org",
            "bootstrap.pypa.io",
            "conda.anaconda.org",
            "repo.anaconda.com",
        ],
    ),
    ("go", &["proxy.golang.org", "sum.golang.org", "go.dev", "golang.org", "pkg.go.dev"]),
    (
        "java",
        &[
            "repo.maven.apache.org",
            "repo1.maven.org",
            "central.sonatype.com",
            "plugins.gradle.org",
            "services.gradle.org",
            "downloads.gradle.org",
            "plugins-artifacts.gradle.org",
            "maven.google.com",
            "dl.google.com",
        ],
    ),
    ("ruby", &["rubygems.org", "index.rubygems.org", "api.rubygems.org"]),
    ("php", &["packagist.org", "repo.packagist.org", "getcomposer.org"]),
    (
        "debian and ubuntu",
        &[
            "deb.debian.org",
            "security.debian.org",
            "archive.ubuntu.com",
            "security.ubuntu.com",
            "ports.ubuntu.com",
        ],
    ),
    (
        "github",
        &["github.com", "api.github.com", "codeload.github.com", "*.githubusercontent.com", "ghcr.io"],
    ),
    ("gitlab", &["gitlab.com", "registry.gitlab.com"]),
    ("bitbucket", &["bitbucket.org", "api.bitbucket.org"]),
];

/// The rules of the trusted list.
pub fn trusted() -> Vec<HostRule> {
    let all = TRUSTED.iter().flat_map(|(_, hosts)| hosts.iter());
    all.filter_map(|host| HostRule::parse(host).ok()).collect()
}

/// The host of an `http` or `https` address, such as the value of a `*_BASE_URL`.
fn host_of_url(url: &str) -> Option<Host> {
    let (scheme, rest) = url.trim().split_once("://")?;
    let default = match scheme.to_ascii_lowercase().as_str() {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    Host::parse(authority.rsplit('@').next()?, Some(default))
}

/// What an attempt or a command reaches with a limited network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// The hosts that its proxy lets through.
    pub rules: ProxyRules,
    /// Ports of this machine that it needs besides `sandbox.local`: a model that is served here.
    pub local: Vec<u16>,
}

/// What an agent of a kind reaches, or a command if there is none. `models` are the addresses of its model that its
/// environment names, `remotes` those of the repository.
pub fn reach<'a>(
    settings: &SandboxSettings,
    kind: Option<AgentKind>,
    models: impl IntoIterator<Item = &'a str>,
    remotes: impl IntoIterator<Item = &'a str>,
) -> Reach {
    let rule = |host: &Host| HostRule::parse(&host.to_string()).ok();
    let mut reach = Reach::default();
    let hosts = &mut reach.rules.hosts;
    hosts.extend(settings.hosts.iter().filter_map(|entry| HostRule::parse(&entry.text).ok()));
    let remotes = remotes.into_iter().filter_map(host_of_url);
    match settings.network {
        Network::Trusted => {
            hosts.extend(trusted());
            hosts.extend(remotes.filter_map(|host| rule(&host)));
        }
        Network::List => {
            let own = TRUSTED.iter().filter(|(name, _)| kind.is_some_and(|kind| kind.as_str() == *name));
            hosts.extend(
                own.flat_map(|(_, hosts)| hosts.iter()).filter_map(|host| HostRule::parse(host).ok()),
            );
        }
        Network::Open | Network::Off => {}
    }
    for host in models.into_iter().filter_map(host_of_url) {
        let is_here = match host.address() {
            Some(address) => address.is_loopback(),
            None => host.name == "localhost" || host.name.ends_with(".localhost"),
        };
        if is_here {
            // Programs do not ask a proxy for addresses of their own machine.
            reach.local.push(host.port);
        } else {
            hosts.extend(rule(&host));
        }
    }
    reach
}

/// The variables by which programs find the proxy. `java` is what `JAVA_TOOL_OPTIONS` says already.
pub fn proxy_variables(java: Option<&str>) -> Vec<(&'static str, String)> {
    let url = format!("http://127.0.0.1:{PROXY_PORT}");
    let direct = "localhost,127.0.0.1,::1";
    let mut variables: Vec<(&'static str, String)> =
        ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"]
            .into_iter()
            .map(|name| (name, url.clone()))
            .collect();
    variables.extend(["NO_PROXY", "no_proxy"].map(|name| (name, direct.to_owned())));
    variables.push(("NODE_USE_ENV_PROXY", "1".to_owned()));
    let options = format!(
        "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort={PROXY_PORT} -Dhttps.proxyHost=127.0.0.1 \
         -Dhttps.proxyPort={PROXY_PORT} -Dhttp.nonProxyHosts=localhost|127.*|[::1]"
    );
    let java = match java.map(str::trim).filter(|java| !java.is_empty()) {
        Some(java) => format!("{java} {options}"),
        None => options,
    };
    variables.push(("JAVA_TOOL_OPTIONS", java));
    variables
}

#[cfg(test)]
mod tests {
    use super::super::settings::Entry;
    use super::*;

    fn allows(rule: &str, host: &str) -> bool {
        let rule = HostRule::parse(rule).unwrap_or_else(|why| panic!("{rule} {why}"));
        assert_eq!(HostRule::parse(&rule.to_string()).unwrap(), rule, "it is read as it is written");
        Host::parse(host, Some(443)).is_some_and(|host| rule.allows(&host))
    }

    #[test]
    fn a_rule_allows_its_host_and_no_other() {
        for (rule, host) in [
            ("example.org", "example.org"),
            ("example.org", "EXAMPLE.org."),
            ("example.org", "example.org:80"),
            ("example.org:8443", "example.org:8443"),
            ("*.example.org", "a.example.org"),
            ("*.example.org", "a.b.example.org:443"),
            ("127.0.0.1:9000", "127.0.0.1:9000"),
            ("[::1]:9000", "[0:0::1]:9000"),
        ] {
            assert!(allows(rule, host), "{rule} {host}");
        }
        for (rule, host) in [
            ("example.org", "example.org:22"),
            ("example.org", "a.example.org"),
            ("example.org", "example.org.evil.test"),
            ("example.org", "evilexample.org"),
            ("example.org:8443", "example.org"),
            ("*.example.org", "example.org"),
            ("*.example.org", "evilexample.org"),
            ("*.example.org", ".example.org"),
            ("127.0.0.1:9000", "127.0.0.1:9001"),
            ("127.0.0.1:9000", "127.1:9000"),
            ("127.0.0.1:9000", "localhost:9000"),
            ("127.0.0.1:9000", "[::ffff:127.0.0.1]:9000"),
        ] {
            assert!(!allows(rule, host), "{rule} {host}");
        }
    }

    #[test]
    fn what_is_no_host_is_no_rule() {
        for text in [
            "",
            "*",
            "*.",
            "*.org",
            "a*.example.org",
            "https://example.org",
            "example.org/x",
            "exa mple.org",
            "a..b",
            "example.org:0",
            "example.org:70000",
            "example.org:+80",
            "example.org:",
            "-a.org",
            "*.1.2.3.4",
            "1.2.3",
            "2130706433",
            "0x7f.1",
            "[::1",
            "a:b:c",
            "ex\namp.le",
            "ü.org",
        ] {
            assert!(HostRule::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_name_never_leads_to_this_machine_and_an_address_does_as_written() {
        let rules = ProxyRules {
            hosts: ["example.org", "127.0.0.1:9000"].map(|text| HostRule::parse(text).unwrap()).to_vec(),
        };
        let decide = |text: &str| rules.decide(&Host::parse(text, Some(443)).unwrap());
        assert_eq!(decide("example.org"), Ruling::Public);
        assert_eq!(decide("127.0.0.1:9000"), Ruling::Written);
        assert_eq!(decide("169.254.169.254:80"), Ruling::Refused);
        let loopback: IpAddr = "127.0.0.1".parse().unwrap();
        assert!(!ProxyRules::may_reach(Ruling::Public, loopback));
        assert!(ProxyRules::may_reach(Ruling::Written, loopback));
        for inner in ["10.0.0.1", "169.254.169.254", "192.168.1.1", "::1", "fe80::1", "::ffff:127.0.0.1"] {
            assert!(!ProxyRules::may_reach(Ruling::Public, inner.parse().unwrap()), "{inner}");
        }
    }

    #[test]
    fn every_trusted_host_is_a_rule() {
        let all: usize = TRUSTED.iter().map(|(_, hosts)| hosts.len()).sum();
        assert_eq!(trusted().len(), all);
    }

    #[test]
    fn hosts_of_urls() {
        let host = |url| host_of_url(url).map(|host| host.to_string());
        assert_eq!(host("https://api.example.org/v1").as_deref(), Some("api.example.org:443"));
        assert_eq!(host("http://127.0.0.1:4010").as_deref(), Some("127.0.0.1:4010"));
        assert_eq!(
            host("https://user:pass@git.example.org:8443/x.git").as_deref(),
            Some("git.example.org:8443")
        );
        for url in
            ["git@github.com:a/b.git", "ssh://git@example.org/x", "/srv/x.git", "file:///x", "", "https://"]
        {
            assert_eq!(host(url), None, "{url}");
        }
    }

    #[test]
    fn what_an_agent_reaches_depends_on_the_network() {
        let settings = |network| SandboxSettings {
            network,
            hosts: vec![Entry { text: "db.example.org:5000".into(), line: 1 }],
            ..SandboxSettings::default()
        };
        let models = ["http://localhost:4000/v1", "http://[::1]:4001", "https://llm.example.org"];
        let remotes = ["https://git.example.org/a.git", "git@github.com:a/b.git"];
        let shown = |network, kind| {
            let reach = reach(&settings(network), kind, models, remotes);
            assert_eq!(reach.local, [4000, 4001]);
            reach.rules.hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            shown(Network::List, Some(AgentKind::Codex)),
            "db.example.org:5000 api.openai.com auth.openai.com chatgpt.com llm.example.org:443"
        );
        assert_eq!(shown(Network::List, None), "db.example.org:5000 llm.example.org:443");
        let trusted = shown(Network::Trusted, None);
        assert!(
            trusted.ends_with("bitbucket.org api.bitbucket.org git.example.org:443 llm.example.org:443"),
            "{trusted}"
        );
    }

    #[test]
    fn programs_find_the_proxy() {
        let find = |java, name: &str| {
            let variables = proxy_variables(java);
            variables.into_iter().find(|(one, _)| *one == name).map(|(_, value)| value).unwrap()
        };
        for name in ["HTTP_PROXY", "https_proxy", "ALL_PROXY"] {
            assert_eq!(find(None, name), "http://127.0.0.1:3128");
        }
        assert!(find(Some("-Xmx1g"), "JAVA_TOOL_OPTIONS").starts_with("-Xmx1g -Dhttp.proxyHost=127.0.0.1 "));
        assert_eq!(find(None, "no_proxy"), "localhost,127.0.0.1,::1");
    }
}
