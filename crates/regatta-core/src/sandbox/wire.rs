//! The beginnings of what clients send to a proxy, read without IO: the head of an HTTP request, and the first message
//! of TLS. Everything here is hostile until it is parsed.

use super::hosts::Host;

/// The longest head of a request, in bytes.
pub const MOST_HEAD: usize = 64 * 1024;
/// The longest first message of TLS, in bytes.
pub const MOST_HELLO: usize = 64 * 1024;

/// What a client asks a proxy for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A connection to a host, for whatever follows.
    Connect(Host),
    /// One request, to be passed on.
    Forward {
        /// To whom.
        host: Host,
        /// The head as the server gets it.
        head: Vec<u8>,
        /// What follows it.
        body: Body,
    },
}

/// The body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// This many bytes.
    Length(u64),
    /// In pieces that say how long they are.
    Chunked,
}

/// The result of reading a beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read<T> {
    /// More has to come.
    More,
    /// It is complete; it ends after this many bytes.
    Done(T, usize),
    /// It is not what it should be.
    Bad(&'static str),
}

/// Reads the head of a request to a proxy.
pub fn request(bytes: &[u8]) -> Read<Request> {
    let Some(end) = find(bytes, b"\r\n\r\n") else {
        return if bytes.len() > MOST_HEAD {
            Read::Bad("the head is longer than 64 KiB")
        } else {
            Read::More
        };
    };
    if end > MOST_HEAD {
        return Read::Bad("the head is longer than 64 KiB");
    }
    match parse(&bytes[..end]) {
        Ok(request) => Read::Done(request, end + 4),
        Err(why) => Read::Bad(why),
    }
}

fn parse(head: &[u8]) -> Result<Request, &'static str> {
    let head = std::str::from_utf8(head).map_err(|_| "the head is not text")?;
    if head.bytes().any(|byte| byte == 0) || head.replace("\r\n", "").contains(['\r', '\n']) {
        return Err("the head has a line end that is none");
    }
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let words: Vec<&str> = first.split(' ').collect();
    let [method, target, version] = words.as_slice() else {
        return Err("the first line has not three words");
    };
    if !matches!(*version, "HTTP/1.1" | "HTTP/1.0") {
        return Err("the version is not HTTP/1.1");
    }
    if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    {
        return Err("the method is no word");
    }
    let fields = lines.map(field).collect::<Result<Vec<_>, _>>()?;
    if *method == "CONNECT" {
        return Host::parse(target, None).map(Request::Connect).ok_or("the host is not host:port");
    }
    let Some(rest) = strip_scheme(target) else { return Err("the address does not begin with http://") };
    let (authority, path) = match rest.find(['/', '?']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    if authority.contains('@') {
        return Err("the address has a user name in it");
    }
    let host = Host::parse(authority, Some(80)).ok_or("the address has no host")?;
    let named: Vec<&str> = values(&fields, "host").collect();
    match named.as_slice() {
        [] => {}
        [one] if Host::parse(one, Some(80)).as_ref() == Some(&host) => {}
        _ => return Err("the Host header names another host than the address"),
    }
    let body = body(&fields)?;
    let path = match path {
        "" => "/".to_owned(),
        path if path.starts_with('?') => format!("/{path}"),
        path => path.to_owned(),
    };
    let mut text = format!("{method} {path} {version}\r\nHost: {authority}\r\n");
    let dropped = ["host", "connection", "keep-alive", "upgrade", "te", "trailer"];
    for (name, value) in &fields {
        let lower = name.to_ascii_lowercase();
        if !dropped.contains(&lower.as_str()) && !lower.starts_with("proxy-") {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    // One request per connection, so that a second one cannot hide behind the first.
    text.push_str("Connection: close\r\n\r\n");
    Ok(Request::Forward { host, head: text.into_bytes(), body })
}

/// Reads the head of a request to a server itself: the host that it names, if it is one and names one.
pub fn plain(bytes: &[u8]) -> Read<Option<Host>> {
    match find(bytes, b"\r\n\r\n") {
        Some(end) => Read::Done(named_in(&bytes[..end]), end + 4),
        None if bytes.len() > MOST_HEAD => Read::Bad("the head is longer than 64 KiB"),
        None => Read::More,
    }
}

fn named_in(head: &[u8]) -> Option<Host> {
    let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
    let first: Vec<&str> = lines.next()?.split(' ').collect();
    let [_, target, version] = first.as_slice() else { return None };
    if !target.starts_with('/') || !version.starts_with("HTTP/1.") {
        return None;
    }
    let fields = lines.map(field).collect::<Result<Vec<_>, _>>().ok()?;
    let mut named = values(&fields, "host");
    match (named.next(), named.next()) {
        (Some(one), None) => Host::parse(one, Some(80)),
        _ => None,
    }
}

fn strip_scheme(target: &str) -> Option<&str> {
    target
        .split_at_checked(7)
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("http://"))
        .map(|(_, rest)| rest)
}

fn field(line: &str) -> Result<(&str, &str), &'static str> {
    let (name, value) = line.split_once(':').ok_or("a header has no colon")?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err("a header has a name that is none");
    }
    Ok((name, value.trim_matches([' ', '\t'])))
}

