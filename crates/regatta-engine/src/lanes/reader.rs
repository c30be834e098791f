//! One checkout per base commit, shared by all tasks that only read.
//!
//! Whoever works in such a checkout, or in a gate's, holds it. What nobody holds is taken away at the end of a run.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;

use super::lane_head::someone_stands_in;
use super::record::LaneRecord;
use super::{Lane, Lanes};
use crate::git::{FileLock, GitError, Oid, io};

const WROTE: &str = "a read-only task wrote here";

impl Lanes {
    /// A checkout of `base` that read-only tasks share. One that somebody wrote to after all is saved and reset.
    pub fn reader(&self, base: &Oid, at: Timestamp) -> Result<Lane, GitError> {
        let task = TaskId::parse(&format!("_reader-{}", base.short())).expect("hex digits make a task id");
        let _one_at_a_time = FileLock::wait(self.beside_record(&task, "lock"))?;
        let held = self.hold(&task)?;
        Ok(Lane { _held: Some(held), ..self.held_reader(&task, base, at)? })
    }

    fn held_reader(&self, task: &TaskId, base: &Oid, at: Timestamp) -> Result<Lane, GitError> {
        if let Some(record) = self.load_record(task)?.filter(|record| record.ready) {
            let mut lane = self.lane(task, &record);
            if super::heal::ailment(&lane, &record).is_some() {
                self.heal(&mut lane, &record)?;
            }
            if self.work.is_dirty(&lane.path)? || lane.head()? != *base {
                return self.fresh_reader(&lane, at);
            }
            return Ok(lane);
        }
        let parent = self.root.join(".readers");
        fs::create_dir_all(&parent).map_err(io("create", &parent))?;
        self.create(task, Some(base.short().to_owned()), base)
    }

    fn fresh_reader(&self, lane: &Lane, at: Timestamp) -> Result<Lane, GitError> {
        self.salvage(lane, WROTE, at)?;
        self.unregister(lane)?;
        self.create(&lane.task, Some(lane.base.short().to_owned()), &lane.base)
    }

    /// Keeps a shared checkout from being taken away for as long as the answer lives.
    pub(super) fn hold(&self, task: &TaskId) -> Result<Arc<FileLock>, GitError> {
        FileLock::share(&self.beside_record(task, "held")).map(Arc::new)
    }

    /// Takes readers and gates away that nobody is in any more, also those of runs that were killed.
    /// What an agent wrote into a reader, though it was told not to, is saved first.
    pub fn sweep(&self, at: Timestamp) -> Result<(), GitError> {
        for info in self.list()? {
            let task = info.task;
            let is_shared = |task| Ok(self.load_record(task)?.filter(|record| record.reader.is_some()));
            if is_shared(&task)?.is_none() {
                continue;
            }
            let Some(_one_at_a_time) = FileLock::if_free(&self.beside_record(&task, "lock"))? else {
                continue;
            };
            let Some(record) = is_shared(&task)? else { continue };
            let free = FileLock::if_free(&self.beside_record(&task, "held"))?.is_some();
            // An agent whose run was killed lives on under its shim.
            if free && !someone_stands_in(&info.path) {
                let lane = self.lane(&task, &record);
                if !is_gate(&record) && record.ready && info.broken.is_none() {
                    self.salvage(&lane, WROTE, at)?;
                }
                self.let_go(&lane)?;
                if is_gate(&record) {
                    self.forget_holders(&task);
                }
            }
        }
        self.empty_trash()
    }

    /// A gate's place is never used again: what stood for its holder goes with it.
    pub(super) fn forget_holders(&self, task: &TaskId) {
        fs::remove_file(self.beside_record(task, "lock")).ok();
        fs::remove_file(self.beside_record(task, "held")).ok();
    }

    fn beside_record(&self, task: &TaskId, name: &str) -> PathBuf {
        self.records_dir().join(format!("{task}.{name}"))
    }
}

/// A gate's checkout holds what tests left, which is nobody's work.
fn is_gate(record: &LaneRecord) -> bool {
    record.reader.as_deref().is_some_and(|name| name.starts_with("gate-"))
}
