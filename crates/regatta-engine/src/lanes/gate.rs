//! A checkout of a candidate for its gate: made for one run of the test command, then thrown away.

use std::fs;

use regatta_core::id::TaskId;

use super::{Lane, Lanes};
use crate::git::{GitError, Oid, io};

impl Lanes {
    /// A fresh checkout of `candidate`. What an interrupted gate left of the same one goes first: nothing in it is work.
    pub fn gate(&self, candidate: &Oid) -> Result<Lane, GitError> {
        let name = format!("gate-{}", candidate.short());
        let task = TaskId::parse(&format!("_{name}")).expect("hex digits make a task id");
        let held = self.hold(&task)?;
        if let Some(left) = self.find(&task)? {
            self.unregister(&left)?;
        }
        let parent = self.root.join(".readers");
        fs::create_dir_all(&parent).map_err(io("create", &parent))?;
        Ok(Lane { _held: Some(held), ..self.create(&task, Some(name), candidate)? })
    }

    /// Takes a gate's or a reader's checkout away, with whatever a test left in it.
    pub fn discard(&self, lane: &Lane) -> Result<(), GitError> {
        self.unregister(lane)
    }
}