fn values<'a>(fields: &'a [(&'a str, &'a str)], wanted: &'a str) -> impl Iterator<Item = &'a str> {
    fields.iter().filter(move |(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| *value)
}

fn body(fields: &[(&str, &str)]) -> Result<Body, &'static str> {
    let coded: Vec<&str> = values(fields, "transfer-encoding").collect();
    let long: Vec<&str> = values(fields, "content-length").collect();
    match (coded.as_slice(), long.as_slice()) {
        ([], []) => Ok(Body::Length(0)),
        ([], [one]) if !one.is_empty() && one.bytes().all(|byte| byte.is_ascii_digit()) => {
            one.parse().map(Body::Length).map_err(|_| "the length is too large")
        }
        ([one], []) if one.eq_ignore_ascii_case("chunked") => Ok(Body::Chunked),
        _ => Err("the length of the body is not clear"),
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// Follows a body in pieces, byte by byte, to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunks {
    state: State,
    left: u64,
    line: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Size,
    Extension,
    SizeEnd,
    Data,
    DataEnd,
    DataEnded,
    /// At the beginning of a line after the last piece.
    Trailer,
    InTrailer,
    TrailerEnd,
    LastEnd,
    Over,
}

impl Chunks {
    /// How many of these bytes belong to the body; an error if it is none.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
        let mut at = 0;
        while at < bytes.len() && self.state != State::Over {
            if self.state == State::Data {
                let here = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len() - at);
                at += here;
                self.left -= here as u64;
                if self.left == 0 {
                    self.state = State::DataEnd;
                }
                continue;
            }
            self.state = self.step(bytes[at])?;
            at += 1;
        }
        Ok(at)
    }

    /// Whether the body has ended.
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    fn step(&mut self, byte: u8) -> Result<State, &'static str> {
        self.line += 1;
        if self.line > MOST_HEAD {
            return Err("a line of the body is too long");
        }
        let next = match (self.state, byte) {
            (State::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = u64::from(char::from(byte).to_digit(16).unwrap_or_default());
                let grown = self.left.checked_mul(16).and_then(|left| left.checked_add(digit));
                self.left = grown.ok_or("a piece of the body is too long")?;
                State::Size
            }
            (State::Size, b';' | b' ' | b'\t') if self.line > 1 => State::Extension,
            (State::Size, b'\r') if self.line > 1 => State::SizeEnd,
            (State::Extension, b'\r') => State::SizeEnd,
            (State::Extension, byte) if byte != b'\n' => State::Extension,
            (State::SizeEnd, b'\n') if self.left == 0 => State::Trailer,
            (State::SizeEnd, b'\n') => State::Data,
            (State::DataEnd, b'\r') => State::DataEnded,
            (State::DataEnded, b'\n') => State::Size,
            (State::Trailer, b'\r') => State::LastEnd,
            (State::InTrailer, b'\r') => State::TrailerEnd,
            (State::Trailer | State::InTrailer, byte) if byte != b'\n' => State::InTrailer,
            (State::TrailerEnd, b'\n') => State::Trailer,
            (State::LastEnd, b'\n') => State::Over,
            _ => return Err("the body is not in pieces as it says"),
        };
        if matches!(next, State::Data | State::Trailer) || (next == State::Size && self.state != State::Size)
        {
            self.line = 0;
        }
        Ok(next)
    }
}

