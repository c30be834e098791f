//! **The end of a shim is awaited, never polled for**, in the same way for a launched and for an adopted shim: both are
//! a pidfd.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use regatta_core::exit::Exit;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::record::{self, ExitRecord};
use super::{Identity, StopRequest, tree};
use crate::confine::Confined;

/// A living shim, or one that has just ended.
#[derive(Debug)]
pub struct Shim {
    pidfd: Arc<OwnedFd>,
    run_dir: PathBuf,
    run_id: String,
    identity: Identity,
    agent: Option<Identity>,
    confined: Option<Confined>,
    is_our_child: bool,
}

impl Shim {
    pub(super) fn new(
        pidfd: OwnedFd,
        run_dir: &Path,
        run_id: &str,
        identity: Identity,
        (agent, confined): (Option<Identity>, Option<Confined>),
        is_our_child: bool,
    ) -> Self {
        let (run_dir, run_id) = (run_dir.to_owned(), run_id.to_owned());
        let pidfd = Arc::new(pidfd);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|shim| shim.strong_count() > 0);
        known.push(Arc::downgrade(&pidfd));
        drop(known);
        Self { pidfd, run_dir, run_id, identity, agent, confined, is_our_child }
    }

    /// The identity of the shim.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The directory of its records.
    pub fn run_dir(&self) -> &Path {
        &self.run_dir
    }

    /// The marker of its run, for a [`sweep`](super::sweep) if it is lost.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// The agent's pid, or that of the process that keeps it confined; `None` if it never started, or had not yet when the shim was adopted.
    pub fn agent_pid(&self) -> Option<u32> {
        self.agent.as_ref().map(|agent| agent.pid)
    }

    /// What was applied to the agent; `None` if it is not confined.
    pub fn confined(&self) -> Option<&Confined> {
        self.confined.as_ref()
    }

    /// Waits until the whole tree has ended and returns how.
    ///
    /// [`Exit::Lost`] means that the shim died without a record: then the tree may be alive, and the engine must
    /// [`sweep`](super::sweep). May be called again, and is cancel-safe.
    pub async fn wait(&self) -> Exit {
        self.wait_record().await.map_or(Exit::Lost, |record| record.exit)
    }

    /// Like [`wait`](Self::wait), with everything the shim recorded; `None` if it was lost.
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
        // A separate descriptor, because one descriptor can be registered only once.
        #[expect(
            deprecated,
            reason = "its successor is unsafe for types that may swap descriptors; an OwnedFd cannot"
        )]
        let pidfd = AsyncFd::with_interest(self.pidfd.try_clone()?, Interest::READABLE)?;
        drop(pidfd.readable().await?);
        Ok(())
    }

    /// Starts the kill ladder: interrupt, grace, kill. [`wait`](Self::wait) then returns the end.
    ///
    /// A second call cuts the grace short. It is not an error if the shim has already ended.
    pub fn stop(&self, request: &StopRequest) -> io::Result<()> {
        self.ask(request, Signal::TERM)
    }

    /// Ends the tree without any grace: the second Ctrl-C.
    pub fn kill_now(&self, request: &StopRequest) -> io::Result<()> {
        self.ask(request, Signal::USR1)
    }

    fn ask(&self, request: &StopRequest, signal: Signal) -> io::Result<()> {
        // A reason that cannot be written, for example on a full disk, must not keep the tree alive.
        drop(record::store(&self.run_dir, record::STOP, request));
        let sent = pidfd_send_signal(&*self.pidfd, signal);
        // A stopped process receives nothing until it continues.
        let _ = pidfd_send_signal(&*self.pidfd, Signal::CONT);
        match sent {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Like [`wait`](Self::wait), after the end was requested: a shim that has not ended its tree by then, because it
    /// is repeatedly stopped or hangs, is killed with everything it started, and `otherwise` is the result.
    pub async fn wait_at_most(&self, patience: Duration, otherwise: Exit) -> Exit {
        match tokio::time::timeout(patience, self.wait()).await {
            Ok(exit) => exit,
            Err(_late) => {
                self.kill_tree().await;
                otherwise
            }
        }
    }

    /// Kills the shim and everything it started, without its help. Nothing is recorded then.
    pub(crate) async fn kill_tree(&self) {
        let (pidfd, pid, run_id) = (Arc::clone(&self.pidfd), self.identity.pid, self.run_id.clone());
        let killed = tokio::task::spawn_blocking(move || {
            // While the shim lives, everything it started is below it. All are stopped before the first is killed, so
            // that none can fork in between.
            let _ = pidfd_send_signal(&*pidfd, Signal::STOP);
            let mut tree = tree::descendants(pid);
            for _ in 0..16 {
                for member in &tree {
                    member.signal(Signal::STOP);
                }
                let now = tree::descendants(pid);
                let is_all = now.len() <= tree.len();
                tree = now;
                if is_all {
                    break;
                }
            }
            let _ = pidfd_send_signal(&*pidfd, Signal::KILL);
            for member in tree {
                member.signal(Signal::KILL);
            }
            tree::sweep(&run_id);
        });
        drop(killed.await);
        drop(tokio::time::timeout(Duration::from_secs(5), self.wait()).await);
    }
}

/// The shims known to this process.
static KNOWN: Mutex<Vec<Weak<OwnedFd>>> = Mutex::new(Vec::new());

/// Tells every shim of this process, also those whose handles are gone, to end its tree, without any grace and without
/// waiting.
pub(crate) fn kill_every_tree() {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    for shim in known.iter().filter_map(Weak::upgrade) {
        end_now(&shim);
    }
    for shim in ORPHANS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        end_now(shim);
    }
}

fn end_now(shim: &OwnedFd) {
    for signal in [Signal::USR1, Signal::CONT] {
        let _ = pidfd_send_signal(shim, signal);
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

/// Children whose handle was dropped while they ran. Without this they would stay zombies for the engine's lifetime.
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
