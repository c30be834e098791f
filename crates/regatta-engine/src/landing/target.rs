//! Remembers what the train last left on its target, to notice when landed work is removed from it.
//!
//! Invariant: nothing more lands on a target that was deleted, or that lost landed work, until its user agrees. The
//! record may be older than the truth (after a crash right after a landing), never ahead of it.

use std::collections::BTreeSet;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use regatta_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::git::{Expect, GitError, Oid, RefEdit, RefOutcome, Repo, Work, absent_is_none, io, replace_file};

/// What is remembered about a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TargetRecord {
    /// Its tip after the last landing.
    tip: Oid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stopped: Option<Stopped>,
}

/// Why a train is stopped until its user decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// When it was stopped.
    pub at: Timestamp,
    /// What happened, and what to do.
    pub why: String,
    /// Tasks whose work is no longer on the target.
    pub lost: Vec<String>,
}

/// The result of checking the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TargetStanding {
    /// It contains everything that landed.
    Sound,
    /// It has lost some of it, or is gone. `is_news` is true for the first check.
    Lost { stopped: Stopped, is_news: bool },
}

/// The ref that keeps landed work while its branch does not.
fn keeper(target: &str) -> String {
    format!("refs/regatta/landed/{target}")
}

fn path(state_dir: &Path, target: &str) -> PathBuf {
    state_dir.join("targets").join(format!("{}.json", target.replace('%', "%25").replace('/', "%2F")))
}

/// The record of a target, if there is one. One that cannot be read is an error: without it, lost work would go unnoticed.
fn load(state_dir: &Path, target: &str) -> Result<Option<TargetRecord>, GitError> {
    let path = path(state_dir, target);
    let read = absent_is_none(std::fs::read(&path)).map_err(io("read", &path))?;
    let Some(bytes) = read else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| {
        let why = format!("{error}; `regatta land resume` accepts {target} as it is and writes it again");
        io("read", &path)(Error::new(ErrorKind::InvalidData, why))
    })
}

fn save(state_dir: &Path, target: &str, memory: &TargetRecord) -> Result<(), GitError> {
    let path = path(state_dir, target);
    let dir = path.parent().unwrap_or(state_dir);
    std::fs::create_dir_all(dir).map_err(io("create", dir))?;
    replace_file(&path, &serde_json::to_vec(memory).expect("our own values serialise"))
}

/// Why the train of a target is stopped, if it is.
pub fn stopped(state_dir: &Path, target: &str) -> Option<Stopped> {
    load(state_dir, target).ok().flatten()?.stopped
}

/// Records the target's tip after a landing.
pub(super) fn remember(repo: &Repo, target: &str, tip: &Oid) -> Result<(), GitError> {
    save(&repo.state_dir, target, &TargetRecord { tip: tip.clone(), stopped: None })
}

/// Checks whether the target, which is at `local`, still contains what landed on it.
pub(super) fn look(
    repo: &Repo,
    work: &Work,
    target: &str,
    local: Option<&Oid>,
) -> Result<TargetStanding, GitError> {
    let Some(memory) = load(&repo.state_dir, target)? else { return Ok(TargetStanding::Sound) };
    let last = memory.tip.clone();
    if local == Some(&last) && memory.stopped.is_none() {
        return Ok(TargetStanding::Sound);
    }
    let there = work.exists(&last)?;
    let (why, lost) = match local {
        Some(tip) if there && work.is_ancestor(&last, tip)? => {
            if memory.stopped.is_some() {
                save(&repo.state_dir, target, &TargetRecord { stopped: None, ..memory })?;
            }
            return Ok(TargetStanding::Sound);
        }
        Some(tip) => {
            let lost = if there { lost_tasks(work, &last, tip)? } else { Vec::new() };
            if there && lost.is_empty() {
                // The same work in other commits: they were amended or rebased.
                remember(repo, target, tip)?;
                return Ok(TargetStanding::Sound);
            }
            let without = if lost.is_empty() { String::new() } else { format!(" without {}", some(&lost)) };
            let why = format!(
                "{target} no longer has what landed on it: it was at {} and is at {}{without}; `regatta land resume` continues from there, `git merge {}` brings it back",
                last.short(),
                tip.short(),
                last.short()
            );
            (why, lost)
        }
        None => {
            let why = format!(
                "the branch {target} is gone: deleted or renamed; `git branch {target} {}` brings it back",
                last.short()
            );
            (why, Vec::new())
        }
    };
    if let Some(stopped) = memory.stopped.clone().filter(|stopped| stopped.why == why) {
        return Ok(TargetStanding::Lost { stopped, is_news: false });
    }
    if there {
        keep(repo, target, &last)?;
    }
    let stopped = Stopped { at: clock::now(), why, lost };
    save(&repo.state_dir, target, &TargetRecord { stopped: Some(stopped.clone()), ..memory })?;
    Ok(TargetStanding::Lost { stopped, is_news: true })
}

