//! **A launch is acknowledged or it failed.** [`Supervisor::launch`] returns after the shim has recorded on disk that
//! the agent runs, or that it could not be started, so the engine never knows less than what is true.
//!
//! The agent's environment is passed as the shim's own environment: no secret is written to disk or to argv. The shim
//! sets up the session, not `pre_exec`, so that a large engine is never forked.

use std::ffi::OsString;
use std::fmt;
use std::fs::{DirBuilder, OpenOptions};
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use regatta_core::exit::{Exit, Limit};
use regatta_core::sandbox::Confinement;
use regatta_core::sandbox::hosts::ProxyRules;
use rustix::process::{Signal, pidfd_send_signal};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use super::record::{self, Ack};
use super::{MARKER, Shim, StopRequest, handle, sweep};
use crate::lease::Lease;
use crate::shim::args::Args;
use crate::shim::door::DoorSpec;
use crate::shim::handover::Handover;

/// The agent's standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing. An open pipe would make some agents wait forever.
    Null,
    /// This file, from its beginning.
    File(PathBuf),
}

/// Everything needed to start one process tree.
#[derive(Clone)]
pub struct Launch {
    /// The directory for its records. Created if missing; used once.
    pub run_dir: PathBuf,
    /// The program and its arguments. A bare name is looked up in the `PATH` of `env`.
    pub argv: Vec<OsString>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// The complete environment: nothing is inherited, and only the marker is added.
    pub env: Vec<(OsString, OsString)>,
    /// Further variables whose values must not be recorded if they look secret; `env` is checked anyway.
    pub secrets: Vec<(String, String)>,
    /// Its standard input.
    pub stdin: Stdin,
    /// The file its standard output is appended to, without its secrets.
    pub stdout: PathBuf,
    /// The file its standard error is appended to, likewise; may be the same.
    pub stderr: PathBuf,
    /// The marker, exported as `REGATTA_RUN_ID`. Unique among runs, and not secret.
    pub run_id: String,
    /// Total time limit. The shim enforces it, so it applies even when the engine is dead.
    pub limit: Option<Duration>,
    /// How long the tree may take to end by itself after an interrupt.
    pub grace: Duration,
    /// Approximate number of bytes of each stream kept on disk: beyond that the middle is dropped.
    pub log_limit: Option<u64>,
    /// The lock that the tree holds while one of its processes lives, see `process::hold`.
    pub hold: Option<PathBuf>,
    /// What its processes may reach; without it, everything.
    pub confine: Option<Arc<Confinement>>,
    /// The agent's way to its store, if it is in a sandbox.
    pub door: Option<DoorSpec>,
    /// The hosts that it reaches if it has a network of its own; without it, none.
    pub proxy: Option<Arc<ProxyRules>>,
}

impl fmt::Debug for Launch {
    /// Leaves out the values of the environment, which contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("Launch")
            .field("run_dir", &self.run_dir)
            .field("argv", &self.argv)
            .field("cwd", &self.cwd)
            .field("env", &names)
            .field("run_id", &self.run_id)
            .finish_non_exhaustive()
    }
}

