//! As much of HTTP/1.1 as agents, `gh` and `git` need: one request per connection, answers whole or in chunks.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

/// The longest line of a head, the most lines of one, the longest body.
const LONGEST_LINE: u64 = 64 * 1024;
const MOST_LINES: usize = 200;
const LONGEST_BODY: u64 = 64 * 1024 * 1024;

/// A received request.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) method: String,
    /// A path with its query; a whole address, or only a host, if the client uses us as its proxy.
    pub(crate) target: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn read(stream: impl Read) -> io::Result<Self> {
        let mut reader = BufReader::new(stream);
        let first = line(&mut reader)?;
        let mut words = first.split(' ').map(str::to_owned);
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut received = Self { method, target, headers: Vec::new(), body: Vec::new() };
        for _ in 0..MOST_LINES {
            let line = line(&mut reader)?;
            let Some((name, value)) = line.split_once(':') else { break };
            received.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let is_chunked = received.header("transfer-encoding").eq_ignore_ascii_case("chunked");
        let length = received.header("content-length").parse().unwrap_or(0);
        if is_chunked {
            received.body = chunks(&mut reader)?;
        } else {
            received.body = exactly(&mut reader, length)?;
        }
        Ok(received)
    }

    /// A header by its lower-case name; empty if there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// The value of a header that may be missing.
    pub(crate) fn given(&self, name: &str) -> Option<&str> {
        Some(self.header(name)).filter(|value| !value.is_empty())
    }

    /// The path without the query.
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }
}

/// An answer that is sent in one piece.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::of(status, "application/json; charset=utf-8", body.to_string())
    }

    /// An answer of another type.
    pub(crate) fn of(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: vec![("content-type".to_owned(), kind.to_owned())], body: body.into() }
    }

    pub(crate) fn header(mut self, name: &str, value: impl ToString) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    /// The answer as it is sent.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut head = format!(
            "HTTP/1.1 {} {}\r\ncontent-length: {}\r\nconnection: close\r\n",
            self.status,
            reason(self.status),
            self.body.len()
        );
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        [head.as_bytes(), b"\r\n", &self.body].concat()
    }

    pub(crate) fn send(&self, mut stream: impl Write) -> io::Result<()> {
        stream.write_all(&self.bytes())
    }
}

/// The words beside a status.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        410 => "Gone",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        _ => "Answer",
    }
}

/// Starts an answer of server-sent events.
pub(crate) fn begin_events(mut stream: &TcpStream) -> io::Result<()> {
    stream.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n",
    )
}

/// Sends one event.
pub(crate) fn send_event(mut stream: &TcpStream, event: &Value) -> io::Result<()> {
    let name = event["type"].as_str().map(|name| format!("event: {name}\n")).unwrap_or_default();
    let text = format!("{name}data: {event}\n\n");
    stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
}

/// Ends the events.
pub(crate) fn end_events(mut stream: &TcpStream) -> io::Result<()> {
    stream.write_all(b"0\r\n\r\n")
}

/// Waits until the client has disconnected.
pub(crate) fn wait_for_leave(mut stream: impl Read) {
    while matches!(stream.read(&mut [0; 1024]), Ok(1..)) {}
}

fn line(reader: &mut BufReader<impl Read>) -> io::Result<String> {
    let mut line = String::new();
    reader.take(LONGEST_LINE).read_line(&mut line)?;
    if !line.ends_with('\n') {
        return Err(io::Error::other("a head that ends in the middle, or has no end"));
    }
    Ok(line.trim_end().to_owned())
}

fn exactly(reader: &mut BufReader<impl Read>, length: u64) -> io::Result<Vec<u8>> {
    if length > LONGEST_BODY {
        return Err(io::Error::other("a body that is too long"));
    }
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body)?;
    Ok(body)
}

fn chunks(reader: &mut BufReader<impl Read>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = line(reader)?;
        let size = size.split(';').next().unwrap_or_default();
        let size = u64::from_str_radix(size, 16).map_err(io::Error::other)?;
        body.extend(exactly(reader, size)?);
        line(reader)?;
        if size == 0 {
            return Ok(body);
        }
        if body.len() as u64 > LONGEST_BODY {
            return Err(io::Error::other("a body that is too long"));
        }
    }
}
