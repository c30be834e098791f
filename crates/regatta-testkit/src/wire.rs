//! A TCP proxy that a test steers: it delays, throttles, holds, swallows, cuts, closes and resets what passes.
//!
//! Each connection has two ways, [`Way::Up`] to the server and [`Way::Down`] from it, with their own [`Rules`]. What is
//! set on the [`Wire`] applies to all connections, open and future; what is set on a [`Link`] to that one.
//!
//! A way that swallows has lost bytes for good, so [`Wire::heal`] resets its connections instead of letting half a
//! message through.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;

/// Largest piece that is passed on at once.
const PIECE: usize = 16 * 1024;
/// How many pieces may be under way in one direction before the sender has to wait.
const UNDER_WAY: usize = 64;
/// How often a blocked write looks whether its connection has ended.
const LOOK: Duration = Duration::from_millis(100);

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// Whether bytes pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// They do.
    #[default]
    Through,
    /// They wait.
    Held,
    /// They are lost, ends of streams included, as behind a firewall that forgot the connection.
    Swallowed,
}

/// What happens to the bytes of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// How much later each byte arrives.
    pub delay: Duration,
    /// The most bytes per second.
    pub rate: Option<u64>,
    /// Whether they arrive at all.
    pub flow: Flow,
}

/// Where connections lead.
#[derive(Clone, Debug)]
pub enum Upstream {
    /// A server that listens on an address.
    Tcp(SocketAddr),
    /// A server that listens on a socket file, in whichever network namespace.
    Unix(PathBuf),
}

/// A running proxy. Ends all connections when it is dropped.
#[derive(Debug)]
pub struct Wire {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    upstream: Upstream,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rules: [Rules; 2],
    links: Vec<Link>,
    accepted: u64,
    is_refusing: bool,
    is_over: bool,
    /// After this number of further bytes in a direction the connection that carries the next one ends.
    cut: [Option<u64>; 2],
    carried: [u64; 2],
    cuts: u64,
}

/// One connection.
#[derive(Clone, Debug)]
pub struct Link(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    // The threads of a connection own its sockets, so that these close when the threads end.
    client: Weak<End>,
    server: Weak<End>,
    steer: Mutex<Steer>,
    changed: Condvar,
}

#[derive(Debug)]
struct Steer {
    rules: [Rules; 2],
    has_lost: bool,
    is_over: bool,
}

