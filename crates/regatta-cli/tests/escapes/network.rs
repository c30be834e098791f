//! Requests to the proxy of a network of its own, by hand: no library would send some of them.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::program::Tried;

/// Where the proxy listens inside.
pub(crate) const PROXY: ([u8; 4], u16) = ([127, 0, 0, 1], 3128);

pub(crate) fn proxy() -> io::Result<TcpStream> {
    if !std::env::var("HTTPS_PROXY").is_ok_and(|proxy| proxy.contains("127.0.0.1:3128")) {
        return Err(io::Error::other("there is no proxy"));
    }
    let stream = TcpStream::connect_timeout(&SocketAddr::from(PROXY), Duration::from_secs(2))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    Ok(stream)
}

/// Asks for a connection, and sends the mark through it.
pub(crate) fn connect(to: &str, mark: &str) -> Tried {
    let mut stream = proxy()?;
    stream.write_all(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").as_bytes())?;
    let line = answer(&mut stream)?;
    stream.write_all(mark.as_bytes())?;
    if line.contains(" 200 ") { Ok(line) } else { Err(io::Error::other(line)) }
}

/// Asks for a document.
pub(crate) fn get(url: &str, host: &str) -> Tried {
    let mut stream = proxy()?;
    stream.write_all(
        format!("GET {url} HTTP/1.1\r\nHost: {host}\r\nExpect: 100-continue\r\n\r\n").as_bytes(),
    )?;
    let line = answer(&mut stream)?;
    if line.contains(" 200 ") { Ok(line) } else { Err(io::Error::other(line)) }
}

fn answer(stream: &mut TcpStream) -> Tried {
    let mut bytes = [0; 512];
    let length = stream.read(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
