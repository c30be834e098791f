//! The address of a store: `postgres://user@host/database?project=NAME`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, Host, SslMode, TargetSessionAttrs};

use super::password;
use crate::{Result, StoreError, credentials};

/// How long to wait for a server that does not answer.
const CONNECT: Duration = Duration::from_secs(5);

/// Where the store is, and how to get there.
#[derive(Clone, Debug)]
pub(super) struct Address {
    pub(super) config: Config,
    /// The schema of the project.
    pub(super) schema: String,
    pub(super) trust: Trust,
    /// What this client shows the server.
    pub(super) certificate: Option<Certificate>,
    /// Whether the address itself says which channel binding it wants.
    binds_as_given: bool,
}

/// A client's certificate and its key, as files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Certificate {
    pub(super) chain: PathBuf,
    pub(super) key: PathBuf,
}

/// What a server's certificate has to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Nothing: TLS only hides what is sent.
    Anyone,
    /// That it is this host, confirmed by these authorities, or by those that the system trusts.
    Host(Option<PathBuf>),
}

impl Address {
    fn parse(url: &str) -> Result<Self> {
        let (place, parameters) = url.split_once('?').unwrap_or((url, ""));
        let (mut project, mut roots, mut mode) = (None, None, None);
        let (mut chain, mut key, mut binds_as_given) = (None, None, false);
        let mut others = Vec::new();
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            match name {
                "project" => project = Some(value.to_owned()),
                "sslrootcert" => roots = Some(file(name, value)?),
                "sslcert" => chain = Some(file(name, value)?),
                "sslkey" => key = Some(file(name, value)?),
                "sslmode" => mode = Some(Mode::parse(value)?),
                _ => {
                    binds_as_given |= name == "channel_binding";
                    others.push(parameter);
                }
            }
        }
        let rest = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
        // The parser's own error may quote the address, and with it a password.
        let mut config: Config =
            format!("{place}{rest}").parse().map_err(|error: tokio_postgres::Error| {
                let why =
                    std::error::Error::source(&error).map_or_else(String::new, |why| format!(": {why}"));
                StoreError::Invalid(format!(
                    "the store's address cannot be read{why}; use postgres://USER@HOST/DATABASE"
                ))
            })?;
        if config.get_hosts().is_empty() {
            return Err(StoreError::Invalid(
                "the store's address names no host; use postgres://USER@HOST/DATABASE".into(),
            ));
        }
        let is_here = config.get_hosts().iter().all(is_here);
        let mode = mode.unwrap_or(if is_here { Mode::Prefer } else { Mode::VerifyFull });
        if mode == Mode::Prefer && !is_here {
            return Err(StoreError::Invalid(
                "the store's address has sslmode=prefer, which may send everything unencrypted to another machine; use verify-full"
                    .into(),
            ));
        }
        if (roots.is_some() || chain.is_some()) && mode != Mode::VerifyFull {
            let name = if roots.is_some() { "sslrootcert" } else { "sslcert" };
            return Err(StoreError::Invalid(format!(
                "the store's address has {name}, which needs sslmode=verify-full"
            )));
        }
        let certificate = match (chain, key) {
            (Some(chain), Some(key)) => Some(Certificate { chain, key }),
            (None, None) => None,
            _ => {
                return Err(StoreError::Invalid("the store's address needs both sslcert and sslkey".into()));
            }
        };
        config.ssl_mode(match mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyFull => SslMode::Require,
        });
        if config.get_hosts().len() > 1 {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        config.application_name("regatta");
        config.keepalives_idle(Duration::from_secs(5));
        config.keepalives_interval(Duration::from_secs(2));
        config.keepalives_retries(3);
        config.tcp_user_timeout(Duration::from_secs(10));
        let trust = if mode == Mode::VerifyFull { Trust::Host(roots) } else { Trust::Anyone };
        let address =
            Self { config, schema: schema(project.as_deref())?, trust, certificate, binds_as_given };
        Ok(address.bound())
    }

    /// Reads an address, with its password from a file that this process's environment names if it has none.
    pub(super) fn here(url: &str) -> Result<Self> {
        Self::parse(url)?.with_password(|config| password::find(config, |name| std::env::var_os(name)))
    }

    /// The same with a password from a file, if it has none of its own.
    fn with_password(mut self, find: impl Fn(&Config) -> Result<Option<String>>) -> Result<Self> {
        if self.config.get_password().is_none()
            && let Some(password) = find(&self.config)?
        {
            self.config.password(password);
        }
        Ok(self.bound())
    }

    /// A password is sent to another machine only by SCRAM that is bound to the verified connection, unless the address
    /// says otherwise: a server that asks for it in another way is not the one it is meant for.
    fn bound(mut self) -> Self {
        let is_verified = matches!(self.trust, Trust::Host(_)) && self.certificate.is_none();
        if is_verified && !self.binds_as_given && self.config.get_password().is_some() {
            self.config.channel_binding(ChannelBinding::Require);
        }
        self
    }

    /// Whether TLS is out of the question.
    pub(super) fn is_plain(&self) -> bool {
        self.config.get_ssl_mode() == SslMode::Disable
    }

    /// The name of the project, if the address has one.
    pub(super) fn project(&self) -> Option<String> {
        self.schema.strip_prefix("regatta_").map(str::to_owned)
    }

    /// The address without a password; of the parameters only the project.
    pub(super) fn shown(&self) -> String {
        match self.project() {
            Some(project) => format!("{}?project={project}", self.server()),
            None => self.server(),
        }
    }

    /// The address of the database, without a password and parameters.
    pub(super) fn server(&self) -> String {
        let user = self.config.get_user().map_or_else(String::new, |user| format!("{user}@"));
        let ports = self.config.get_ports();
        let hosts = self.config.get_hosts().iter().enumerate().map(|(n, host)| {
            let port = ports.get(n).or(ports.first()).map_or_else(String::new, |port| format!(":{port}"));
            match host {
                Host::Tcp(name) if name.contains(':') => format!("[{name}]{port}"),
                Host::Tcp(name) => format!("{name}{port}"),
                Host::Unix(path) => format!("{}{port}", path.display()),
            }
        });
        let database = self.config.get_dbname().map_or_else(String::new, |name| format!("/{name}"));
        format!("postgres://{user}{}{database}", hosts.collect::<Vec<_>>().join(","))
    }
}

