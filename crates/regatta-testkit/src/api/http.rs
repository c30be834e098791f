//! As much of HTTP/1.1 as the agents need: one request per connection, answers whole or in chunks.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

/// The longest line of a head, the most lines of one, the longest body.
const LONGEST_LINE: u64 = 64 * 1024;
const MOST_LINES: usize = 200;
const LONGEST_BODY: u64 = 64 * 1024 * 1024;

/// A received request.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) method: String,
    /// A path with its query; a whole address, or only a host, if the client uses us as its proxy.
    pub(super) target: String,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Received {
    pub(super) fn read(stream: &TcpStream) -> io::Result<Self> {
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
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// The path without the query.
    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }
}

/// An answer that is sent in one piece.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Reply {
    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self { status, headers: Vec::new(), body: body.to_string() }
    }

    pub(super) fn header(mut self, name: &str, value: impl ToString) -> Self {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    pub(super) fn send(&self, mut stream: &TcpStream) -> io::Result<()> {
        let mut head = format!(
            "HTTP/1.1 {} Answer\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n",
            self.status,
            self.body.len()
        );
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n{}", self.body).as_bytes())
    }
}

/// Starts an answer of server-sent events.
pub(super) fn begin_events(mut stream: &TcpStream) -> io::Result<()> {
    stream.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n",
    )
}

/// Sends one event.
pub(super) fn send_event(mut stream: &TcpStream, event: &Value) -> io::Result<()> {
    let name = event["type"].as_str().map(|name| format!("event: {name}\n")).unwrap_or_default();
    let text = format!("{name}data: {event}\n\n");
    stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
}

/// Ends the events.
pub(super) fn end_events(mut stream: &TcpStream) -> io::Result<()> {
    stream.write_all(b"0\r\n\r\n")
}

/// Waits until the client has disconnected.
pub(super) fn wait_for_leave(mut stream: &TcpStream) {
    while matches!(stream.read(&mut [0; 1024]), Ok(1..)) {}
}

fn line(reader: &mut BufReader<&TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    reader.take(LONGEST_LINE).read_line(&mut line)?;
    if !line.ends_with('\n') {
        return Err(io::Error::other("a head that ends in the middle, or has no end"));
    }
    Ok(line.trim_end().to_owned())
}

fn exactly(reader: &mut BufReader<&TcpStream>, length: u64) -> io::Result<Vec<u8>> {
    if length > LONGEST_BODY {
        return Err(io::Error::other("a body that is too long"));
    }
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body)?;
    Ok(body)
}

fn chunks(reader: &mut BufReader<&TcpStream>) -> io::Result<Vec<u8>> {
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
