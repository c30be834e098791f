//! Copies bytes between a client and a server until both have ended.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use regatta_core::sandbox::wire::{Body, Chunks};

/// One read. Large, so that a stream is limited by the network and not by calls.
const CHUNK: usize = 128 * 1024;
/// How long a connection may be silent in both directions. A model may think for minutes.
const SILENCE: Duration = Duration::from_secs(30 * 60);

/// When something was last copied, in either direction.
struct Activity {
    begun: Instant,
    last: AtomicU64,
}

impl Activity {
    fn new() -> Arc<Self> {
        Arc::new(Self { begun: Instant::now(), last: AtomicU64::new(0) })
    }

    fn mark(&self) {
        self.last.store(self.begun.elapsed().as_secs(), Ordering::Relaxed);
    }

    fn is_silent(&self) -> bool {
        let last = Duration::from_secs(self.last.load(Ordering::Relaxed));
        self.begun.elapsed().saturating_sub(last) >= SILENCE
    }
}

/// Copies in both directions. The end of one direction is passed on; the other continues.
pub(super) fn both_ways(client: TcpStream, server: TcpStream, first: Vec<u8>) -> io::Result<()> {
    prepare(&client, &server)?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    to_server.write_all(&first)?;
    let activity = Activity::new();
    let upwards = activity.clone();
    let up = std::thread::Builder::new().name("up".into()).stack_size(64 * 1024).spawn(move || {
        let ended = copy(&mut from_client, &mut to_server, &upwards, &mut |bytes| Ok(bytes.len()));
        finish(&from_client, &to_server, &ended);
    })?;
    let (mut from_server, mut to_client) = (server, client);
    let ended = copy(&mut from_server, &mut to_client, &activity, &mut |bytes| Ok(bytes.len()));
    finish(&from_server, &to_client, &ended);
    let _ = up.join();
    Ok(())
}

/// Copies the body of one request to the server and its answer to the client. What the client sends beyond is not
/// passed on: it would be a request that nobody has looked at.
pub(super) fn one_request(
    client: TcpStream,
    server: TcpStream,
    first: Vec<u8>,
    body: Body,
) -> io::Result<()> {
    prepare(&client, &server)?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    let mut rest = Rest::new(body);
    let activity = Activity::new();
    let upwards = activity.clone();
    let up = std::thread::Builder::new().name("up".into()).stack_size(64 * 1024).spawn(move || {
        let ended = (|| {
            let n = rest.take(&first)?;
            to_server.write_all(&first[..n])?;
            if rest.is_over() {
                return Ok(());
            }
            copy(&mut from_client, &mut to_server, &upwards, &mut |bytes| rest.take(bytes))
        })();
        // Not shut down at the end of a request: some servers take that for a client that has gone.
        if ended.is_err() {
            let _ = to_server.shutdown(Shutdown::Both);
        }
    })?;
    let (mut from_server, mut to_client) = (server, client);
    let _ = copy(&mut from_server, &mut to_client, &activity, &mut |bytes| Ok(bytes.len()));
    // The answer is complete: the other direction is over, too.
    let _ = from_server.shutdown(Shutdown::Both);
    let _ = to_client.shutdown(Shutdown::Both);
    let _ = up.join();
    Ok(())
}

/// Ends a connection so that the client can read the answer: what it still sends is read for a moment.
pub(super) fn end_politely(client: &mut TcpStream) {
    let _ = client.shutdown(Shutdown::Write);
    let _ = client.set_read_timeout(Some(Duration::from_millis(200)));
    let mut chunk = [0; 4096];
    for _ in 0..64 {
        if !client.read(&mut chunk).is_ok_and(|n| n > 0) {
            return;
        }
    }
}

fn prepare(client: &TcpStream, server: &TcpStream) -> io::Result<()> {
    for stream in [client, server] {
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        stream.set_nodelay(true)?;
    }
    Ok(())
}

/// Copies until the end. `part` decides how many of the bytes are passed on; fewer than all is the end.
fn copy(
    from: &mut TcpStream,
    to: &mut TcpStream,
    activity: &Activity,
    part: &mut dyn FnMut(&[u8]) -> io::Result<usize>,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let n = match from.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // The other direction may be at work.
            Err(error) if super::is_late(&error) && !activity.is_silent() => continue,
            Err(error) => return Err(error),
        };
        activity.mark();
        let passed = part(&chunk[..n])?;
        to.write_all(&chunk[..passed])?;
        if passed < n {
            return Ok(());
        }
    }
}

fn finish(from: &TcpStream, to: &TcpStream, ended: &io::Result<()>) {
    match ended {
        Ok(()) => {
            let _ = to.shutdown(Shutdown::Write);
        }
        // A broken direction ends both.
        Err(_) => {
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
        }
    }
}

/// What is left of a body.
enum Rest {
    Length(u64),
    Chunked(Chunks),
}

impl Rest {
    fn new(body: Body) -> Self {
        match body {
            Body::Length(n) => Self::Length(n),
            Body::Chunked => Self::Chunked(Chunks::default()),
        }
    }

    fn take(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Length(left) => {
                let n = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= n as u64;
                Ok(n)
            }
            Self::Chunked(chunks) => {
                chunks.take(bytes).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))
            }
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(chunks) => chunks.is_over(),
        }
    }
}
