//! A checkout of a candidate for its gate: leased for one run of the test command, then returned.
//!
//! Each lease has its own directory, so that gates can run in parallel, even on the same commit.

use std::fs;
use std::ops::Deref;

use regatta_core::id::TaskId;

use super::{Lane, Lanes};
use crate::git::{GitError, Oid, io, unique_suffix};

/// A leased checkout; dropping it returns it.
#[derive(Debug)]
#[must_use]
pub struct Leased {
    lane: Lane,
    lanes: Lanes,
    is_back: bool,
}

impl Deref for Leased {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        &self.lane
    }
}

impl Leased {
    /// Returns it, with whatever a test left in it: none of that is work. Blocks, as all git operations here.
    pub fn give_back(mut self) -> Result<(), GitError> {
        self.is_back = true;
        self.lanes.discard(&self.lane)
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        if !self.is_back {
            // A caller that drops it has a worse error to report. What cannot be removed now is swept later.
            self.lanes.discard(&self.lane).ok();
        }
    }
}

impl Lanes {
    /// A checkout of exactly `commit`, until the lease is dropped. Any number at once.
    pub fn lease(&self, commit: &Oid) -> Result<Leased, GitError> {
        let name = format!("gate-{}-{}", commit.short(), unique_suffix());
        let task = TaskId::parse(&format!("_{name}")).expect("hex digits make a task id");
        let held = self.hold(&task)?;
        if let Some(left) = self.find(&task)? {
            // Left by a killed process with our id.
            self.unregister(&left)?;
        }
        let parent = self.root.join(".readers");
        fs::create_dir_all(&parent).map_err(io("create", &parent))?;
        let lane = Lane { _held: Some(held), ..self.create(&task, Some(name), commit)? };
        Ok(Leased { lane, lanes: self.clone(), is_back: false })
    }

    fn discard(&self, lane: &Lane) -> Result<(), GitError> {
        self.let_go(lane)?;
        self.forget_holders(&lane.task);
        self.drop_brought_in(&lane.task);
        Ok(())
    }
}
