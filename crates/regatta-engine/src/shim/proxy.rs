//! **From a network of its own an agent reaches the hosts that the rules name, and nothing else.** The shim has the
//! listeners of that network, and makes the connections outside: by name, to an address that it resolved and checked
//! itself, and for TLS only if the client asks for the same host inside.
//!
//! Threads and blocking calls, no runtime: one accepts, and each connection has its own. A connection too many is
//! refused at once, one that does not say what it wants is ended, and all end with the shim.

mod refused;
mod relay;

use std::collections::HashSet;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use regatta_core::sandbox::hosts::{Host, PROXY_PORT, ProxyRules, Ruling};
use regatta_core::sandbox::wire::{self, Hello, Read, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use refused::Refusals;
pub(crate) use refused::refused_hosts_file;
pub use refused::{RefusedHost, refused_hosts};

/// How many connections there are at once.
const MOST_CONNECTIONS: usize = 256;
/// How long a client may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection outside may take to be made.
const CONNECTING: Duration = Duration::from_secs(30);
/// Enough for the system's resolver; the buffers of a relay are its own.
const STACK: usize = 512 * 1024;
/// How often the accepting thread looks whether it is to end.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The proxy of one attempt.
pub(crate) struct Proxy {
    shared: Arc<Shared>,
}

struct Shared {
    rules: ProxyRules,
    refusals: Refusals,
    connections: AtomicUsize,
    is_over: AtomicBool,
}

impl Proxy {
    /// Serves the listeners, each with its port inside. Refused hosts are recorded in `run_dir`.
    pub(crate) fn start(
        listeners: Vec<(u16, TcpListener)>,
        rules: ProxyRules,
        run_dir: &Path,
    ) -> io::Result<Self> {
        for (_, listener) in &listeners {
            listener.set_nonblocking(true)?;
        }
        let shared = Arc::new(Shared {
            rules,
            refusals: Refusals::new(run_dir)?,
            connections: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        });
        let accepting = shared.clone();
        thread("proxy", move || accept(&listeners, &accepting))?;
        Ok(Self { shared })
    }

    /// Accepts no more connections.
    pub(crate) fn end(self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
    }
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.into()).stack_size(STACK).spawn(body).map(drop)
}

fn accept(listeners: &[(u16, TcpListener)], shared: &Arc<Shared>) {
    while !shared.is_over.load(Ordering::SeqCst) {
        let mut watched: Vec<_> =
            listeners.iter().map(|(_, listener)| PollFd::new(listener, PollFlags::IN)).collect();
        if poll(&mut watched, Some(&LOOK)).is_err() {
            continue;
        }
        for (port, listener) in listeners {
            while let Ok((client, _)) = listener.accept() {
                admit(*port, client, shared);
            }
        }
    }
}

fn admit(port: u16, mut client: TcpStream, shared: &Arc<Shared>) {
    if shared.connections.fetch_add(1, Ordering::SeqCst) >= MOST_CONNECTIONS {
        shared.connections.fetch_sub(1, Ordering::SeqCst);
        let _ = client.set_nonblocking(true);
        let _ = client.write_all(answer(503, "too many connections at once").as_bytes());
        return;
    }
    let counted = Counted(shared.clone());
    let started = thread("connection", move || {
        let _ = client.set_nonblocking(false);
        // What a client or a server does wrong ends its own connection.
        let _ = match port {
            PROXY_PORT => serve(client, &counted.0),
            port => forward(client, port),
        };
    });
    // Without a thread the connection is closed, and its count goes with the closure.
    drop(started);
}

/// One connection of the count.
struct Counted(Arc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A port of this machine, as the rules name it.
fn forward(client: TcpStream, port: u16) -> io::Result<()> {
    let server = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), CONNECTING)?;
    relay::both_ways(client, server, Vec::new())
}

fn serve(mut client: TcpStream, shared: &Shared) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    let (mut bytes, request) = match beginning(&mut client, Vec::new(), until, wire::request)? {
        Begun::Read(bytes, request, end) => (bytes[end..].to_vec(), request),
        Begun::Bad(why) => return refuse(&mut client, 400, why),
        Begun::Gone => return Ok(()),
    };
    let host = match &request {
        Request::Connect(host) | Request::Forward { host, .. } => host.clone(),
    };
    let ruling = shared.rules.decide(&host);
    if ruling == Ruling::Refused {
        shared.refusals.add(&host, "not in sandbox.hosts");
        let why = format!("{host} is not in sandbox.hosts; add it to regatta.yaml");
        return refuse(&mut client, 403, &why);
    }
    let addresses = match addresses(&host) {
        Ok(addresses) => addresses,
        Err(error) => return refuse(&mut client, 502, &format!("{host}: {error}")),
    };
    let allowed: Vec<SocketAddr> =
        addresses.into_iter().filter(|address| ProxyRules::may_reach(ruling, address.ip())).collect();
    if allowed.is_empty() {
        shared.refusals.add(&host, "its addresses are those of this machine or its network");
        let why = format!("{host} has no address outside of this machine and its network");
        return refuse(&mut client, 403, &why);
    }
    match request {
        Request::Forward { head, body, .. } => {
            let mut server = match connect(&allowed) {
                Ok(server) => server,
                Err(error) => return refuse(&mut client, 502, &format!("{host}: {error}")),
            };
            server.write_all(&head)?;
            relay::one_request(client, server, bytes, body)
        }
        Request::Connect(_) => {
            // Connected first: a client that gets a yes has a connection.
            let mut server = match connect(&allowed) {
                Ok(server) => server,
                Err(error) => return refuse(&mut client, 502, &format!("{host}: {error}")),
            };
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
            if ruling == Ruling::Public {
                bytes = match greeting(&mut client, bytes, &host)? {
                    Ok(bytes) => bytes,
                    Err(why) => {
                        shared.refusals.add(&host, why);
                        return Ok(());
                    }
                };
            }
            server.write_all(&bytes)?;
            relay::both_ways(client, server, Vec::new())
        }
    }
}

