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
use crate::hub::names;
use crate::siblings::Pins;

/// What is remembered about a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TargetRecord {
    /// Its tip after the last landing.
    tip: Oid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stopped: Option<Stopped>,
    /// The commits of other repositories that were beside it when it was tested; empty if unknown.
    #[serde(default, skip_serializing_if = "Pins::is_empty")]
    with: Pins,
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

/// A fence at the hub that the train of this store does not pass by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ForeignFence {
    fence: Oid,
    stopped: Stopped,
    /// The user agreed to replace exactly this one.
    is_accepted: bool,
}

fn fence_path(state_dir: &Path, target: &str) -> PathBuf {
    path(state_dir, target).with_extension("fence.json")
}

fn load_fence(state_dir: &Path, target: &str) -> Option<ForeignFence> {
    // One that cannot be read is refused again.
    serde_json::from_slice(&std::fs::read(fence_path(state_dir, target)).ok()?).ok()
}

fn save_fence(state_dir: &Path, target: &str, foreign: &ForeignFence) -> Result<(), GitError> {
    let path = fence_path(state_dir, target);
    let dir = path.parent().unwrap_or(state_dir);
    std::fs::create_dir_all(dir).map_err(io("create", dir))?;
    replace_file(&path, &serde_json::to_vec(foreign).expect("our own values serialise"))
}

/// Records that the train stopped at this fence.
pub(super) fn refuse_fence(state_dir: &Path, target: &str, fence: Oid, why: &str) -> Result<(), GitError> {
    if load_fence(state_dir, target).is_some_and(|known| known.fence == fence && known.stopped.why == why) {
        return Ok(());
    }
    let stopped = Stopped { at: clock::now(), why: why.to_owned(), lost: Vec::new() };
    save_fence(state_dir, target, &ForeignFence { fence, stopped, is_accepted: false })
}

/// The fence is ours: nothing is left to agree to.
pub(super) fn passed_fence(state_dir: &Path, target: &str) {
    // A record that stays says nothing about another fence.
    let _ = std::fs::remove_file(fence_path(state_dir, target));
}

/// Whether the user agreed to replace this fence.
pub(super) fn accepts_fence(state_dir: &Path, target: &str, fence: &Oid) -> bool {
    load_fence(state_dir, target).is_some_and(|known| known.is_accepted && known.fence == *fence)
}

/// The user agrees to replace the fence that the train stopped at, if it did.
fn accept_fence(state_dir: &Path, target: &str) -> Result<Option<Stopped>, GitError> {
    let Some(known) = load_fence(state_dir, target) else { return Ok(None) };
    let stopped = known.stopped.clone();
    save_fence(state_dir, target, &ForeignFence { is_accepted: true, ..known })?;
    Ok(Some(stopped))
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
    let lost = load(state_dir, target).ok().flatten().and_then(|record| record.stopped);
    let at_fence = || load_fence(state_dir, target).filter(|known| !known.is_accepted);
    lost.or_else(|| at_fence().map(|known| known.stopped))
}

/// Records the target's tip after a landing.
pub(super) fn remember(repo: &Repo, target: &str, tip: &Oid, with: Pins) -> Result<(), GitError> {
    save(&repo.state_dir, target, &TargetRecord { tip: tip.clone(), stopped: None, with })
}

/// The tip that the last landing left, and the commits of other repositories that it was tested with, if known.
pub(super) fn tested_with(state_dir: &Path, target: &str) -> Option<(Oid, Pins)> {
    let record = load(state_dir, target).ok().flatten()?;
    (!record.with.is_empty()).then_some((record.tip, record.with))
}

/// Checks whether the target, which is at `local`, still contains what landed on it.
pub(super) fn look(
    repo: &Repo,
    work: &Work,
    target: &str,
    local: Option<&Oid>,
    hub: Option<&str>,
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
                remember(repo, target, tip, Pins::new())?;
                return Ok(TargetStanding::Sound);
            }
            let without = if lost.is_empty() { String::new() } else { format!(" without {}", some(&lost)) };
            let (at, back) = match hub {
                None => (String::new(), format!("git merge {}", last.short())),
                Some(hub) => (
                    format!(" at the hub {hub}"),
                    format!("git push --force-with-lease {hub} {last}:{target}"),
                ),
            };
            let why = format!(
                "{target}{at} no longer has what landed on it: it was at {} and is at {}{without}; `regatta land resume` continues from there, `{back}` brings it back",
                last.short(),
                tip.short(),
            );
            (why, lost)
        }
        None => {
            let why = match hub {
                None => format!(
                    "the branch {target} is gone: deleted or renamed; `git branch {target} {}` brings it back",
                    last.short()
                ),
                Some(hub) => format!(
                    "the branch {target} is gone from the hub {hub}; `git push {hub} {last}:refs/heads/{target}` brings it back"
                ),
            };
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

/// Accepts the target as it is, here or at the hub: the train continues from there. Returns the reason it was stopped
/// for and the tip; `None` if there is no such branch.
pub fn resume(
    repo: &Repo,
    target: &str,
    is_at_hub: bool,
) -> Result<Option<(Option<Stopped>, Oid)>, GitError> {
    let branch = names::branch(target);
    let at_fence = if is_at_hub { accept_fence(&repo.state_dir, target)? } else { None };
    // What the train saw at the hub when it stopped; if the hub has moved since, the train looks again.
    let name = if is_at_hub { names::here(&branch) } else { branch };
    let Some(tip) = repo.read_ref(&name)? else { return Ok(None) };
    let stopped = at_fence.or_else(|| stopped(&repo.state_dir, target));
    // A record that cannot be read is replaced, too.
    if path(&repo.state_dir, target).exists() {
        remember(repo, target, &tip, Pins::new())?;
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
        // This branch may only be behind the hub.
        if let Some(at_hub) = repo.read_ref(&names::here(&names::branch(target)))?
            && contains(&at_hub)?
        {
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
