//! **The shim sleeps until something happens.** Signals become bytes in socket pairs, so that one `poll` waits for
//! children, requests and the clock at once, and nothing is missed between a check and a sleep.

use std::io::{self, ErrorKind, Read};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};

/// The requests since the last check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Requests {
    /// How often the end was requested.
    pub(super) stop: usize,
    /// The end was requested without grace.
    pub(super) now: bool,
}

impl Requests {
    pub(super) fn any(self) -> bool {
        self.now || self.stop > 0
    }

    /// True if the gentle step of the ladder is to be skipped.
    pub(super) fn urgent(self) -> bool {
        self.now || self.stop > 1
    }
}

pub(super) struct Signals {
    child: UnixStream,
    stop: UnixStream,
    now: UnixStream,
}

impl Signals {
    pub(super) fn register() -> io::Result<Self> {
        // Handlers that do nothing. They keep the shim alive and, unlike ignoring, give the agent the default action
        // back: a daemon started by `nohup` or `&` has these ignored, and an agent that inherits that cannot be
        // interrupted.
        for signal in [SIGHUP, SIGINT, SIGQUIT] {
            signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
        }
        Ok(Self { child: pipe(SIGCHLD)?, stop: pipe(SIGTERM)?, now: pipe(SIGUSR1)? })
    }

    /// Sleeps until a signal arrives or the time is over, whichever is first.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> Requests {
        self.wait_also(timeout, None)
    }

    /// Like [`wait`](Self::wait), and until there is something to read.
    pub(super) fn wait_also(&self, timeout: Option<Duration>, also: Option<BorrowedFd<'_>>) -> Requests {
        let fds = [&self.child, &self.stop, &self.now].map(|fd| PollFd::new(fd, PollFlags::IN));
        let also = also.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN));
        let mut fds: Vec<PollFd<'_>> = fds.into_iter().chain(also).collect();
        let timeout = timeout.and_then(|span| Timespec::try_from(span).ok());
        // An interrupted call is a wake-up like any other: every caller checks again.
        let _ = poll(&mut fds, timeout.as_ref());
        drain(&self.child);
        Requests { stop: drain(&self.stop), now: drain(&self.now) > 0 }
    }
}

fn pipe(signal: i32) -> io::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    read.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(signal, write)?;
    Ok(read)
}

fn drain(mut pipe: &UnixStream) -> usize {
    let mut bytes = [0; 64];
    let mut total = 0;
    loop {
        match pipe.read(&mut bytes) {
            Ok(0) => return total,
            Ok(n) => total += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return total,
        }
    }
}
