//! Which commit of a task may go into the train: decided here, for every way that leads there.
//!
//! Invariant: no head reaches the target that did not come through [`board`]. It looks at the commits themselves, so
//! it makes no difference whether an attempt just ended, was adopted, or was done last week.

use std::path::PathBuf;

use regatta_core::id::TaskId;

use super::clean::{Rules, clean};
use super::inspect::{Inspected, inspect};
use crate::git::{GitError, Oid};
use crate::lanes::Lanes;

/// Work that is to land.
#[derive(Clone, Debug)]
pub struct Passenger<'a> {
    /// Whose.
    pub task: &'a TaskId,
    /// The attempt that made it.
    pub attempt: u32,
    /// What its lane began from.
    pub base: &'a Oid,
    /// What it made.
    pub head: &'a Oid,
    /// The branch it is to land on.
    pub target: &'a str,
}

/// What may land of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Boarded {
    /// This commit.
    Fit {
        /// It differs from the work's head where something had to be taken out.
        head: Oid,
        /// Brought-in files that it had committed, and that are in none of the commits any more.
        taken_out: Vec<PathBuf>,
        /// Files so large that somebody should know, with their sizes.
        large: Vec<(PathBuf, u64)>,
    },
    /// Nothing, and why.
    Unfit(String),
}

/// Decides. `mask` takes secrets out of commit messages.
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
    let rules = Rules { private: &private, task: work.task, attempt: work.attempt, mask };
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

/// Objects that git itself cannot read are nothing to land; any other trouble is not the work's.
fn unreadable(error: GitError) -> Result<String, GitError> {
    match &error {
        GitError::Failed { status, stderr, .. } if status.starts_with("exit") && !error.is_environment() => {
            let said = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            Ok(format!("git cannot read what it committed: {}", said.trim_start_matches("fatal: ")))
        }
        _ => Err(error),
    }
}

/// What a person should know of large files; `None` where there are none.
pub fn warning(large: &[(PathBuf, u64)]) -> Option<String> {
    let named = |(path, size): &(PathBuf, u64)| format!("{} ({} MB)", path.display(), size >> 20);
    let files: Vec<String> = large.iter().map(named).collect();
    (!files.is_empty())
        .then(|| format!("large files, which every clone carries from now on: {}", files.join(", ")))
}
