//! **A worker of the door is no part of the agent's tree.** Both are children of the shim, so the shim keeps a list: a
//! process on it is neither ended nor counted with the tree, and it is on the list before anybody can look.

use std::collections::{HashMap, HashSet};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process_group};

/// The processes that answer the agent's requests.
pub(super) struct Workers {
    list: Mutex<HashMap<u32, Worker>>,
    /// Rung when one has ended.
    bell: (PipeReader, PipeWriter),
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Worker {
    /// It stays as long as its client, or waits for something.
    pub(super) is_long: bool,
    /// When it must have ended.
    pub(super) until: Option<Instant>,
}

/// The list while it cannot change.
pub(super) struct Listed<'a>(MutexGuard<'a, HashMap<u32, Worker>>, &'a PipeWriter);

impl Workers {
    pub(super) fn new() -> io::Result<Self> {
        let bell = io::pipe()?;
        // Neither ringing nor listening waits.
        fcntl_setfl(&bell.0, OFlags::NONBLOCK)?;
        fcntl_setfl(&bell.1, OFlags::NONBLOCK)?;
        Ok(Self { list: Mutex::default(), bell })
    }

    /// Readable when a worker has ended since [`Workers::quiet`].
    pub(super) fn bell(&self) -> &PipeReader {
        &self.bell.0
    }

    /// Silences the bell.
    pub(super) fn quiet(&self) {
        let mut bytes = [0; 64];
        while (&self.bell.0).read(&mut bytes).is_ok_and(|n| n > 0) {}
    }

    /// The list. While it is held, no worker is started and none may be reaped by anyone else.
    pub(super) fn hold(&self) -> Listed<'_> {
        Listed(self.list.lock().unwrap_or_else(PoisonError::into_inner), &self.bell.1)
    }

    /// Starts a worker in a process group of its own.
    pub(super) fn start(&self, command: &mut Command, worker: Worker) -> io::Result<()> {
        let mut list = self.hold();
        let child = command.spawn()?;
        list.0.insert(child.id(), worker);
        Ok(())
    }

    /// The number of workers, and how many of them are long.
    pub(super) fn count(&self) -> (usize, usize) {
        let list = self.hold();
        (list.0.len(), list.0.values().filter(|worker| worker.is_long).count())
    }

    /// Ends those whose time is over; returns when the next one's is.
    pub(super) fn end_overdue(&self) -> Option<Duration> {
        let now = Instant::now();
        let list = self.hold();
        let mut next = None;
        for (pid, worker) in list.0.iter() {
            match worker.until {
                Some(until) if until <= now => kill(*pid),
                Some(until) => {
                    let left = until - now;
                    next = Some(next.map_or(left, |next: Duration| next.min(left)));
                }
                None => {}
            }
        }
        next
    }

    /// Ends all.
    pub(super) fn kill(&self) {
        self.hold().0.keys().copied().for_each(kill);
    }
}

impl Listed<'_> {
    /// The pids, to be left out of the tree.
    pub(super) fn pids(&self) -> HashSet<u32> {
        self.0.keys().copied().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes a reaped process off the list; false if it was no worker.
    pub(super) fn reaped(&mut self, pid: u32) -> bool {
        let was_worker = self.0.remove(&pid).is_some();
        if was_worker {
            let _ = self.1.write_all(b"x");
        }
        was_worker
    }
}

/// Ends a worker and what it started. It is on the list, so not reaped, and its pid is its own.
fn kill(pid: u32) {
    if let Some(group) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}
