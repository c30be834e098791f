//! Salvaged work, for users to inspect.

use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;

use super::{Expect, GitError, Oid, RefEdit, RefOutcome, Repo};

/// Prefix of salvage refs, one directory per task.
pub(crate) const SALVAGE: &str = "refs/regatta/salvage/";

/// How many locked numbers to skip.
const LOCKED_NUMBERS: u32 = 2;

/// One salvaged state of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvage {
    /// Full ref name.
    pub name: String,
    /// The commit that holds the work.
    pub oid: Oid,
    /// The task of the lane.
    pub task: TaskId,
    /// Why it was salvaged, in one line.
    pub subject: String,
    /// When it happened.
    pub at: Timestamp,
}

/// All salvages in this repository, lowest number first within each task.
pub fn salvages(repo: &Repo) -> Result<Vec<Salvage>, GitError> {
    list(repo, SALVAGE)
}

/// The salvages of one task.
pub fn salvages_of(repo: &Repo, task: &TaskId) -> Result<Vec<Salvage>, GitError> {
    list(repo, &format!("{SALVAGE}{task}/"))
}

fn list(repo: &Repo, prefix: &str) -> Result<Vec<Salvage>, GitError> {
    let format = "--format=%(refname)%09%(objectname)%09%(committerdate:unix)%09%(contents:subject)";
    let listed = repo.real().args(["for-each-ref", "--sort=version:refname", format, "--", prefix]).text()?;
    let mut found = Vec::new();
    for line in listed.lines() {
        let mut fields = line.splitn(4, '\t');
        let (Some(name), Some(oid), Some(at), Some(subject)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let task = name.strip_prefix(SALVAGE).and_then(|rest| rest.split('/').next());
        let Some(task) = task.and_then(|task| TaskId::parse(task).ok()) else { continue };
        let at = Timestamp::from_millis(at.parse::<i64>().unwrap_or(0) * 1000);
        found.push(Salvage {
            name: name.to_owned(),
            oid: Oid::parse(oid)?,
            task,
            subject: subject.to_owned(),
            at,
        });
    }
    Ok(found)
}

/// Gives a commit a salvage ref: the next free number under the task's directory. If another process takes the number
/// first, the next one is used; a commit that already has a ref keeps it.
pub(crate) fn save_commit(repo: &Repo, task: &TaskId, commit: &Oid) -> Result<(String, Oid), GitError> {
    let prefix = format!("{SALVAGE}{task}/");
    let taken = repo.refs_below(&prefix)?;
    if let Some((name, oid)) = taken.iter().find(|(_, oid)| oid == commit) {
        return Ok((name.clone(), oid.clone()));
    }
    let numbers = taken.iter().filter_map(|(name, _)| name[prefix.len()..].parse::<u64>().ok());
    let mut locked = 0;
    for n in numbers.max().unwrap_or(0) + 1.. {
        let name = format!("{prefix}{n}");
        let edit = RefEdit { name: name.clone(), new: Some(commit.clone()), old: Expect::Absent };
        match repo.update_refs(&[edit], "regatta: salvage") {
            Ok(RefOutcome::Done) => return Ok((name, commit.clone())),
            Ok(RefOutcome::Moved { .. }) => {}
            // Another process locks this number: work must not stay unsaved because of that.
            Err(GitError::Locked { .. }) if locked < LOCKED_NUMBERS => locked += 1,
            Err(error) => return Err(error),
        }
    }
    unreachable!("the numbers do not end")
}
