//! Commits that tasks still need, held by Regatta's own refs.
//!
//! Invariant: the commit of a successful attempt is reachable from `refs/regatta/keep/<task>/<commit>` until it has
//! landed. Branches are the user's: deleting one, followed by `git gc --prune=now`, loses none of a task's work.

use regatta_core::id::TaskId;

use super::{Expect, GitError, Oid, RefEdit, RefOutcome, Repo, Work};

/// Prefix of the refs for kept commits, one directory per task.
pub(crate) const KEEP: &str = "refs/regatta/keep/";

/// How often to retry an edit that raced with another process.
const RACES: u32 = 5;

fn name_of(task: &TaskId, commit: &Oid) -> String {
    format!("{KEEP}{task}/{commit}")
}

impl Repo {
    /// Holds commits for a task; those already held cost nothing.
    pub fn keep(&self, task: &TaskId, commits: &[Oid]) -> Result<(), GitError> {
        for _ in 0..RACES {
            let mut edits: Vec<RefEdit> = Vec::new();
            for commit in commits {
                let name = name_of(task, commit);
                if self.read_ref(&name)?.is_none() && !edits.iter().any(|edit| edit.name == name) {
                    edits.push(RefEdit { name, new: Some(commit.clone()), old: Expect::Absent });
                }
            }
            if edits.is_empty() || self.update_refs(&edits, "regatta: keep")? == RefOutcome::Done {
                return Ok(());
            }
        }
        Err(GitError::RefMoved { name: format!("{KEEP}{task}"), now: None })
    }

    /// Whether this commit is held for the task.
    pub fn keeps(&self, task: &TaskId, commit: &Oid) -> Result<bool, GitError> {
        Ok(self.read_ref(&name_of(task, commit))?.is_some())
    }

    /// All held commits, with their tasks.
    pub fn kept(&self) -> Result<Vec<(TaskId, Oid)>, GitError> {
        let listed = self.refs_below(KEEP)?;
        let task_of = |name: &str| {
            name.strip_prefix(KEEP)
                .and_then(|rest| rest.split('/').next())
                .and_then(|task| TaskId::parse(task).ok())
        };
        Ok(listed.into_iter().filter_map(|(name, oid)| Some((task_of(&name)?, oid))).collect())
    }

    /// Releases commits of a task, and its branch if that is exactly at one of `branch_at` or in `target`. A branch
    /// that is checked out or was moved is kept.
    pub fn let_go(
        &self,
        work: &Work,
        task: &TaskId,
        commits: &[Oid],
        branch_at: &[Oid],
        target: Option<&Oid>,
    ) -> Result<(), GitError> {
        let mut edits: Vec<RefEdit> = Vec::new();
        for commit in commits {
            let name = name_of(task, commit);
            if let Some(now) = self.read_ref(&name)?
                && !edits.iter().any(|edit| edit.name == name)
            {
                edits.push(RefEdit { name, new: None, old: Expect::Is(now) });
            }
        }
        let branch = format!("refs/heads/{}", task.branch());
        if let Some(tip) = self.read_ref(&branch)? {
            let has_landed = branch_at.contains(&tip)
                || match target {
                    Some(target) => work.is_ancestor(&tip, target)?,
                    None => false,
                };
            if has_landed && !self.checkouts()?.iter().any(|checkout| checkout.holds(&branch)) {
                edits.push(RefEdit { name: branch, new: None, old: Expect::Is(tip) });
            }
        }
        if edits.is_empty() {
            return Ok(());
        }
        // If a ref was moved meanwhile, there was a reason; the next call releases the rest.
        self.update_refs(&edits, "regatta: landed").map(drop)
    }
}