/// Keeps landed work under our own ref: with its branch gone, nothing else might hold it.
fn keep(repo: &Repo, target: &str, last: &Oid) -> Result<(), GitError> {
    let name = keeper(target);
    let old = match repo.read_ref(&name)? {
        Some(now) if now == *last => return Ok(()),
        Some(now) => Expect::Is(now),
        None => Expect::Absent,
    };
    let edit = RefEdit { name, new: Some(last.clone()), old };
    let (RefOutcome::Done | RefOutcome::Moved { .. }) =
        repo.update_refs(&[edit], "regatta: hold what landed")?;
    Ok(())
}

/// Tasks whose commits are in `last` but, under whatever id, not in `tip`.
fn lost_tasks(work: &Work, last: &Oid, tip: &Oid) -> Result<Vec<String>, GitError> {
    let tasks = |of: &Oid, without: &Oid| -> Result<BTreeSet<(String, String)>, GitError> {
        let commits = work.commits_between(without, of)?;
        Ok(commits.iter().filter_map(|commit| origin(&commit.message)).collect())
    };
    let (had, has) = (tasks(last, tip)?, tasks(tip, last)?);
    let mut lost: Vec<String> = had.difference(&has).map(|(task, _)| task.clone()).collect();
    lost.dedup();
    Ok(lost)
}

/// The task and the attempt in the trailers of a message.
fn origin(message: &[u8]) -> Option<(String, String)> {
    let text = String::from_utf8_lossy(message).into_owned();
    let end = text.trim_end().rsplit("\n\n").next()?;
    let value = |key: &str| {
        let mut lines = end.lines().rev();
        lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(": ").map(str::to_owned))
    };
    Some((value("Regatta-Task")?, value("Regatta-Attempt").unwrap_or_default()))
}

fn some(tasks: &[String]) -> String {
    let named = tasks.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
    match tasks.len().saturating_sub(3) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Accepts the target as it is: the train continues from there. Returns the reason it was stopped for and the tip;
/// `None` if there is no such branch.
pub fn resume(repo: &Repo, target: &str) -> Result<Option<(Option<Stopped>, Oid)>, GitError> {
    let Some(tip) = repo.read_ref(&format!("refs/heads/{target}"))? else { return Ok(None) };
    let stopped = stopped(&repo.state_dir, target);
    // A record that cannot be read is replaced, too.
    if path(&repo.state_dir, target).exists() {
        remember(repo, target, &tip)?;
    }
    Ok(Some((stopped, tip)))
}

/// Whether a commit that landed on the target is no longer there.
pub fn is_taken_back(repo: &Repo, target: &str, commit: &Oid) -> bool {
    let found = || -> Result<bool, GitError> {
        let contains = |tip: &Oid| -> Result<bool, GitError> {
            let asked = repo.real().args(["merge-base", "--is-ancestor"]).arg(commit).arg(tip).run()?;
            Ok(asked.code == Some(0))
        };
        let tip = repo.read_ref(&format!("refs/heads/{target}"))?;
        if tip.as_ref().is_some_and(|tip| tip == commit) || tip.as_ref().map_or(Ok(false), contains)? {
            return Ok(false);
        }
        // Other work landed elsewhere.
        let last = load(&repo.state_dir, target)?.map(|memory| memory.tip);
        for once in [last, repo.read_ref(&keeper(target))?].into_iter().flatten() {
            if contains(&once)? {
                return Ok(true);
            }
        }
        Ok(false)
    };
    found().unwrap_or(false)
}