/// `sslmode`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyFull,
}

impl Mode {
    fn parse(word: &str) -> Result<Self> {
        match word {
            "disable" => Ok(Mode::Disable),
            "prefer" => Ok(Mode::Prefer),
            "require" => Ok(Mode::Require),
            "verify-full" => Ok(Mode::VerifyFull),
            _ => Err(StoreError::Invalid(format!(
                "the store's address has sslmode={word}; use disable, prefer, require or verify-full"
            ))),
        }
    }
}

/// Whether a host is this machine.
fn is_here(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) if name == "localhost" => true,
        Host::Tcp(name) => name.parse().is_ok_and(|address: IpAddr| address.is_loopback()),
    }
}

/// The schema of a project.
fn schema(project: Option<&str>) -> Result<String> {
    let Some(project) = project else { return Ok("regatta".into()) };
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if project.is_empty() || project.len() > 40 || !project.chars().all(is_plain) {
        return Err(StoreError::Invalid(format!(
            "the store's address has project={project}; a project has 1 to 40 of a-z, 0-9 and _"
        )));
    }
    Ok(format!("regatta_{project}"))
}

/// A file that a parameter of the address names.
fn file(name: &str, value: &str) -> Result<PathBuf> {
    credentials::decoded(value)
        .map(PathBuf::from)
        .ok_or_else(|| StoreError::Invalid(format!("{name} in the store's address is no text")))
}

#[cfg(test)]
mod tests {
    use tokio_postgres::config::{ChannelBinding, SslMode};

    use super::{Address, Trust};

    fn parse(url: &str) -> Address {
        Address::parse(url).unwrap()
    }

