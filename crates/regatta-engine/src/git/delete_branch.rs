//! Deletes a task's branch, but never the commits on it.

use regatta_core::id::TaskId;

use super::{Expect, GitError, KEEP, RefEdit, RefOutcome, Repo, save_commit};

/// The result for the branch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum DeletedBranch {
    /// It was deleted; commits that only it held are under this ref.
    Gone { salvaged: Option<String> },
    /// It did not exist.
    Absent,
    /// It was kept, for this reason.
    Kept(String),
}

impl Repo {
    /// Deletes the branch of a task. Commits that no other branch, tag or remote branch holds get a salvage ref first.
    /// A branch that is checked out somewhere, or moves meanwhile, is kept.
    pub fn delete_branch(&self, task: &TaskId) -> Result<DeletedBranch, GitError> {
        let branch = task.branch();
        let name = format!("refs/heads/{branch}");
        let Some(tip) = self.read_ref(&name)? else { return Ok(DeletedBranch::Absent) };
        if let Some(checkout) = self.checkouts()?.iter().find(|checkout| checkout.holds(&name)) {
            let place = checkout.path.display();
            return Ok(DeletedBranch::Kept(format!("branch {branch} is checked out in {place}")));
        }
        let contains = format!("--contains={tip}");
        let places = ["refs/heads/", "refs/remotes/", "refs/tags/", "refs/regatta/salvage/"];
        let listed =
            self.real().args(["for-each-ref", "--format=%(refname)", &contains]).args(places).text()?;
        let salvaged = if listed.lines().any(|holder| holder != name) {
            None
        } else {
            Some(save_commit(self, task, &tip)?.0)
        };
        // Other commits held for the task are salvaged as well, unless another ref holds them.
        let mut edits = vec![RefEdit { name: name.clone(), new: None, old: Expect::Is(tip) }];
        for (keep, oid) in self.refs_below(&format!("{KEEP}{task}/"))? {
            let contains = format!("--contains={oid}");
            let holders =
                self.real().args(["for-each-ref", "--format=%(refname)", &contains]).args(places).text()?;
            if !holders.lines().any(|holder| holder != name) {
                save_commit(self, task, &oid)?;
            }
            edits.push(RefEdit { name: keep, new: None, old: Expect::Is(oid) });
        }
        Ok(match self.update_refs(&edits, "regatta: task destroyed")? {
            RefOutcome::Done => DeletedBranch::Gone { salvaged },
            RefOutcome::Moved { .. } => DeletedBranch::Kept(format!("branch {branch} was moved meanwhile")),
        })
    }
}
