//! A checkout of a candidate for its gate: leased for one run of the test command, then given back.
//!
//! Each lease has a place of its own, so that gates run side by side, also on the same commit.

use std::fs;
use std::ops::Deref;

use regatta_core::id::TaskId;

use super::{Lane, Lanes};
use crate::git::{GitError, Oid, io, unique_suffix};

/// A checkout that is ours until it is given back; dropping it gives it back too.
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
    /// Gives it back, with whatever a test left in it: none of that is work. Blocks, as all of git does here.
    pub fn give_back(mut self) -> Result<(), GitError> {
        self.is_back = true;
        self.lanes.discard(&self.lane)
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        if !self.is_back {
            // Whoever let it go had something worse to tell. What cannot be taken away now is swept later.
            self.lanes.discard(&self.lane).ok();
        }
    }
}

impl Lanes {
    /// A checkout of exactly `commit`, for as long as the answer lives. Any number at once.
    pub fn lease(&self, commit: &Oid) -> Result<Leased, GitError> {
        let name = format!("gate-{}-{}", commit.short(), unique_suffix());
        let task = TaskId::parse(&format!("_{name}")).expect("hex digits make a task id");
        let held = self.hold(&task)?;
        if let Some(left) = self.find(&task)? {
            // Of a process with our id that was killed.
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
        Ok(())
    }
}
