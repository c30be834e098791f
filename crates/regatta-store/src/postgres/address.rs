//! The address of a store: `postgres://user@host/database?project=NAME`.

use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use crate::{Result, StoreError};

/// How long to wait for a server that does not answer.
const CONNECT: Duration = Duration::from_secs(5);

/// Where the store is, and how to get there.
#[derive(Clone, Debug)]
pub(super) struct Address {
    pub(super) config: Config,
    /// The schema of the project.
    pub(super) schema: String,
    pub(super) trust: Trust,
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
    pub(super) fn parse(url: &str) -> Result<Self> {
        let (place, parameters) = url.split_once('?').unwrap_or((url, ""));
        let (mut project, mut roots, mut checks_host) = (None, None, false);
        let mut others = Vec::new();
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            match (name, value) {
                ("project", name) => project = Some(name.to_owned()),
                ("sslrootcert", path) => roots = Some(PathBuf::from(decoded(path)?)),
                ("sslmode", "verify-full") => {
                    checks_host = true;
                    others.push("sslmode=require");
                }
                ("sslmode", "disable" | "prefer" | "require") => others.push(parameter),
                ("sslmode", mode) => {
                    return Err(StoreError::Invalid(format!(
                        "the store's address has sslmode={mode}; use disable, prefer, require or verify-full"
                    )));
                }
                _ => others.push(parameter),
            }
        }
        if roots.is_some() && !checks_host {
            return Err(StoreError::Invalid(
                "the store's address has sslrootcert, which needs sslmode=verify-full".into(),
            ));
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
        let trust = if checks_host { Trust::Host(roots) } else { Trust::Anyone };
        Ok(Self { config, schema: schema(project.as_deref())?, trust })
    }

    /// Whether TLS is out of the question.
    pub(super) fn is_plain(&self) -> bool {
        self.config.get_ssl_mode() == SslMode::Disable
    }

    /// The address without a password and parameters.
    pub(super) fn shown(&self) -> String {
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

/// A value of the address with its percent signs resolved.
fn decoded(value: &str) -> Result<String> {
    let mut bytes = Vec::new();
    let mut rest = value.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        let coded = if *first == b'%' { tail.get(..2) } else { None };
        let coded = coded.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(coded.unwrap_or(*first));
        rest = if coded.is_some() { &tail[2..] } else { rest };
    }
    String::from_utf8(bytes)
        .map_err(|_| StoreError::Invalid(format!("{value:?} in the store's address is no text")))
}

#[cfg(test)]
mod tests {
    use super::{Address, Trust};

    fn parse(url: &str) -> Address {
        Address::parse(url).unwrap()
    }

    #[test]
    fn what_is_shown_has_no_password_and_no_parameters() {
        let address = parse("postgres://me:secret@db.example:6543/ours?project=boat&connect_timeout=2");
        assert_eq!(address.shown(), "postgres://me@db.example:6543/ours");
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
    fn what_cannot_be_meant_is_refused_without_its_password() {
        for url in [
            "postgres://me:secret@host/d?sslmode=verify-ca",
            "postgres://me:secret@host/d?project=Big%20One",
            "postgres://me:secret@host/d?sslrootcert=/ca.pem",
            "postgres://me:secret@host/d?wind=north",
            "postgres://",
        ] {
            let refused = Address::parse(url).unwrap_err().to_string();
            assert!(!refused.contains("secret"), "{refused}");
        }
    }
}
