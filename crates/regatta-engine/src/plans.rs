//! Proposals on disk: `.regatta/plans/PLAN-001.md` is a plan to be approved, with its other files beside it.
//!
//! Invariant: a file exists completely or not at all, and what was approved is on disk unchanged before any of it is
//! queued. So approving twice, or once more after a crash, queues the same tasks, and existing ones stay as they are.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use regatta_core::id::TaskId;

use crate::files::{self, Durability};

/// The prefix of every proposal's id.
pub const PREFIX: &str = "PLAN-";

/// The proposals of a project.
#[derive(Clone, Debug)]
pub struct Plans {
    dir: PathBuf,
}

impl Plans {
    /// The proposals below a state directory.
    pub fn of(state_dir: &Path) -> Self {
        Self { dir: state_dir.join("plans") }
    }

    /// Takes the next number for a goal. No other caller gets it, however many ask at once.
    pub fn begin(&self, goal: &str) -> io::Result<TaskId> {
        fs::create_dir_all(&self.dir)?;
        let mut n = self.ids()?.iter().filter_map(number).max().unwrap_or(0) + 1;
        loop {
            let id = TaskId::parse(&format!("{PREFIX}{n:03}")).expect("letters and digits are an id");
            match OpenOptions::new().write(true).create_new(true).open(self.goal_file(&id)) {
                Ok(mut file) => {
                    file.write_all(goal.as_bytes())?;
                    file.sync_all()?;
                    return Ok(id);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => n += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// All proposals ever begun, in order.
    pub fn ids(&self) -> io::Result<Vec<TaskId>> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut ids = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let id = name.to_str().and_then(|name| TaskId::parse(name.strip_suffix(".goal")?).ok());
            ids.extend(id.filter(|id| number(id).is_some()));
        }
        ids.sort_by_key(number);
        Ok(ids)
    }

    /// The goal of a proposal.
    pub fn goal(&self, id: &TaskId) -> io::Result<String> {
        fs::read_to_string(self.goal_file(id))
    }

    fn goal_file(&self, id: &TaskId) -> PathBuf {
        self.dir.join(format!("{id}.goal"))
    }

    /// The proposal itself, to be read and edited.
    pub fn file(&self, id: &TaskId) -> PathBuf {
        self.dir.join(format!("{id}.md"))
    }

    /// The approved plan.
    pub fn approved_file(&self, id: &TaskId) -> PathBuf {
        self.dir.join(format!("{id}.approved.md"))
    }

    /// The rejected plan.
    pub fn rejected_file(&self, id: &TaskId) -> PathBuf {
        self.dir.join(format!("{id}.rejected.md"))
    }

    /// Whether it was approved.
    pub fn is_approved(&self, id: &TaskId) -> bool {
        self.approved_file(id).exists()
    }

    /// Whether it was rejected.
    pub fn is_rejected(&self, id: &TaskId) -> bool {
        self.rejected_file(id).exists()
    }

    /// Stores a proposal, replacing an earlier one of the same planner.
    pub fn propose(&self, id: &TaskId, plan: &str) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        put(&self.file(id), plan)
    }

    /// Stores the plan as approved. An earlier approval is not replaced.
    pub fn approve(&self, id: &TaskId, plan: &str) -> io::Result<()> {
        if self.is_approved(id) { Ok(()) } else { put(&self.approved_file(id), plan) }
    }

    /// Rejects a proposal.
    pub fn reject(&self, id: &TaskId) -> io::Result<()> {
        match fs::rename(self.file(id), self.rejected_file(id)) {
            // There was none yet, or it was already rejected.
            Err(error) if error.kind() == ErrorKind::NotFound && !self.is_rejected(id) => {
                put(&self.rejected_file(id), "")
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            renamed => renamed,
        }
    }
}

fn number(id: &TaskId) -> Option<u32> {
    id.as_str().strip_prefix(PREFIX)?.parse().ok()
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    files::replace(path, text.as_bytes(), Durability::Durable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_once_and_what_was_approved_stays_so() {
        let dir = tempfile::tempdir().unwrap();
        let plans = Plans::of(dir.path());
        assert!(plans.ids().unwrap().is_empty());
        let first = plans.begin("one").unwrap();
        let second = plans.begin("two").unwrap();
        assert_eq!((first.as_str(), second.as_str()), ("PLAN-001", "PLAN-002"));
        assert_eq!(plans.goal(&second).unwrap(), "two");
        plans.propose(&first, "a").unwrap();
        plans.propose(&first, "b").unwrap();
        plans.approve(&first, "b").unwrap();
        plans.approve(&first, "c").unwrap();
        assert_eq!(fs::read_to_string(plans.approved_file(&first)).unwrap(), "b");
        plans.reject(&second).unwrap();
        plans.reject(&second).unwrap();
        assert!(plans.is_rejected(&second) && !plans.is_approved(&second));
        assert_eq!(plans.ids().unwrap(), [first, second]);
    }
}
