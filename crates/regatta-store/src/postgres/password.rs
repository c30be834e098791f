//! The password of a store's address that has none: from a file that only its owner can read.
//!
//! `$REGATTA_STORE_PASSWORD_FILE` has the password in its first line. `$PGPASSFILE`, else `~/.pgpass`, has lines of
//! `host:port:database:user:password`, as for every program of PostgreSQL.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::{Result, StoreError};

/// The port of a server whose address names none.
const PORT: u16 = 5432;

/// The longest file that is read, in bytes.
const LONGEST: u64 = 64 * 1024;

/// Finds the password for an address in the files that the environment names.
pub(super) fn find(config: &Config, variable: impl Fn(&str) -> Option<OsString>) -> Result<Option<String>> {
    let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(file) = path("REGATTA_STORE_PASSWORD_FILE") {
        let text = private(&file)?.ok_or_else(|| unusable(&file, "it does not exist"))?;
        return match text.lines().next() {
            Some(line) if !line.is_empty() => Ok(Some(line.to_owned())),
            _ => Err(unusable(&file, "its first line is empty")),
        };
    }
    // As for other programs of PostgreSQL, a file that cannot be used is none: the server may need no password.
    let file = path("PGPASSFILE").or_else(|| Some(path("HOME")?.join(".pgpass")));
    let text = file.and_then(|file| private(&file).ok().flatten());
    Ok(text.and_then(|text| matching(&text, config)))
}

/// The text of a file that nobody else can read; `None` if it does not exist.
fn private(file: &Path) -> Result<Option<String>> {
    let about = match std::fs::metadata(file) {
        Ok(about) => about,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(file, &error)),
    };
    if !about.is_file() || about.len() > LONGEST {
        return Err(unusable(file, "it is no file of a password"));
    }
    if about.mode() & 0o077 != 0 {
        return Err(unusable(file, "others can read it; run chmod 600 on it"));
    }
    std::fs::read_to_string(file).map(Some).map_err(|error| unusable(file, &error))
}

fn unusable(file: &Path, why: impl std::fmt::Display) -> StoreError {
    StoreError::Invalid(format!("the password file {}: {why}", file.display()))
}

/// The password of the first line that matches one of the address's hosts.
fn matching(text: &str, config: &Config) -> Option<String> {
    let user = config.get_user()?;
    let database = config.get_dbname().unwrap_or(user);
    let ports = config.get_ports();
    let places = config.get_hosts().iter().enumerate().map(|(n, host)| {
        let port = ports.get(n).or(ports.first()).copied().unwrap_or(PORT).to_string();
        match host {
            Host::Tcp(name) => (name.clone(), port),
            Host::Unix(_) => ("localhost".to_owned(), port),
        }
    });
    let places: Vec<(String, String)> = places.collect();
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let parts = fields(line)?;
        let fits = |part: &str, value: &str| part == "*" || part == value;
        let is_wanted = places.iter().any(|(host, port)| fits(&parts[0], host) && fits(&parts[1], port))
            && fits(&parts[2], database)
            && fits(&parts[3], user);
        is_wanted.then(|| parts[4].clone())
    })
}

/// The five fields of a line. A backslash makes the next character an ordinary one.
fn fields(line: &str) -> Option<[String; 5]> {
    let mut parts: [String; 5] = Default::default();
    let (mut at, mut is_escaped) = (0, false);
    for c in line.chars() {
        match c {
            '\\' if !is_escaped => {
                is_escaped = true;
                continue;
            }
            ':' if !is_escaped && at < 4 => at += 1,
            c => parts[at].push(c),
        }
        is_escaped = false;
    }
    (at == 4).then_some(parts)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn config(url: &str) -> Config {
        url.parse().unwrap()
    }

    #[test]
    fn the_first_line_that_matches_counts() {
        let text = "# ours\nother:*:*:*:no\n*:6543:boats:me:by\\:port\\\\x\ndb.example:*:*:me:by host\n*:*:*:*:any\nshort:line\n";
        for (url, password) in [
            ("postgres://me@db.example/boats", Some("by host")),
            ("postgres://me@db.example:6543/boats", Some("by:port\\x")),
            ("postgres://me@a,other/boats", Some("no")),
            ("postgres://you@%2Frun%2Fpg/boats", Some("any")),
        ] {
            assert_eq!(matching(text, &config(url)).as_deref(), password, "{url}");
        }
        assert_eq!(
            matching("localhost:5432:d:me:x\n", &config("postgres://me@%2Frun/d")).as_deref(),
            Some("x")
        );
        assert_eq!(matching("h:5432:d:me:x\n", &config("postgres://me@other/d")), None);
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pw");
        let found = |file: &Path| {
            let named = file.to_owned();
            find(&config("postgres://me@h/d"), |name| {
                (name == "REGATTA_STORE_PASSWORD_FILE").then(|| named.clone().into_os_string())
            })
            .map_err(|error| error.to_string().replace(&*dir.path().to_string_lossy(), "DIR"))
        };
        let missing = found(&file).unwrap_err();
        std::fs::write(&file, "secret\nmore\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        let open = found(&file).unwrap_err();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(found(&file).unwrap().as_deref(), Some("secret"));
        std::fs::write(&file, "\n").unwrap();
        insta::assert_snapshot!([missing, open, found(&file).unwrap_err()].join("\n"), @"
        the password file DIR/pw: it does not exist
        the password file DIR/pw: others can read it; run chmod 600 on it
        the password file DIR/pw: its first line is empty
        ");
    }

    #[test]
    fn a_home_without_a_file_has_no_password() {
        let dir = tempfile::tempdir().unwrap();
        let home = |name: &str| (name == "HOME").then(|| dir.path().as_os_str().to_owned());
        let wanted = config("postgres://me@h/d");
        assert_eq!(find(&wanted, home).unwrap(), None);
        std::fs::write(dir.path().join(".pgpass"), "h:*:*:me:x\n").unwrap();
        std::fs::set_permissions(dir.path().join(".pgpass"), std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(find(&wanted, home).unwrap().as_deref(), Some("x"));
        std::fs::set_permissions(dir.path().join(".pgpass"), std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(find(&wanted, home).unwrap(), None, "others can read it");
        let off = |name: &str| (name == "PGPASSFILE").then(|| "/dev/null".into());
        assert_eq!(find(&wanted, off).unwrap(), None);
    }
}
