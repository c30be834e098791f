//! Files that hold the credentials of a store: no agent may read them.

use std::ffi::OsString;
use std::path::PathBuf;

/// Parameters of an address that name such a file.
const PARAMETERS: [&str; 2] = ["sslkey", "auth_file"];

/// Variables that name such a file.
const VARIABLES: [&str; 2] = ["REGATTA_STORE_PASSWORD_FILE", "PGPASSFILE"];

/// The files of credentials that an address and the environment name. They need not exist.
pub fn credential_files(url: &str, variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let (_, parameters) = url.split_once('?').unwrap_or((url, ""));
    let named = parameters.split('&').filter_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        PARAMETERS.contains(&name).then(|| decoded(value))?.map(PathBuf::from)
    });
    let given = VARIABLES.iter().filter_map(|name| variable(name)).map(PathBuf::from);
    named.chain(given).filter(|path| !path.as_os_str().is_empty()).collect()
}

/// A value of an address with its percent signs resolved; `None` if that is no text.
pub(crate) fn decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = value.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        let coded = if *first == b'%' { tail.get(..2) } else { None };
        let coded = coded.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(coded.unwrap_or(*first));
        rest = if coded.is_some() { &tail[2..] } else { rest };
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_is_named_is_found() {
        let url = "postgres://me@h/d?project=x&sslkey=%2Fetc%2Fmy%20key.pem&sslcert=/etc/my.pem";
        let environment = |name: &str| (name == "PGPASSFILE").then(|| "/pw".into());
        assert_eq!(
            credential_files(url, environment),
            [PathBuf::from("/etc/my key.pem"), PathBuf::from("/pw")]
        );
        assert_eq!(credential_files("sqlite:x?y", |_| None), Vec::<PathBuf>::new());
        assert_eq!(decoded("a%2"), Some("a%2".to_owned()));
        assert_eq!(decoded("%ff"), None);
    }
}