/// The first message of a TLS client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hello {
    /// It asks for this host, in lower case without a final dot; `None` if it names none.
    Named(Option<String>),
    /// It is not TLS.
    NotTls,
}

/// Reads the first message of a TLS client, in however many records it comes.
pub fn hello(bytes: &[u8]) -> Read<Hello> {
    let begin = [0x16, 0x03];
    let seen = bytes.len().min(2);
    if bytes[..seen] != begin[..seen] {
        return Read::Done(Hello::NotTls, 0);
    }
    let mut message = Vec::new();
    let mut rest = bytes;
    loop {
        // The whole message is here: four bytes of head, and what they say.
        if let [1, a, b, c, ..] = message[..] {
            let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            if length > MOST_HELLO {
                return Read::Bad("the first message of TLS is longer than 64 KiB");
            }
            if message.len() >= 4 + length {
                return match name(&message[4..4 + length]) {
                    Some(named) => Read::Done(Hello::Named(named), bytes.len() - rest.len()),
                    None => Read::Bad("the first message of TLS cannot be read"),
                };
            }
        } else if message.first().is_some_and(|kind| *kind != 1) {
            return Read::Bad("the first message of TLS is not a client's");
        }
        if bytes.len() > MOST_HELLO + 5 * 1024 {
            return Read::Bad("the first message of TLS is longer than 64 KiB");
        }
        let [kind, major, _, high, low, after @ ..] = rest else { return Read::More };
        let length = usize::from(*high) << 8 | usize::from(*low);
        if (*kind, *major) != (0x16, 0x03) || length == 0 || length > 16 * 1024 + 256 {
            return Read::Bad("a record of TLS is none");
        }
        let Some((part, after)) = after.split_at_checked(length) else { return Read::More };
        message.extend_from_slice(part);
        rest = after;
    }
}

/// The name in the body of a client's first message. `None` if it cannot be read.
fn name(body: &[u8]) -> Option<Option<String>> {
    let mut body = Parts(body);
    body.take(2 + 32)?;
    body.block8()?;
    body.block16()?;
    body.block8()?;
    if body.0.is_empty() {
        return Some(None);
    }
    let mut extensions = Parts(body.block16()?);
    if !body.0.is_empty() {
        return None;
    }
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number16()?;
        let data = extensions.block16()?;
        if kind == 0 {
            let mut list = Parts(data);
            let mut names = Parts(list.block16()?);
            let (kind, text) = (names.take(1)?[0], names.block16()?);
            // One name of the one kind there is, once.
            if kind != 0 || !names.0.is_empty() || !list.0.is_empty() || found.is_some() {
                return None;
            }
            let text = std::str::from_utf8(text).ok()?;
            found = Some(Host::new(text, 443)?.name);
        }
    }
    Some(found)
}

