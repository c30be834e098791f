//! The address of a store: `zookeeper://host:2181,host:2181/chroot?auth_file=PATH`.

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::{Result, StoreError};

/// ZooKeeper's own port for clients.
const PORT: u16 = 2181;

/// Where the store is if the address names only hosts.
const CHROOT: &str = "/regatta";

const FORM: &str = "use zookeeper://HOST:2181,HOST:2181/CHROOT";

/// Where the store is, and how to get there.
#[derive(Clone, Debug)]
pub(super) struct Address {
    /// `host:port`, separated by commas.
    pub(super) hosts: String,
    /// The node under which everything is kept.
    pub(super) chroot: String,
    /// The user and password of digest authentication are in this file.
    pub(super) auth_file: Option<PathBuf>,
    /// Some host is another machine.
    is_far: bool,
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self> {
        let rest = url.strip_prefix("zookeeper://").or_else(|| url.strip_prefix("zk://"));
        let rest = rest.ok_or_else(|| invalid(&format!("is not ZooKeeper's; {FORM}")))?;
        let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, chroot) = place.split_once('/').unwrap_or((place, ""));
        if hosts.contains('@') {
            return Err(invalid(
                "names a user before the hosts; put USER:PASSWORD into a file and name it with ?auth_file=PATH",
            ));
        }
        let (mut auth_file, mut is_plain) = (None, false);
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=').unwrap_or((parameter, "")) {
                ("auth_file", path) => {
                    let file = crate::credentials::decoded(path).map(PathBuf::from);
                    let whole = file.filter(|file| file.is_absolute());
                    auth_file = Some(whole.ok_or_else(|| {
                        invalid(&format!("has auth_file={path}; name the file by its whole path"))
                    })?);
                }
                ("plain", "true") => is_plain = true,
                ("plain", "false") => is_plain = false,
                (name, _) => {
                    return Err(invalid(&format!(
                        "has the parameter {name:?}; there are auth_file=PATH and plain=true"
                    )));
                }
            }
        }
        let hosts = hosts.split(',').map(host).collect::<Result<Vec<(String, bool)>>>()?;
        if let Some((far, _)) = hosts.iter().find(|(_, is_near)| !is_near && !is_plain) {
            return Err(invalid(&format!(
                "names {far}, and Regatta has no TLS for ZooKeeper: others in the network could read and change what \
                 is sent; add ?plain=true if the network is yours alone, or use postgres://"
            )));
        }
        let is_far = hosts.iter().any(|(_, is_near)| !is_near);
        let hosts: Vec<String> = hosts.into_iter().map(|(host, _)| host).collect();
        Ok(Self { hosts: hosts.join(","), chroot: node(chroot)?, auth_file, is_far })
    }

    /// The address without parameters.
    pub(super) fn shown(&self) -> String {
        format!("zookeeper://{}{}", self.hosts, self.chroot)
    }

    /// The address by which any machine finds the store, if it has the user's password.
    pub(super) fn whole(&self) -> String {
        let shown = self.shown();
        if self.is_far { format!("{shown}?plain=true") } else { shown }
    }

    /// User and password as ZooKeeper wants them, if the address names a file with them.
    pub(super) fn auth(&self) -> Result<Option<String>> {
        let Some(path) = &self.auth_file else { return Ok(None) };
        let unusable = |why: &str| {
            StoreError::Invalid(format!("the file {} with the store's password {why}", path.display()))
        };
        let text =
            std::fs::read_to_string(path).map_err(|error| unusable(&format!("cannot be read: {error}")))?;
        if is_open_to_others(path) {
            return Err(unusable("can be read by other users; run chmod 600 on it"));
        }
        let line = text.trim_end_matches(['\n', '\r']);
        let is_pair =
            line.split_once(':').is_some_and(|(user, password)| !user.is_empty() && !password.is_empty());
        if !is_pair || line.contains('\n') {
            return Err(unusable("has to contain one line, USER:PASSWORD"));
        }
        Ok(Some(line.to_owned()))
    }
}