/// The shim itself failed. A missing agent binary is not such an error, but an [`Exit::NeverStarted`].
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The run directory cannot be created or written.
    #[error("prepare the run directory {}", path.display())]
    RunDir {
        /// The run directory.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The shim's own binary did not start.
    #[error("start the shim {}", exe.display())]
    Spawn {
        /// The binary.
        exe: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Another shim uses or used this run directory, or it is unusable. Nothing was started.
    #[error("launch in {}: {error}", path.display())]
    Refused {
        /// The run directory.
        path: PathBuf,
        /// The shim's message.
        error: String,
    },
    /// The shim died before it could answer. What it may have started was swept.
    #[error("launch in {}: the shim died without a word; see {}", path.display(), path.join(record::SHIM_LOG).display())]
    ShimDied {
        /// The run directory.
        path: PathBuf,
    },
}

/// Starts process trees, each under its own shim.
#[derive(Clone, Debug)]
pub struct Supervisor {
    shim_exe: PathBuf,
    lease: Option<Lease>,
}

impl Supervisor {
    /// `shim_exe` is the `regatta` binary, by an absolute path; it is run as `shim_exe shim …`.
    pub fn new(shim_exe: impl Into<PathBuf>) -> Self {
        Self { shim_exe: shim_exe.into(), lease: None }
    }

    /// The same, for trees under this lease.
    pub(crate) fn under(&self, lease: Option<Lease>) -> Self {
        Self { shim_exe: self.shim_exe.clone(), lease }
    }

    /// The lease of its trees.
    pub(crate) fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// Puts a tree that another engine started under the lease of this one.
    pub(crate) fn take_over(&self, run_dir: &Path) -> io::Result<()> {
        match &self.lease {
            Some(lease) if run_dir.is_dir() => lease.cover(run_dir),
            _ => Ok(()),
        }
    }

    /// Starts the tree. A future dropped before it is done asks the shim to end what it may have started.
    pub async fn launch(&self, launch: &Launch) -> Result<Shim, LaunchError> {
        handle::reap_orphans();
        let path = launch.run_dir.clone();
        let (pidfd, acks) = self.spawn(launch)?;
        let mut starting = Starting(Some(pidfd));
        let mut said = Vec::new();
        // A read error leaves `said` empty, which is handled below.
        let _ = match acks {
            Ok(mut acks) => acks.read_to_end(&mut said).await,
            Err(error) => Err(error),
        };
        let ack = serde_json::from_slice(&said);
        let adopt = |starting: &mut Starting, shim, agent| {
            let pidfd = starting.0.take().expect("taken once");
            Shim::new(pidfd, &launch.run_dir, &launch.run_id, shim, agent, true)
        };
        match ack {
            Ok(Ack::Started { shim, agent, confined }) => {
                Ok(adopt(&mut starting, shim, (Some(agent), confined)))
            }
            Ok(Ack::Ended { shim }) => Ok(adopt(&mut starting, shim, (None, None))),
            Ok(Ack::Refused { error }) => Err(LaunchError::Refused { path, error }),
            Err(_) => {
                // If it was killed right after starting the agent, the agent is still alive.
                drop(starting);
                let run_id = launch.run_id.clone();
                drop(tokio::task::spawn_blocking(move || sweep(&run_id)).await);
                Err(LaunchError::ShimDied { path })
            }
        }
    }

    /// Launches, waits for the end, and stops the tree if `cancel` resolves first with its reason.
    ///
    /// For checks, setup commands, hooks and gates. Dropping this future stops nothing: resolve `cancel`.
    pub async fn run(&self, launch: &Launch, cancel: impl Future<Output = String>) -> Exit {
        let shim = match self.launch(launch).await {
            Ok(shim) => shim,
            Err(error) => return Exit::never_started(chain(&error)),
        };
        let patience = launch.grace.saturating_add(OVERDUE);
        let request = tokio::select! {
            exit = shim.wait() => Err(exit),
            why = cancel => Ok(StopRequest::Asked(why)),
            // The shim enforces this limit, unless it is stopped.
            () = overdue(launch.limit, patience) => Ok(StopRequest::Limit(Limit::Total)),
        };
        let exit = match request {
            Err(exit) => exit,
            Ok(request) => {
                // A shim that cannot be signalled is gone, and then `wait` knows more.
                drop(shim.stop(&request));
                shim.wait_at_most(patience, request.into()).await
            }
        };
        if exit == Exit::Lost {
            let run_id = launch.run_id.clone();
            drop(tokio::task::spawn_blocking(move || sweep(&run_id)).await);
        }
        exit
    }

    fn spawn(&self, launch: &Launch) -> Result<(OwnedFd, io::Result<pipe::Receiver>), LaunchError> {
        let at_run_dir = |source| LaunchError::RunDir { path: launch.run_dir.clone(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(&launch.run_dir).map_err(at_run_dir)?;
        if let Some(lease) = &self.lease {
            lease.cover(&launch.run_dir).map_err(at_run_dir)?;
        }
        let args = Args::new(launch).map_err(at_run_dir)?;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(launch.run_dir.join(record::SHIM_LOG))
            .map_err(at_run_dir)?;
        let at_spawn = |source| LaunchError::Spawn { exe: self.shim_exe.clone(), source };
        let exe = std::path::absolute(&self.shim_exe).map_err(at_spawn)?;
        let mut child = Command::new(exe)
            .arg("shim")
            .args(args.encode())
            .env_clear()
            .envs(launch.env.iter().map(|(name, value)| (name, value)))
            // The shim sets the marker for the agent alone, so that a sweep never hits a shim.
            .env_remove(MARKER)
            .current_dir(Path::new("/"))
            .stdin(Handover::new(launch).file().map_err(at_spawn)?)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(at_spawn)?;
        let acks = child.stdout.take().expect("piped above");
        // Our own child, not reaped yet: its pid cannot be another's.
        let pidfd = handle::pidfd_of_child(child.id()).map_err(at_spawn)?;
        Ok((pidfd, pipe::Receiver::from_owned_fd(acks.into())))
    }
}

/// How long beyond the grace a shim may take to end its tree; then it is done without the shim.
pub(crate) const OVERDUE: Duration = Duration::from_secs(20);

/// Resolves when a tree with this limit should have ended long ago; never without a limit.
async fn overdue(limit: Option<Duration>, patience: Duration) {
    match limit {
        Some(limit) => tokio::time::sleep(limit.saturating_add(patience)).await,
        None => std::future::pending().await,
    }
}

/// Set when this process ends and leaves running what it has started.
static LEAVING: AtomicBool = AtomicBool::new(false);

/// From now on an abandoned launch leaves its shim alone: this process ends, and the next engine adopts what was
/// started.
pub(crate) fn leave_what_starts() {
    LEAVING.store(true, Ordering::SeqCst);
}

/// A shim that has not answered yet. If dropped, it is asked to end whatever it started.
struct Starting(Option<OwnedFd>);

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(pidfd) = self.0.take() {
            // One that has already ended only has to be reaped.
            if !LEAVING.load(Ordering::SeqCst) {
                let _ = pidfd_send_signal(&pidfd, Signal::TERM);
            }
            handle::leave_orphan(pidfd);
        }
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