    #[test]
    fn what_is_shown_has_no_password_and_of_the_parameters_only_the_project() {
        let address = parse("postgres://me:secret@db.example:6543/ours?project=boat&connect_timeout=2");
        assert_eq!(address.shown(), "postgres://me@db.example:6543/ours?project=boat");
        assert_eq!(address.server(), "postgres://me@db.example:6543/ours");
        assert_eq!(address.schema, "regatta_boat");
        let two = parse("postgresql://me@a,b/ours");
        assert_eq!(
            (two.shown().as_str(), two.schema.as_str()),
            ("postgres://me@a:5432,b:5432/ours", "regatta")
        );
        let socket = parse("postgres://me@%2Frun%2Fpg:6543/ours");
        assert_eq!(socket.shown(), "postgres://me@/run/pg:6543/ours");
    }

    #[test]
    fn a_certificate_is_checked_where_the_address_says_so() {
        assert_eq!(parse("postgres://h/d?sslmode=require").trust, Trust::Anyone);
        assert_eq!(parse("postgres://h/d?sslmode=verify-full").trust, Trust::Host(None));
        let own = parse("postgres://h/d?sslmode=verify-full&sslrootcert=%2Fetc%2Fca%20x.pem");
        assert_eq!(own.trust, Trust::Host(Some("/etc/ca x.pem".into())));
    }

    #[test]
    fn another_machine_is_verified_unless_the_address_says_otherwise() {
        for (url, mode, trust) in [
            ("postgres://localhost/d", SslMode::Prefer, Trust::Anyone),
            ("postgres://127.3.2.1/d", SslMode::Prefer, Trust::Anyone),
            ("postgres://%2Frun%2Fpg/d", SslMode::Prefer, Trust::Anyone),
            ("postgres://db.example/d", SslMode::Require, Trust::Host(None)),
            ("postgres://10.0.0.7/d", SslMode::Require, Trust::Host(None)),
            ("postgres://localhost,db.example/d", SslMode::Require, Trust::Host(None)),
            ("postgres://10.0.0.7/d?sslmode=disable", SslMode::Disable, Trust::Anyone),
        ] {
            let address = parse(url);
            assert_eq!((address.config.get_ssl_mode(), address.trust), (mode, trust), "{url}");
        }
    }

    #[test]
    fn a_password_goes_to_another_machine_only_over_a_bound_connection() {
        let binding = |url: &str| parse(url).config.get_channel_binding();
        assert_eq!(binding("postgres://me:x@db.example/d"), ChannelBinding::Require);
        assert_eq!(binding("postgres://me@db.example/d"), ChannelBinding::Prefer);
        assert_eq!(binding("postgres://me:x@localhost/d"), ChannelBinding::Prefer);
        assert_eq!(binding("postgres://me:x@db.example/d?channel_binding=prefer"), ChannelBinding::Prefer);
        let found = parse("postgres://me@db.example/d").with_password(|_| Ok(Some("x".into()))).unwrap();
        assert_eq!(found.config.get_channel_binding(), ChannelBinding::Require);
        let own = "postgres://me:x@db.example/d?sslcert=/c.pem&sslkey=/k.pem";
        assert_eq!(binding(own), ChannelBinding::Prefer);
        let kept = parse("postgres://me:x@db.example/d").with_password(|_| Ok(Some("y".into()))).unwrap();
        assert_eq!(kept.config.get_password(), Some(&b"x"[..]));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_without_its_password() {
        for url in [
            "postgres://me:secret@host/d?sslmode=verify-ca",
            "postgres://me:secret@host/d?project=Big%20One",
            "postgres://me:secret@localhost/d?sslrootcert=/ca.pem",
            "postgres://me:secret@host/d?sslmode=prefer",
            "postgres://me:secret@host/d?sslcert=/c.pem",
            "postgres://me:secret@localhost/d?sslcert=/c.pem&sslkey=/k.pem",
            "postgres://me:secret@host/d?wind=north",
            "postgres://",
        ] {
            let refused = Address::parse(url).unwrap_err().to_string();
            assert!(!refused.contains("secret"), "{refused}");
        }
    }
}