impl Wire {
    /// Listens on loopback.
    pub fn start(upstream: Upstream) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        Self::over(listener, upstream)
    }

    /// Takes connections from this listener, which may be one of another network namespace.
    pub fn over(listener: TcpListener, upstream: Upstream) -> Self {
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(Shared { upstream, state: Mutex::default() });
        let accepting = Arc::downgrade(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        Self { address, shared }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the rules of a direction for all connections, open and future.
    pub fn set(&self, way: Way, change: impl Fn(&mut Rules)) {
        let mut state = self.shared.lock();
        change(&mut state.rules[way as usize]);
        for link in &state.links {
            link.set(way, &change);
        }
    }

    /// Both ways of all connections are silent from now on; new connections are taken and get no answer either.
    pub fn swallow(&self) {
        for way in [Way::Up, Way::Down] {
            self.set(way, |rules| rules.flow = Flow::Swallowed);
        }
    }

    /// Everything passes again. Connections that have lost bytes are reset.
    pub fn heal(&self) {
        let links = {
            let mut state = self.shared.lock();
            state.rules = Default::default();
            (state.is_refusing, state.cut) = (false, [None; 2]);
            state.links.clone()
        };
        for link in links {
            if link.has_lost() {
                link.reset();
            }
            for way in [Way::Up, Way::Down] {
                link.set(way, |rules| *rules = Rules::default());
            }
        }
    }

    /// Resets new connections as soon as they come.
    pub fn refuse(&self) {
        self.shared.lock().is_refusing = true;
    }

    /// Ends the connection that carries the next byte after `bytes` more in this direction, over all connections
    /// together. Happens once.
    pub fn cut_after(&self, way: Way, bytes: u64) {
        self.shared.lock().cut[way as usize] = Some(bytes);
    }

    /// How many connections were cut by [`Wire::cut_after`].
    pub fn cuts(&self) -> u64 {
        self.shared.lock().cuts
    }

    /// How many bytes have passed in a direction so far.
    pub fn carried(&self, way: Way) -> u64 {
        self.shared.lock().carried[way as usize]
    }

    /// How many connections were taken so far.
    pub fn accepted(&self) -> u64 {
        self.shared.lock().accepted
    }

    /// The open connections, oldest first.
    pub fn links(&self) -> Vec<Link> {
        let mut state = self.shared.lock();
        state.links.retain(Link::is_open);
        state.links.clone()
    }

    /// Ends all connections in order.
    pub fn close(&self) {
        self.links().iter().for_each(Link::close);
    }

    /// Resets all connections.
    pub fn reset(&self) {
        self.links().iter().for_each(Link::reset);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.close();
        // Wakes the thread that accepts. In another network namespace it stays until the program ends.
        drop(TcpStream::connect_timeout(&self.address, Duration::from_secs(1)));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much of a piece still passes, and whether the connection ends after it.
    fn pass(&self, way: Way, len: usize) -> (usize, bool) {
        let mut state = self.lock();
        let way = way as usize;
        let (passes, is_cut) = match state.cut[way] {
            Some(left) if left < len as u64 => (left as usize, true),
            Some(left) => {
                state.cut[way] = Some(left - len as u64);
                (len, false)
            }
            None => (len, false),
        };
        if is_cut {
            state.cut[way] = None;
            state.cuts += 1;
        }
        state.carried[way] += passes as u64;
        (passes, is_cut)
    }
}

fn accept(listener: &TcpListener, shared: &Weak<Shared>) {
    for client in listener.incoming() {
        let Some(shared) = shared.upgrade() else { return };
        let (is_over, is_refusing) = {
            let mut state = shared.lock();
            state.accepted += 1;
            (state.is_over, state.is_refusing)
        };
        let Ok(client) = client else { continue };
        if is_over {
            return;
        }
        if is_refusing {
            let _ = SockRef::from(&client).set_linger(Some(Duration::ZERO));
            continue;
        }
        // A server that is away resets its clients, as a port without a listener does.
        let Ok(server) = End::to(&shared.upstream) else {
            let _ = SockRef::from(&client).set_linger(Some(Duration::ZERO));
            continue;
        };
        let _ = client.set_nodelay(true);
        Link::begin(End::Tcp(client), server, &shared);
    }
}

impl Link {
    fn begin(client: End, server: End, shared: &Arc<Shared>) {
        for end in [&client, &server] {
            end.limit_writes();
        }
        let mut state = shared.lock();
        let steer = Steer { rules: state.rules, has_lost: false, is_over: false };
        let (client, server) = (Arc::new(client), Arc::new(server));
        let inner = Inner {
            client: Arc::downgrade(&client),
            server: Arc::downgrade(&server),
            steer: Mutex::new(steer),
            changed: Condvar::new(),
        };
        let link = Link(Arc::new(inner));
        state.links.retain(Link::is_open);
        state.links.push(link.clone());
        drop(state);
        for (way, from, to) in [(Way::Up, &client, &server), (Way::Down, &server, &client)] {
            let (send, pieces) = sync_channel(UNDER_WAY);
            let (reading, from) = (link.clone(), Arc::clone(from));
            thread::spawn(move || reading.read(&from, &send));
            let (writing, to, shared) = (link.clone(), Arc::clone(to), Arc::downgrade(shared));
            thread::spawn(move || writing.write(way, &to, &pieces, &shared));
        }
    }

    /// Changes the rules of a direction of this connection.
    pub fn set(&self, way: Way, change: impl Fn(&mut Rules)) {
        change(&mut self.steer().rules[way as usize]);
        self.0.changed.notify_all();
    }

    /// Ends it in order: both sides see the end of the stream.
    pub fn close(&self) {
        self.end(false);
    }

    /// Resets it: both sides see an error.
    pub fn reset(&self) {
        self.end(true);
    }

    /// Whether bytes of it were swallowed.
    pub fn has_lost(&self) -> bool {
        self.steer().has_lost
    }

    fn steer(&self) -> MutexGuard<'_, Steer> {
        self.0.steer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one of its sockets is open.
    pub fn is_open(&self) -> bool {
        self.0.client.strong_count() + self.0.server.strong_count() > 0
    }

    fn end(&self, is_reset: bool) {
        self.steer().is_over = true;
        self.0.changed.notify_all();
        for end in [&self.0.client, &self.0.server] {
            if let Some(end) = end.upgrade() {
                end.end(is_reset);
            }
        }
    }

    /// Takes what one side sends. An empty piece is the end of its stream.
    fn read(&self, from: &End, pieces: &SyncSender<(Instant, Vec<u8>)>) {
        loop {
            let mut piece = vec![0; PIECE];
            let n = match from.read(&mut piece) {
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Passed on as a reset.
                Err(_) => return self.reset(),
            };
            piece.truncate(n);
            if pieces.send((Instant::now(), piece)).is_err() || n == 0 {
                return;
            }
        }
    }

    /// Passes it on by the rules.
    fn write(&self, way: Way, to: &End, pieces: &Receiver<(Instant, Vec<u8>)>, shared: &Weak<Shared>) {
        // The channel ends with the thread that reads.
        for (came, piece) in pieces {
            let Some(rules) = self.admitted(way, came) else { break };
            if rules.flow == Flow::Swallowed {
                self.steer().has_lost = true;
                continue;
            }
            let Some(all) = shared.upgrade() else { break };
            if piece.is_empty() {
                to.finish();
                // The other direction may still have something to say.
                continue;
            }
            let (passes, is_cut) = all.pass(way, piece.len());
            if !self.put(to, &piece[..passes]) {
                break;
            }
            if is_cut {
                self.close();
                break;
            }
            if let Some(rate) = rules.rate {
                thread::sleep(Duration::from_secs_f64(passes as f64 / rate.max(1) as f64));
            }
        }
    }

    /// Waits until a piece may pass; `None` if the connection ends first.
    fn admitted(&self, way: Way, came: Instant) -> Option<Rules> {
        let mut steer = self.steer();
        loop {
            if steer.is_over {
                return None;
            }
            let rules = steer.rules[way as usize];
            let early = (came + rules.delay).saturating_duration_since(Instant::now());
            steer = match rules.flow {
                Flow::Swallowed => return Some(rules),
                Flow::Through if early.is_zero() => return Some(rules),
                Flow::Through => {
                    let waited = self.0.changed.wait_timeout(steer, early);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                Flow::Held => self.0.changed.wait(steer).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Writes all of it. False if the connection has ended.
    fn put(&self, to: &End, mut piece: &[u8]) -> bool {
        while !piece.is_empty() {
            match to.write(piece) {
                Ok(n) => piece = &piece[n..],
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
                    ) => {}
                Err(_) => {
                    self.reset();
                    return false;
                }
            }
            if self.steer().is_over {
                return false;
            }
        }
        true
    }
}

/// One end of a connection.
#[derive(Debug)]
enum End {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl End {
    fn to(upstream: &Upstream) -> io::Result<Self> {
        Ok(match upstream {
            Upstream::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, Duration::from_secs(5))?;
                stream.set_nodelay(true)?;
                End::Tcp(stream)
            }
            Upstream::Unix(path) => End::Unix(UnixStream::connect(path)?),
        })
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            End::Tcp(stream) => (&*stream).read(into),
            End::Unix(stream) => (&*stream).read(into),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            End::Tcp(stream) => (&*stream).write(bytes),
            End::Unix(stream) => (&*stream).write(bytes),
        }
    }

    fn limit_writes(&self) {
        let limited = match self {
            End::Tcp(stream) => stream.set_write_timeout(Some(LOOK)),
            End::Unix(stream) => stream.set_write_timeout(Some(LOOK)),
        };
        limited.expect("the limit is not zero");
    }

    fn shutdown(&self, how: Shutdown) {
        // It may have ended already.
        let _ = match self {
            End::Tcp(stream) => stream.shutdown(how),
            End::Unix(stream) => stream.shutdown(how),
        };
    }

    /// Nothing more will be written here.
    fn finish(&self) {
        self.shutdown(Shutdown::Write);
    }

    /// Ends it. A reset is sent by the kernel once the threads have dropped the socket; they wake up, because shutting
    /// down only the reading side sends nothing.
    fn end(&self, is_reset: bool) {
        match self {
            End::Tcp(stream) if is_reset => {
                let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
                self.shutdown(Shutdown::Read);
            }
            _ => self.shutdown(Shutdown::Both),
        }
    }
}

#[cfg(test)]
mod tests;
