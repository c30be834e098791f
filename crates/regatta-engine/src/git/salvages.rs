//! Salvaged work, for users to inspect.

use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;

use crate::hub::names;
use crate::travel::salvage::clone_name;

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
    /// The clone that saved it, if it is another one.
    pub by: Option<String>,
    /// Its number among those that this clone saved of its task.
    pub number: u64,
}

/// All salvages in this repository, lowest number first within each task.
pub fn salvages(repo: &Repo) -> Result<Vec<Salvage>, GitError> {
    list(repo, SALVAGE)
}

/// The salvages of one task.
pub fn salvages_of(repo: &Repo, task: &TaskId) -> Result<Vec<Salvage>, GitError> {
    list(repo, &format!("{SALVAGE}{task}/"))
}

/// Salvages of other clones that were fetched from the hub, of one task or of all.
pub fn salvages_elsewhere(repo: &Repo, task: Option<&TaskId>) -> Result<Vec<Salvage>, GitError> {
    let prefix = task.map_or_else(|| SALVAGE.to_owned(), |task| format!("{SALVAGE}{task}/"));
    let own = clone_name();
    let mut found = list(repo, &names::here(&prefix))?;
    // Those of this clone only mark what it has sent.
    found.retain(|salvage| salvage.by.is_some() && salvage.by != own);
    Ok(found)
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
        let rest = name.strip_prefix(SALVAGE).or_else(|| name.strip_prefix(&names::here(SALVAGE)));
        let Some((task, last)) = rest.and_then(|rest| rest.split_once('/')) else { continue };
        let Ok(task) = TaskId::parse(task) else { continue };
        let (by, number) = match names::saved_by(name) {
            Some((clone, n)) => (Some(clone.to_owned()), n),
            None => (None, last.parse().unwrap_or(0)),
        };
        let at = Timestamp::from_millis(at.parse::<i64>().unwrap_or(0) * 1000);
        found.push(Salvage {
            name: name.to_owned(),
            oid: Oid::parse(oid)?,
            task,
            subject: subject.to_owned(),
            at,
            by,
            number,
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