fn invalid(why: &str) -> StoreError {
    StoreError::Invalid(format!("the store's address {why}"))
}

fn is_open_to_others(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
}

/// A host with its port, and whether it is this machine.
fn host(text: &str) -> Result<(String, bool)> {
    let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, rest)) => (name, rest.strip_prefix(':')),
        None => match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        None => PORT,
        Some(port) => port.parse().map_err(|_| invalid(&format!("has the port {port:?}; {FORM}")))?,
    };
    if name.is_empty() {
        return Err(invalid(&format!("names no host; {FORM}")));
    }
    let address = name.parse::<IpAddr>();
    let is_near = name == "localhost" || address.is_ok_and(|address| address.is_loopback());
    let shown = if name.contains(':') { format!("[{name}]:{port}") } else { format!("{name}:{port}") };
    Ok((shown, is_near))
}

/// The path of a node, from what the address has after its first slash.
fn node(text: &str) -> Result<String> {
    let text = text.trim_end_matches('/');
    if text.is_empty() {
        return Ok(CHROOT.to_owned());
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_name = |part: &str| !part.is_empty() && !matches!(part, "." | "..") && part.chars().all(is_plain);
    if text.len() > 200 || !text.split('/').all(is_name) || text.split('/').next() == Some("zookeeper") {
        return Err(invalid(&format!(
            "has the node /{text}; a node has letters, digits, _, - and . between slashes, and not more than 200 of them"
        )));
    }
    Ok(format!("/{text}"))
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn hosts_get_their_port_and_the_node_has_a_default() {
        let shown = |url: &str| Address::parse(url).unwrap().shown();
        assert_eq!(shown("zk://localhost"), "zookeeper://localhost:2181/regatta");
        assert_eq!(
            shown("zookeeper://127.0.0.1:2182,[::1]/apps/boat/?auth_file=/etc/zk"),
            "zookeeper://127.0.0.1:2182,[::1]:2181/apps/boat"
        );
        assert_eq!(shown("zk://a,b:3000/x?plain=true"), "zookeeper://a:2181,b:3000/x");
        let whole = |url: &str| Address::parse(url).unwrap().whole();
        assert_eq!(whole("zk://localhost?plain=true"), "zookeeper://localhost:2181/regatta");
        assert_eq!(whole("zk://a/x?plain=true&auth_file=/etc/zk"), "zookeeper://a:2181/x?plain=true");
        assert_eq!(shown(&whole("zk://a/x?plain=true")), "zookeeper://a:2181/x");
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (url, why) in [
            ("zk://", "names no host"),
            ("zk://localhost:boat", "has the port"),
            ("zk://me:secret@localhost/x", "auth_file"),
            ("zk://localhost/a//b", "has the node"),
            ("zk://localhost/zookeeper", "has the node"),
            ("zk://localhost?auth_file=zk", "whole path"),
            ("zk://localhost?tls=true", "has the parameter \"tls\""),
            ("zk://zoo.example/x", "plain=true"),
            ("zk://127.0.0.1,10.0.0.7", "names 10.0.0.7:2181"),
        ] {
            let refused = Address::parse(url).unwrap_err().to_string();
            assert!(refused.contains(why) && !refused.contains("secret"), "{url}: {refused}");
        }
    }

    #[test]
    fn a_password_comes_from_a_file_that_is_ones_own() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("zk");
        let address = Address::parse(&format!("zk://localhost?auth_file={}", file.display())).unwrap();
        assert!(address.auth().unwrap_err().to_string().contains("cannot be read"));
        std::fs::write(&file, "me:secret\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(address.auth().unwrap_err().to_string().contains("chmod 600"));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(address.auth().unwrap().as_deref(), Some("me:secret"));
        std::fs::write(&file, "secret\n").unwrap();
        assert!(address.auth().unwrap_err().to_string().contains("USER:PASSWORD"));
    }
}
