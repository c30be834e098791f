//! One checkout per base commit, shared by all tasks that only read.

use std::fs;

use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;

use super::{Lane, Lanes};
use crate::git::{FileLock, GitError, Oid, io};

impl Lanes {
    /// A checkout of `base` that read-only tasks share. One that somebody wrote to after all is saved and reset.
    pub fn reader(&self, base: &Oid, at: Timestamp) -> Result<Lane, GitError> {
        let task = TaskId::parse(&format!("_reader-{}", base.short())).expect("hex digits make a task id");
        let _one_at_a_time = FileLock::wait(self.records_dir().join(format!("{task}.lock")))?;
        if let Some(record) = self.load_record(&task)?.filter(|record| record.ready) {
            let mut lane = self.lane(&task, &record);
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
        self.create(&task, Some(base.short().to_owned()), base)
    }

    fn fresh_reader(&self, lane: &Lane, at: Timestamp) -> Result<Lane, GitError> {
        self.salvage(lane, "a read-only task wrote here", at)?;
        self.unregister(lane)?;
        self.create(&lane.task, Some(lane.base.short().to_owned()), &lane.base)
    }
}
