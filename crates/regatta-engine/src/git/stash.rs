//! The stash, which all worktrees of a repository share: in a lane without a git directory of its own, an agent's `git
//! stash pop` takes the user's.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use super::{Expect, GitError, Oid, RefEdit, RefOutcome, Repo, Work, absent_is_none, io};

const STASH: &str = "refs/stash";
/// Prefix of the refs for stashes that were removed.
const KEPT: &str = "refs/regatta/stash/";

/// One entry of `git stash list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stash {
    pub(crate) commit: Oid,
    /// The message in the list: `WIP on main: …`.
    pub(crate) message: String,
}

impl Repo {
    /// All stashes, the oldest first.
    pub(crate) fn stashes(&self) -> Result<Vec<Stash>, GitError> {
        if self.reftable {
            let ran = self.real().args(["reflog", "show", "--format=%H%x09%gs", STASH, "--"]).run()?;
            let mut found = parse(&String::from_utf8_lossy(&ran.stdout));
            found.reverse();
            return Ok(found);
        }
        let path = self.common_dir.join("logs").join(STASH);
        let log = absent_is_none(fs::read(&path)).map_err(io("read", &path))?.unwrap_or_default();
        Ok(parse_log(&String::from_utf8_lossy(&log)))
    }

    /// Keeps a stash that is no longer in the list; returns its ref if it had none before.
    pub(crate) fn keep_stash(&self, stash: &Stash) -> Result<Option<String>, GitError> {
        let name = format!("{KEPT}{}", stash.commit.short());
        if self.read_ref(&name)?.is_some() {
            return Ok(None);
        }
        let edit = RefEdit { name: name.clone(), new: Some(stash.commit.clone()), old: Expect::Absent };
        let kept = self.update_refs(&[edit], "regatta: a stash that went")?;
        Ok((!matches!(kept, RefOutcome::Moved { .. })).then_some(name))
    }

    /// Puts a stash back on the list.
    pub(crate) fn put_stash_back(&self, stash: &Stash) -> Result<(), GitError> {
        let command = self.real().args(["update-ref", "--create-reflog", "-m", &stash.message, STASH]);
        command.arg(&stash.commit).bytes().map(drop)
    }
}

/// Parses the reflog of the stash: `<old> <new> <who> <when> TAB <message>`.
pub(crate) fn parse_log(log: &str) -> Vec<Stash> {
    let lines: Vec<&str> = log.lines().filter_map(|line| Some(line.split_once(' ')?.1)).collect();
    parse(&lines.join("\n"))
}

/// Parses lines of an id, possibly more fields, and a message behind a tab.
pub(crate) fn parse(lines: &str) -> Vec<Stash> {
    let stash = |line: &str| {
        let (facts, message) = line.split_once('\t')?;
        let commit = Oid::parse(facts.split(' ').next()?).ok()?;
        Some(Stash { commit, message: message.to_owned() })
    };
    lines.lines().filter_map(stash).collect()
}

impl Work {
    /// Whether the changes of `head` since `base` are those of the stash. If the stash is gone, the same files are
    /// enough: applying it may have merged them.
    pub(crate) fn has_stash(
        &self,
        stash: &Stash,
        is_gone: bool,
        base: &Oid,
        head: &Oid,
    ) -> Result<bool, GitError> {
        let changed: BTreeSet<PathBuf> = self.paths_between(base, head)?.into_iter().collect();
        let Some(onto) = self.parent_of(&stash.commit)? else { return Ok(false) };
        let mut files: BTreeSet<PathBuf> = self.paths_between(&onto, &stash.commit)?.into_iter().collect();
        let mut same = !self.paths_between(&stash.commit, head)?.iter().any(|path| files.contains(path));
        // Untracked files are in a third parent.
        let commits = self.commits_beyond(&[&onto], &stash.commit)?;
        let untracked = commits.iter().find(|commit| commit.parents.is_empty());
        if let Some(untracked) = untracked {
            let listed =
                self.bare().args(["ls-tree", "-r", "-z", "--name-only"]).arg(&untracked.oid).bytes()?;
            let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
            let others: BTreeSet<PathBuf> = names
                .map(|name| <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name).into())
                .collect();
            same &= !self.paths_between(&untracked.oid, head)?.iter().any(|path| others.contains(path));
            files.extend(others);
        }
        let all_touched = !files.is_empty() && files.is_subset(&changed);
        Ok(all_touched && (same || is_gone))
    }
}