/// Reads the first bytes of a connection to a name, and decides whether they are for that name.
fn greeting(
    client: &mut TcpStream,
    bytes: Vec<u8>,
    host: &Host,
) -> io::Result<Result<Vec<u8>, &'static str>> {
    // On a port of its own a server may speak first, or anything but TLS.
    let must_be_tls = host.port == 443;
    let read = match beginning(client, bytes, Instant::now() + PATIENCE, wire::hello)? {
        Begun::Read(bytes, hello, _) => (bytes, hello),
        Begun::Bad(why) => return Ok(Err(why)),
        Begun::Gone if must_be_tls => return Ok(Err("nothing was said")),
        Begun::Gone => return Ok(Ok(Vec::new())),
    };
    let (bytes, hello) = read;
    Ok(match hello {
        Hello::Named(Some(name)) if name == host.name => Ok(bytes),
        Hello::Named(Some(_)) => Err("TLS asks for another host inside"),
        Hello::Named(None) => Err("TLS names no host inside"),
        Hello::NotTls if must_be_tls => Err("not TLS on port 443"),
        Hello::NotTls if host.port == 80 => {
            match beginning(client, bytes, Instant::now() + PATIENCE, wire::plain)? {
                Begun::Read(bytes, Some(named), _) if named.name == host.name => Ok(bytes),
                _ => Err("a request for another host inside"),
            }
        }
        Hello::NotTls => Ok(bytes),
    })
}

/// What came of a beginning.
enum Begun<T> {
    /// All bytes so far, what they say, and where that ends.
    Read(Vec<u8>, T, usize),
    Bad(&'static str),
    /// The client ended or was too slow.
    Gone,
}

fn beginning<T>(
    client: &mut TcpStream,
    mut bytes: Vec<u8>,
    until: Instant,
    parse: impl Fn(&[u8]) -> Read<T>,
) -> io::Result<Begun<T>> {
    let mut chunk = [0; 16 * 1024];
    loop {
        match parse(&bytes) {
            Read::Done(value, end) => return Ok(Begun::Read(bytes, value, end)),
            Read::Bad(why) => return Ok(Begun::Bad(why)),
            Read::More => {}
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Begun::Gone);
        }
        // The time is for all of it, so that one byte now and then does not prolong it.
        client.set_read_timeout(Some(left))?;
        match client.read(&mut chunk) {
            Ok(0) => return Ok(Begun::Gone),
            Ok(n) => bytes.extend_from_slice(&chunk[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_late(&error) => return Ok(Begun::Gone),
            Err(error) => return Err(error),
        }
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// The addresses of a host, by this machine's resolver.
fn addresses(host: &Host) -> io::Result<Vec<SocketAddr>> {
    if let Some(address) = host.address() {
        return Ok(vec![SocketAddr::from((address, host.port))]);
    }
    let mut seen: HashSet<IpAddr> = HashSet::new();
    let found = (host.name.as_str(), host.port).to_socket_addrs()?;
    Ok(found.filter(|address| seen.insert(address.ip())).take(16).collect())
}

/// Connects to the first address that answers. They are those that were checked: nothing is resolved again.
fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    let until = Instant::now() + CONNECTING;
    for address in addresses {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(address, left.min(CONNECTING / 3)) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn answer(code: u16, why: &str) -> String {
    let word = match code {
        400 => "Bad Request",
        403 => "Forbidden",
        502 => "Bad Gateway",
        _ => "Service Unavailable",
    };
    let body = format!("regatta: {why}\n");
    format!(
        "HTTP/1.1 {code} {word}\r\nX-Regatta: {why}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

fn refuse(client: &mut TcpStream, code: u16, why: &str) -> io::Result<()> {
    // Only our own words and a parsed host: nothing that could begin another line.
    let why: String = why.chars().filter(|c| !c.is_control()).collect();
    client.set_write_timeout(Some(PATIENCE))?;
    client.write_all(answer(code, &why).as_bytes())?;
    relay::end_politely(client);
    Ok(())
}

#[cfg(test)]
mod tests;
