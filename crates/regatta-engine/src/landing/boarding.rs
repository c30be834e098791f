//! Decides which commit of a task may join the train, whatever way leads there.
//!
//! Invariant: no head reaches the target without passing [`board`]. It examines the commits themselves, so it makes no
//! difference whether an attempt just ended, was adopted, or was done last week.

use std::collections::BTreeMap;
use std::path::PathBuf;

use regatta_core::id::TaskId;
use regatta_core::repos::RepoName;

use super::clean::{Rules, clean};
use super::inspect::{Inspected, inspect};
use crate::git::{GitError, Oid};
use crate::lanes::Lanes;

/// Work that is meant to land.
#[derive(Clone, Debug)]
pub struct Passenger<'a> {
    /// The task.
    pub task: &'a TaskId,
    /// The attempt that made the work.
    pub attempt: u32,
    /// The commits of the repositories beside its lane.
    pub siblings: &'a BTreeMap<RepoName, Oid>,
    /// The commit its lane started from.
    pub base: &'a Oid,
    /// The commit with its work.
    pub head: &'a Oid,
    /// The branch to land on.
    pub target: &'a str,
}

/// The part of it that may land.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Boarded {
    /// This commit may land.
    Fit {
        /// It differs from the work's head if something had to be removed.
        head: Oid,
        /// Brought-in files that the work had committed and that were removed from all its commits.
        taken_out: Vec<PathBuf>,
        /// Files large enough for a warning, with their sizes.
        large: Vec<(PathBuf, u64)>,
    },
    /// Nothing may land, for this reason.
    Unfit(String),
}

/// Decides what may land. `mask` removes secrets from commit messages.
pub fn board(
    lanes: &Lanes,
    work: &Passenger<'_>,
    mask: &dyn Fn(&str) -> String,
) -> Result<Boarded, GitError> {
    let tip = lanes.repo().read_ref(&format!("refs/heads/{}", work.target))?;
    let known: Vec<&Oid> = [work.base].into_iter().chain(tip.as_ref()).collect();
    if known.contains(&work.head) {
        let head = work.head.clone();
        return Ok(Boarded::Fit { head, taken_out: Vec::new(), large: Vec::new() });
    }
    let private = lanes.brought_in(work.task)?;
    let Passenger { task, attempt, siblings, .. } = *work;
    let rules = Rules { private: &private, task, attempt, siblings, mask };
    let looked_at = clean(lanes.work(), &known, work.head, &rules)
        .and_then(|cleaned| Ok((inspect(lanes.work(), &known, &cleaned.head)?, cleaned)));
    match looked_at {
        Ok((Inspected::Sound { large }, cleaned)) => {
            Ok(Boarded::Fit { head: cleaned.head, taken_out: cleaned.taken_out, large })
        }
        Ok((Inspected::Unsound(why), _)) => Ok(Boarded::Unfit(why)),
        Err(error) => unreadable(error).map(Boarded::Unfit),
    }
}

/// Objects that git itself cannot read cannot land; any other error is not the work's fault.
fn unreadable(error: GitError) -> Result<String, GitError> {
    match &error {
        GitError::Failed { status, stderr, .. } if status.starts_with("exit") && !error.is_environment() => {
            let said = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            Ok(format!("git cannot read what it committed: {}", said.trim_start_matches("fatal: ")))
        }
        _ => Err(error),
    }
}

/// The warning about large files; `None` if there are none.
pub fn warning(large: &[(PathBuf, u64)]) -> Option<String> {
    let named = |(path, size): &(PathBuf, u64)| format!("{} ({} MB)", path.display(), size >> 20);
    let files: Vec<String> = large.iter().map(named).collect();
    (!files.is_empty()).then(|| format!("large files, which will be in every clone: {}", files.join(", ")))
}