/// Bytes that are read from their beginning.
struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (part, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(part)
    }

    fn number16(&mut self) -> Option<usize> {
        let part = self.take(2)?;
        Some(usize::from(part[0]) << 8 | usize::from(part[1]))
    }

    fn block8(&mut self) -> Option<&'a [u8]> {
        let length = usize::from(self.take(1)?[0]);
        self.take(length)
    }

    fn block16(&mut self) -> Option<&'a [u8]> {
        let length = self.number16()?;
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Read<Request> {
        request(text.replace('\n', "\r\n").as_bytes())
    }

    #[test]
    fn a_connection_is_asked_for() {
        let asked =
            head("CONNECT Example.org:443 HTTP/1.1\nHost: example.org:443\nProxy-Connection: keep\n\n");
        let host = Host { name: "example.org".into(), port: 443 };
        assert!(matches!(&asked, Read::Done(Request::Connect(found), _) if *found == host), "{asked:?}");
        for wrong in [
            "CONNECT example.org HTTP/1.1\n\n",
            "CONNECT example.org:0 HTTP/1.1\n\n",
            "CONNECT example.org:443\n\n",
            "CONNECT  example.org:443 HTTP/1.1\n\n",
            "CONNECT example.org:443 HTTP/2\n\n",
            "CONNECT a@example.org:443 HTTP/1.1\n\n",
            "CONNECT 2130706433:80 HTTP/1.1\n\n",
            "CONNECT example.org:443 HTTP/1.1\nno colon\n\n",
            "CONNECT example.org:443 HTTP/1.1\nbad name: x\n\n",
        ] {
            assert!(matches!(head(wrong), Read::Bad(_)), "{wrong}");
        }
        assert!(matches!(request(b"CONNECT a.b:1 HTTP/1.1\nX: y\r\n\r\n"), Read::Bad(_)), "a bare line feed");
        assert_eq!(head("CONNECT example.org:443 HTTP/1.1\n"), Read::More);
        assert!(matches!(request(&vec![b'x'; MOST_HEAD + 1]), Read::Bad(_)));
    }

    #[test]
    fn a_request_is_passed_on_alone_and_to_the_host_it_names() {
        let text = "POST http://example.org/a?b HTTP/1.1\nHost: Example.org\nContent-Length: 5\n\
                    Proxy-Authorization: x\nConnection: keep-alive, upgrade\nUpgrade: h2c\nExpect: 100-continue\n\n";
        let Read::Done(Request::Forward { host, head: sent, body }, end) = head(text) else { panic!() };
        assert_eq!((host.to_string().as_str(), body), ("example.org:80", Body::Length(5)));
        assert_eq!(end, text.replace('\n', "\r\n").len());
        let sent = String::from_utf8(sent).unwrap();
        assert_eq!(
            sent,
            "POST /a?b HTTP/1.1\r\nHost: example.org\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
        );
        for wrong in [
            "GET / HTTP/1.1\nHost: example.org\n\n",
            "GET https://example.org/ HTTP/1.1\n\n",
            "GET http://example.org/ HTTP/1.1\nHost: evil.test\n\n",
            "GET http://example.org/ HTTP/1.1\nHost: example.org\nHost: evil.test\n\n",
            "GET http://example.org/ HTTP/1.1\nHost: example.org:8080\n\n",
            "GET http://u@example.org/ HTTP/1.1\n\n",
            "GET http:///x HTTP/1.1\n\n",
            "GET http://example.org/ HTTP/1.1\nContent-Length: 1\nTransfer-Encoding: chunked\n\n",
            "GET http://example.org/ HTTP/1.1\nContent-Length: 1\nContent-Length: 2\n\n",
            "GET http://example.org/ HTTP/1.1\nContent-Length: -1\n\n",
            "GET http://example.org/ HTTP/1.1\nTransfer-Encoding: gzip, chunked\n\n",
        ] {
            assert!(matches!(head(wrong), Read::Bad(_)), "{wrong}");
        }
    }

    #[test]
    fn a_body_in_pieces_has_an_end_wherever_it_is_cut() {
        let body =
            b"5;x=y\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\nTrailer: x\r\n\r\nGET http://evil/ HTTP/1.1";
        let end = body.len() - b"GET http://evil/ HTTP/1.1".len();
        for cut in 0..body.len() {
            let mut chunks = Chunks::default();
            let first = chunks.take(&body[..cut]).unwrap();
            let second = if first == cut { chunks.take(&body[cut..]).unwrap() } else { 0 };
            assert_eq!((first + second, chunks.is_over()), (end, true), "cut at {cut}");
        }
        for wrong in ["\r\n", "x\r\n", "5\nhello", "5\r\nhelloX", "fffffffffffffffff\r\n", "5\r\nhello\rX"] {
            assert!(Chunks::default().take(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
    }

    fn block16(data: &[u8]) -> Vec<u8> {
        [&u16::try_from(data.len()).unwrap().to_be_bytes()[..], data].concat()
    }

    /// A client's first message, with these extensions.
    fn message(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let all: Vec<u8> = extensions
            .iter()
            .flat_map(|(kind, data)| [&kind.to_be_bytes()[..], &block16(data)].concat())
            .collect();
        let body = [&[3, 3][..], &[7; 32], &[0], &block16(&[0x13, 1]), &[1, 0], &block16(&all)].concat();
        [&[1, 0][..], &block16(&body)].concat()
    }

    fn server_name(name: &str) -> (u16, Vec<u8>) {
        (0, block16(&[&[0][..], &block16(name.as_bytes())].concat()))
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        message.chunks(size).flat_map(|part| [&[0x16, 3, 1][..], &block16(part)].concat()).collect()
    }

    #[test]
    fn the_name_is_found_in_however_many_records() {
        let message = message(&[(10, vec![0; 4]), server_name("API.example.org"), (43, vec![2, 3, 4])]);
        for size in [1, 2, 3, 50, 1000] {
            let bytes = records(&message, size);
            let named = Hello::Named(Some("api.example.org".into()));
            assert_eq!(hello(&bytes), Read::Done(named, bytes.len()), "{size}");
            for cut in 0..bytes.len() {
                assert_eq!(hello(&bytes[..cut]), Read::More, "{cut} of {size}");
            }
        }
    }

    #[test]
    fn what_is_no_first_message_is_told() {
        let whole = |extensions: &[(u16, Vec<u8>)]| hello(&records(&message(extensions), 1000));
        assert!(matches!(whole(&[(10, vec![])]), Read::Done(Hello::Named(None), _)));
        assert!(matches!(whole(&[server_name("a.org"), server_name("b.org")]), Read::Bad(_)), "two names");
        assert!(matches!(whole(&[server_name("a b")]), Read::Bad(_)));
        let two = [block16(b"a.org"), vec![0], block16(b"b.org")].concat();
        assert!(matches!(whole(&[(0, block16(&[vec![0], two].concat()))]), Read::Bad(_)));
        assert_eq!(hello(b"GET / HTTP/1.1\r\n"), Read::Done(Hello::NotTls, 0));
        assert_eq!(hello(b""), Read::More);
        assert_eq!(hello(b"\x16"), Read::More);
        assert_eq!(hello(b"\x16\x02"), Read::Done(Hello::NotTls, 0));
        assert!(matches!(hello(b"\x16\x03\x01\x00\x00"), Read::Bad(_)), "an empty record");
        assert!(matches!(hello(b"\x16\x03\x01\xff\xff"), Read::Bad(_)), "a huge record");
        assert!(matches!(hello(b"\x16\x03\x01\x00\x01\x02"), Read::Bad(_)), "a server's message");
        assert!(matches!(hello(&records(&[1, 255, 255, 255], 4)), Read::Bad(_)), "16 MB are announced");
    }

    #[test]
    fn no_bytes_make_a_reader_fall() {
        // A generator of its own, so that a failure can be repeated.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let good = [
            records(&message(&[server_name("api.example.org"), (43, vec![2, 3, 4])]), 17),
            b"POST http://example.org/a HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\n\r\n"
                .to_vec(),
            b"5;x=y\r\nhello\r\n0\r\n\r\n".to_vec(),
        ];
        for round in 0..30_000_usize {
            let mut bytes = good[round % good.len()].clone();
            for _ in 0..=next() % 4 {
                let at = usize::try_from(next()).unwrap_or(0) % bytes.len();
                match next() % 3 {
                    0 => bytes[at] = (next() & 0xff) as u8,
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, (next() & 0xff) as u8),
                }
            }
            for end in [bytes.len() / 2, bytes.len()] {
                let _ = (request(&bytes[..end]), hello(&bytes[..end]));
                let taken = Chunks::default().take(&bytes[..end]);
                assert!(taken.is_err() || taken.is_ok_and(|n| n <= end));
            }
        }
    }
}
