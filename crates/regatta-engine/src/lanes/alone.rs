//! The right to remove a task's lane, or to start working in it: one process at a time, across a project.
//!
//! Invariant: a lane is removed only while its [`Alone`] is held, after a check under it that found the task in a state
//! in which no agent works. An engine that has claimed a task waits for it once before it touches the lane: a removal
//! has ended by then, and a later one finds the task claimed.

use std::path::PathBuf;

use regatta_core::id::TaskId;

use super::Lanes;
use super::record::{record_path, records_dir};
use crate::git::{FileLock, GitError, Repo};

/// While this lives, no other process removes this task's lane or starts working in it.
#[derive(Debug)]
pub struct Alone {
    lock: Option<FileLock>,
    path: PathBuf,
    record: PathBuf,
}

impl Alone {
    /// Waits until no other process holds the lane of `task`. Runs no git.
    pub fn wait(repo: &Repo, task: &TaskId) -> Result<Self, GitError> {
        let path = records_dir(repo).join(format!("{task}.alone"));
        let record = record_path(repo, task);
        loop {
            let lock = FileLock::wait(path.clone())?;
            // The previous holder may have deleted the file that we waited for.
            if lock.is_at(&path) {
                return Ok(Self { lock: Some(lock), path, record });
            }
        }
    }
}

impl Lanes {
    /// See [`Alone::wait`].
    pub fn alone(&self, task: &TaskId) -> Result<Alone, GitError> {
        Alone::wait(&self.repo, task)
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        // A task without a lane leaves no file behind. Deleted while it is locked: see above.
        if !self.record.exists() {
            let _ = std::fs::remove_file(&self.path);
        }
        drop(self.lock.take());
    }
}
