//! **The end of a shim is awaited, never polled for**, and works alike for a shim this engine launched and
//! for one it adopted: both are a pidfd.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use regatta_core::exit::Exit;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::record::{self, ExitRecord};
use super::{Identity, StopRequest};

/// A living shim, or one that has just ended.
#[derive(Debug)]
pub struct Shim {
    pidfd: Arc<OwnedFd>,
    run_dir: PathBuf,
    run_id: String,
    identity: Identity,
    agent: Option<Identity>,
    is_our_child: bool,
}

impl Shim {
    pub(super) fn new(
        pidfd: OwnedFd,
        run_dir: &Path,
        run_id: &str,
        identity: Identity,
        agent: Option<Identity>,
        is_our_child: bool,
    ) -> Self {
        let (run_dir, run_id) = (run_dir.to_owned(), run_id.to_owned());
        Self { pidfd: Arc::new(pidfd), run_dir, run_id, identity, agent, is_our_child }
    }

    /// Who the shim is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Where its records are.
    pub fn run_dir(&self) -> &Path {
        &self.run_dir
    }

    /// The marker of its run, for a [`sweep`](super::sweep) should it be lost.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// The agent's pid; none if it never started, or had not yet when the shim was adopted.
    pub fn agent_pid(&self) -> Option<u32> {
        self.agent.as_ref().map(|agent| agent.pid)
    }

    /// Waits until the whole tree is gone and says how it ended.
    ///
    /// [`Exit::Lost`] means that the shim died without a record: then the tree may live, and the engine must
    /// [`sweep`](super::sweep). May be called again, and may be dropped half-way.
    pub async fn wait(&self) -> Exit {
        self.wait_record().await.map_or(Exit::Lost, |record| record.exit)
    }

    /// As [`wait`](Self::wait), with everything the shim recorded; none if it was lost.
    pub async fn wait_record(&self) -> Option<ExitRecord> {
        if self.ended().await.is_err() {
            // No descriptor left, or no reactor: a thread can still wait.
            let pidfd = Arc::clone(&self.pidfd);
            drop(tokio::task::spawn_blocking(move || block_until_ended(&pidfd)).await);
        }
        reap(&self.pidfd);
        record::load(&self.run_dir, record::EXIT).ok().flatten()
    }

    async fn ended(&self) -> io::Result<()> {
        // A descriptor of its own, because one descriptor can be registered only once.
        #[expect(
            deprecated,
            reason = "its successor is unsafe for types that may swap descriptors; an OwnedFd cannot"
        )]
        let pidfd = AsyncFd::with_interest(self.pidfd.try_clone()?, Interest::READABLE)?;
        drop(pidfd.readable().await?);
        Ok(())
    }

    /// Asks for the kill ladder: interrupt, grace, kill. [`wait`](Self::wait) then tells the end.
    ///
    /// A second call cuts the grace short. Asking one that has ended already is no error.
    pub fn stop(&self, request: &StopRequest) -> io::Result<()> {
        self.ask(request, Signal::TERM)
    }

    /// Asks for the end without any grace: the second Ctrl-C.
    pub fn kill_now(&self, request: &StopRequest) -> io::Result<()> {
        self.ask(request, Signal::USR1)
    }

    fn ask(&self, request: &StopRequest, signal: Signal) -> io::Result<()> {
        // A reason that cannot be written, on a full disk say, must not keep the tree alive.
        drop(record::store(&self.run_dir, record::STOP, request));
        match pidfd_send_signal(&*self.pidfd, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        if self.is_our_child
            && !reap(&self.pidfd)
            && let Ok(pidfd) = self.pidfd.try_clone()
        {
            leave_orphan(pidfd);
        }
    }
}

/// Children whose handle was dropped while they ran. Without this they would stay zombies for the engine's life.
static ORPHANS: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

pub(super) fn leave_orphan(pidfd: OwnedFd) {
    if !reap(&pidfd) {
        ORPHANS.lock().unwrap_or_else(PoisonError::into_inner).push(pidfd);
    }
}

pub(super) fn reap_orphans() {
    ORPHANS.lock().unwrap_or_else(PoisonError::into_inner).retain(|pidfd| !reap(pidfd));
}

pub(super) fn pidfd_of_child(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// True if nothing is left to reap: reaped now, reaped before, or not our child.
fn reap(pidfd: &OwnedFd) -> bool {
    !matches!(waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG), Ok(None))
}

fn block_until_ended(pidfd: &OwnedFd) {
    while poll(&mut [PollFd::new(pidfd, PollFlags::IN)], None).is_err_and(|error| error == Errno::INTR) {}
}
