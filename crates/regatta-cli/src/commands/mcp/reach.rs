//! The address an HTTP server listens on, and its token.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use regatta_engine::tokens::fresh_token;

use regatta_ops::Refusal;

/// The minimum length of a token that the user chose.
const SHORTEST: usize = 16;

/// Parses `text`: a port on the loopback interface, or an address with a port.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let text = text.trim();
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    let text = text.replacen("localhost", "127.0.0.1", 1);
    text.parse()
        .map_err(|_| "is neither a port nor an address with a port, such as 127.0.0.1:7420".to_owned())
}

/// Refuses an address that other machines can reach, unless --host asks for it.
pub(crate) fn check_reach(address: SocketAddr, hosts: &[String]) -> Result<(), Refusal> {
    if address.ip().is_loopback() || !hosts.is_empty() {
        return Ok(());
    }
    Err(Refusal::usage(format!("other machines can reach {address}, and the connection is not encrypted"))
        .hinted("listen on 127.0.0.1, or set --host NAME to the name by which they reach this machine"))
}

/// The token from a file that only the user can read; created if missing.
pub(crate) fn token(path: &Path) -> Result<String, Refusal> {
    let failed = |error: std::io::Error| Refusal::io("reading the token in", path, &error);
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return make(path),
        Err(error) => return Err(failed(error)),
    };
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() || meta.permissions().mode() & 0o077 != 0 {
        return Err(Refusal::refused(format!("other users can read the token in {}", path.display()))
            .hinted(format!("chmod 600 {}", path.display())));
    }
    let mut text = String::new();
    file.take(4096).read_to_string(&mut text).map_err(failed)?;
    let token = text.trim();
    if token.len() < SHORTEST || !token.chars().all(|c| c.is_ascii_graphic()) {
        return Err(Refusal::usage(format!(
            "{} contains no token: one word of at least {SHORTEST} letters and digits",
            path.display()
        ))
        .hinted("remove the file: a new one is created"));
    }
    Ok(token.to_owned())
}

fn make(path: &Path) -> Result<String, Refusal> {
    let failed = |error: std::io::Error| Refusal::io("writing the token to", path, &error);
    let token = fresh_token();
    let mut file =
        std::fs::File::options().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    writeln!(file, "{token}").map_err(failed)?;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_loopbacks_unless_it_says_otherwise() {
        assert_eq!(address("7420").unwrap().to_string(), "127.0.0.1:7420");
        assert_eq!(address("localhost:0").unwrap().to_string(), "127.0.0.1:0");
        assert_eq!(address("[::1]:80").unwrap().to_string(), "[::1]:80");
        assert!(address("example.org:80").is_err() && address("").is_err());
        let all = address("0.0.0.0:80").unwrap();
        assert!(check_reach(all, &[]).is_err());
        assert!(check_reach(all, &["box".to_owned()]).is_ok());
        assert!(check_reach(address("80").unwrap(), &[]).is_ok());
    }
}
