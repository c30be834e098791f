//! A lane's HEAD: read and moved without a process, as git does it, with a lock file and a reflog line.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use regatta_core::time::Timestamp;

use super::{Lane, Lanes};
use crate::git::{GitError, Identity, Oid, clear_in_lane, io, locks_below};

/// How long to wait for a lock in a lane while a process still has its working directory there.
const LOCK_PATIENCE: Duration = Duration::from_secs(3);
/// Interval of the checks.
const LOCK_INTERVAL: Duration = Duration::from_millis(50);

/// Why and by whom HEAD is moved, for the reflog.
pub(super) struct Move<'a> {
    pub(super) from: &'a Oid,
    pub(super) to: &'a Oid,
    pub(super) who: &'a Identity,
    pub(super) at: Timestamp,
    pub(super) why: &'a str,
}

impl Lanes {
    /// Moves the lane's HEAD and detaches it. A branch the agent checked out stays where it is: it may be the target
    /// itself, which no lane moves.
    pub(super) fn move_head(&self, lane: &Lane, step: &Move<'_>) -> Result<(), GitError> {
        self.set_known_head(lane, step.to)?;
        if self.repo.reftable && !lane.own {
            let reflog = format!("regatta: {}", step.why);
            let command =
                self.repo.real_in(&lane.git_dir).durable().args(["update-ref", "--no-deref", "-m", &reflog]);
            let command =
                command.env("GIT_COMMITTER_NAME", &step.who.name).env("GIT_COMMITTER_EMAIL", &step.who.email);
            return command.args(["HEAD"]).arg(step.to).arg(step.from).bytes().map(drop);
        }
        let head = lane.git_dir.join("HEAD");
        let lock = lane.git_dir.join("HEAD.lock");
        let mut file =
            OpenOptions::new().write(true).create_new(true).open(&lock).map_err(io("lock", &lock))?;
        let moved = (|| {
            let now = lane.load_head()?;
            if now.as_ref() != Some(step.from) {
                return Err(GitError::RefMoved { name: head.display().to_string(), now });
            }
            file.write_all(format!("{}\n", step.to).as_bytes()).map_err(io("write", &lock))?;
            file.sync_all().map_err(io("sync", &lock))?;
            fs::rename(&lock, &head).map_err(io("move", &head))
        })();
        if moved.is_err() {
            fs::remove_file(&lock).ok();
        }
        moved?;
        log_move(&lane.git_dir, step).map_err(io("write the reflog of", &head))
    }

    /// Moves the lane to another commit of the same work; its files and its index stay.
    pub(crate) fn set_head(&self, lane: &Lane, from: &Oid, to: &Oid, at: Timestamp) -> Result<(), GitError> {
        if from == to {
            return Ok(());
        }
        let who = self.work.identity();
        self.move_head(lane, &Move { from, to, who: &who, at, why: "only what may land" })
    }

    /// Removes lock files that a killed agent left. No agent may be running in the lane; if a process still has its
    /// working directory there (for example a user's shell running git), its lock is given time and then respected.
    pub(super) fn clear_stale_locks(&self, lane: &Lane) -> Result<(), GitError> {
        let begun = Instant::now();
        for lock in locks_below(&lane.git_dir) {
            while lock.symlink_metadata().is_ok() && !clear_abandoned(lane, &lock) {
                if begun.elapsed() > LOCK_PATIENCE {
                    let stderr = String::new();
                    return Err(GitError::locked("git".to_owned(), Some(&lock), stderr));
                }
                std::thread::sleep(LOCK_INTERVAL);
            }
        }
        Ok(())
    }

    /// The same without waiting: a lock that a process may hold stays. Called before an agent starts in the lane and
    /// after its process tree has ended: a lock of a killed git must not fail the next one.
    pub fn clear_abandoned_locks(&self, lane: &Lane) {
        for lock in locks_below(&lane.git_dir) {
            clear_abandoned(lane, &lock);
        }
    }
}

/// Removes a lock in a lane that no process works in, or that no process can hold.
fn clear_abandoned(lane: &Lane, lock: &Path) -> bool {
    if someone_stands_in(&lane.path) { clear_in_lane(lock) } else { fs::remove_file(lock).is_ok() }
}

pub(super) fn log_move(git_dir: &Path, step: &Move<'_>) -> std::io::Result<()> {
    let logs = git_dir.join("logs");
    fs::create_dir_all(&logs)?;
    let clean = |text: &str| text.replace(['\n', '<', '>'], " ");
    let Move { from, to, who, at, why } = step;
    let (name, email) = (clean(&who.name), clean(&who.email));
    let line = format!("{from} {to} {name} <{email}> {} +0000\tregatta: {}\n", at.seconds(), clean(why));
    OpenOptions::new().create(true).append(true).open(logs.join("HEAD"))?.write_all(line.as_bytes())
}

/// Whether a visible process has its working directory in `dir`.
pub(super) fn someone_stands_in(dir: &Path) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else {
        // Without /proc this is unknown: assume that one has.
        return true;
    };
    let own = std::process::id().to_string();
    processes.flatten().any(|process| {
        let name = process.file_name();
        let is_process = name.as_encoded_bytes().iter().all(u8::is_ascii_digit) && name != own.as_str();
        let cwd = |path: PathBuf| fs::read_link(path.join("cwd"));
        is_process && cwd(process.path()).is_ok_and(|cwd| cwd.starts_with(dir))
    })
}
