//! Wake-ups for commits of other processes.
//!
//! Invariant: no timer runs more often than every five seconds. The kernel reports a commit: each writer touches the
//! database file once its commit is complete, and writes of other programs show in the log beside it. The writer then
//! asks SQLite whether anything really changed.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread::JoinHandle;

use inotify::{Inotify, WatchMask};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::writer::Looker;
use crate::{Result, StoreError};

/// Checks even without a report from the kernel: a hint may be lost with the process that should have given it.
const LOOK_ANYWAY: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// The thread that listens to the kernel. Ends when it is dropped.
pub(super) struct WalWatch {
    stop: File,
    thread: Option<JoinHandle<()>>,
}

impl WalWatch {
    pub(super) fn start(path: &Path, looker: Looker) -> Result<Self> {
        let away =
            |error: std::io::Error| StoreError::Unavailable(format!("cannot watch the store: {error}"));
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| away(error.into()))?;
        let stopped = stop.try_clone().map_err(away)?;
        // Without inotify (a limit of the system was reached) the timer alone has to suffice.
        let inotify = watch_directory(path).ok();
        let thread = std::thread::Builder::new()
            .name("regatta-watch".into())
            .spawn(move || listen(inotify, &stopped, &looker))
            .map_err(away)?;
        Ok(Self { stop: File::from(stop), thread: Some(thread) })
    }
}

impl Drop for WalWatch {
    fn drop(&mut self) {
        let _told = self.stop.write_all(&1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// Watches the directory and not the files: the log is created and removed with the first and the last connection.
fn watch_directory(path: &Path) -> std::io::Result<Inotify> {
    let inotify = Inotify::init()?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    inotify.watches().add(parent, WatchMask::MODIFY | WatchMask::ATTRIB)?;
    Ok(inotify)
}

fn listen(mut inotify: Option<Inotify>, stopped: &OwnedFd, looker: &Looker) {
    let mut buffer = [0u8; 4096];
    loop {
        let mut fds = vec![PollFd::new(stopped, PollFlags::IN)];
        if let Some(inotify) = &inotify {
            fds.push(PollFd::new(inotify, PollFlags::IN));
        }
        let polled = poll(&mut fds, Some(&LOOK_ANYWAY));
        if !fds[0].revents().is_empty() || polled.is_err_and(|error| error != rustix::io::Errno::INTR) {
            return;
        }
        let spoke = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
        if spoke && let Some(inotify) = &mut inotify {
            // The events do not matter, only that the queue is empty afterwards.
            let _drained = inotify.read_events(&mut buffer).map(drop);
        }
        if !looker.look() {
            return;
        }
    }
}
