//! The branch with a task's work.

use std::path::PathBuf;

use super::{Lane, Lanes};
use crate::git::{Expect, GitError, Oid, RefEdit, RefOutcome};

/// The result of moving `regatta/<id>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchMove {
    /// It now points at the lane's HEAD.
    Moved(Oid),
    /// It already did.
    Unchanged(Oid),
    /// It is checked out; moving it would change files under the user.
    CheckedOut { at: PathBuf, head: Oid },
}

impl Lanes {
    /// Moves `regatta/<id>` to the lane's HEAD. A tip that this would drop is saved first: a user may have committed
    /// there.
    pub fn set_branch(&self, lane: &Lane) -> Result<BranchMove, GitError> {
        let (name, head) = (format!("refs/heads/{}", lane.task.branch()), self.head_of(lane)?);
        loop {
            let now = self.repo.read_ref(&name)?;
            if now.as_ref() == Some(&head) {
                return Ok(BranchMove::Unchanged(head));
            }
            let user = self
                .repo
                .checkouts()?
                .into_iter()
                .find(|checkout| !checkout.is_lane && checkout.holds(&name));
            if let Some(checkout) = user {
                return Ok(BranchMove::CheckedOut { at: checkout.path, head });
            }
            if let Some(old) = &now
                && *old != lane.base
                && !self.work.is_ancestor(old, &head)?
            {
                self.create_salvage(lane, old)?;
            }
            let old = now.map_or(Expect::Absent, Expect::Is);
            let edit = RefEdit { name: name.clone(), new: Some(head.clone()), old };
            if self.repo.update_refs(&[edit], "regatta: attempt ended")? == RefOutcome::Done {
                return Ok(BranchMove::Moved(head));
            }
        }
    }
}
