//! Reads refs without a process and moves them by compare-and-swap.
//!
//! Invariant: a ref moves only from the value the caller saw. Reads use the same files as git; repositories with
//! another ref storage are read through git.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::command::Ran;
use super::ref_edits::RefEditRecord;
use super::{GitCommand, GitError, Oid, Repo, absent_is_none, io, read_plain};

/// How often to run an edit whose git is killed each time.
const KILLED_TRIES: u32 = 3;

/// Largest file of one ref, and of packed refs, that is read.
pub(super) const MAX_REF: u64 = 64 << 10;
pub(crate) const MAX_PACKED: u64 = 256 << 20;

/// The content of a HEAD file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeadRef {
    Symbolic(String),
    Detached(Oid),
}

/// Where a branch was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchTip {
    /// `refs/heads/<branch>`.
    Local(Oid),
    /// Only `refs/remotes/origin/<branch>` exists.
    Remote(Oid),
}

impl BranchTip {
    /// The commit in either case.
    pub fn oid(&self) -> &Oid {
        match self {
            Self::Local(oid) | Self::Remote(oid) => oid,
        }
    }
}

/// The value a ref must have for an edit to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// It must not exist.
    Absent,
    /// It must point at this commit.
    Is(Oid),
}

/// One ref's move, or its deletion when `new` is `None`.
#[derive(Clone, Debug)]
pub struct RefEdit {
    /// Full name of the ref.
    pub name: String,
    /// The new value.
    pub new: Option<Oid>,
    /// The expected old value.
    pub old: Expect,
}

/// The result of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum RefOutcome {
    /// All edits were made.
    Done,
    /// This ref had another value; nothing was changed.
    Moved { name: String, now: Option<Oid> },
}

impl Repo {
    /// The commit a full ref name points at, through symbolic refs.
    pub fn read_ref(&self, name: &str) -> Result<Option<Oid>, GitError> {
        check_ref_name(name)?;
        if self.reftable {
            let ran =
                self.real().args(["rev-parse", "--verify", "--quiet", "--end-of-options", name]).run()?;
            return if ran.code == Some(0) { oid_line(&ran.stdout).map(Some) } else { Ok(None) };
        }
        read_files_ref(&self.common_dir, name, 0, read_users)
    }

    /// The tip of a branch, local first, else of `origin`.
    pub fn branch_tip(&self, branch: &str) -> Result<Option<BranchTip>, GitError> {
        if let Some(oid) = self.read_ref(&format!("refs/heads/{branch}"))? {
            return Ok(Some(BranchTip::Local(oid)));
        }
        Ok(self.read_ref(&format!("refs/remotes/origin/{branch}"))?.map(BranchTip::Remote))
    }

    /// Moves refs together or not at all, durably, with a line in the reflog.
    pub fn update_refs(&self, edits: &[RefEdit], message: &str) -> Result<RefOutcome, GitError> {
        self.update_refs_in(&self.common_dir, edits, message)
    }

    /// The same in another git directory: a submodule's.
    pub(crate) fn update_refs_in(
        &self,
        git_dir: &Path,
        edits: &[RefEdit],
        message: &str,
    ) -> Result<RefOutcome, GitError> {
        let mut script = Vec::new();
        for edit in edits {
            check_ref_name(&edit.name)?;
            let line = match (&edit.new, &edit.old) {
                (Some(new), Expect::Absent) => format!("create {}\0{new}\0", edit.name),
                (Some(new), Expect::Is(old)) => format!("update {}\0{new}\0{old}\0", edit.name),
                (None, Expect::Is(old)) => format!("delete {}\0{old}\0", edit.name),
                (None, Expect::Absent) => continue,
            };
            script.extend_from_slice(b"option no-deref\0");
            script.extend_from_slice(line.as_bytes());
        }
        // The reflog needs an identity; the user's own settings may be missing.
        let who = super::Identity::fallback();
        // Not repeated automatically after a kill: the record must first say that its locks may remain.
        let git = self.real_in(git_dir).durable().only_once();
        let command = (git.args(["update-ref", "-m", message, "--stdin", "-z"]))
            .env("GIT_COMMITTER_NAME", &who.name)
            .env("GIT_COMMITTER_EMAIL", &who.email)
            .stdin(script);
        let read = |name: &str| {
            if git_dir == self.common_dir {
                self.read_ref(name)
            } else {
                read_files_ref(git_dir, name, 0, read_plain)
            }
        };
        let mut ran = self.recorded(&command)?;
        for _ in 1..KILLED_TRIES {
            if ran.code.is_some() {
                break;
            }
            // It was killed, before or after it moved them: each ref shows which.
            let mut all_moved = true;
            for edit in edits {
                all_moved &= read(&edit.name)? == edit.new;
            }
            if all_moved {
                return Ok(RefOutcome::Done);
            }
            ran = self.recorded(&command)?;
        }
        if ran.code == Some(0) {
            return Ok(RefOutcome::Done);
        }
        let mut seen = Vec::with_capacity(edits.len());
        for edit in edits {
            seen.push(read(&edit.name)?);
        }
        // Git may have been killed after everything was done, before it could answer.
        if edits.iter().zip(&seen).all(|(edit, now)| edit.new == *now) {
            return Ok(RefOutcome::Done);
        }
        for (edit, now) in edits.iter().zip(seen) {
            let expected = match &edit.old {
                Expect::Absent => None,
                Expect::Is(oid) => Some(oid),
            };
            if now.as_ref() != expected {
                return Ok(RefOutcome::Moved { name: edit.name.clone(), now });
            }
        }
        Err(ran.into_error())
    }

    /// Runs an edit of refs with a record on disk.
    fn recorded(&self, command: &GitCommand) -> Result<Ran, GitError> {
        let record = RefEditRecord::dir(&self.state_dir).and_then(|dir| RefEditRecord::begin(&dir));
        let ran = command.run();
        match (record, &ran) {
            (Some(record), Ok(Ran { code: None, .. })) => record.killed(),
            (Some(record), _) => record.done(),
            (None, _) => {}
        }
        ran
    }

    /// All refs below a prefix that ends in `/`, with their ids, sorted by name.
    pub(crate) fn refs_below(&self, prefix: &str) -> Result<Vec<(String, Oid)>, GitError> {
        let listed =
            self.real().args(["for-each-ref", "--format=%(refname) %(objectname)", "--", prefix]).text()?;
        listed
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(name, oid)| Ok((name.to_owned(), Oid::parse(oid)?)))
            .collect()
    }

    /// Refs below a prefix that ends in `/` whose commits are not all in `tip`, newest first, up to a maximum number.
    pub(crate) fn unmerged_below(
        &self,
        prefix: &str,
        tip: &Oid,
        most: usize,
    ) -> Result<Vec<(String, Oid)>, GitError> {
        let (count, merged) = (format!("--count={most}"), format!("--no-merged={tip}"));
        let flags = ["--sort=-committerdate", &count, &merged, "--format=%(refname) %(objectname)"];
        let listed = self.real().arg("for-each-ref").args(flags).args(["--", prefix]).text()?;
        let pairs = listed.lines().filter_map(|line| line.split_once(' '));
        pairs.map(|(name, oid)| Ok((name.to_owned(), Oid::parse(oid)?))).collect()
    }
}

/// HEAD of one worktree.
pub(crate) fn head(repo: &Repo, git_dir: &Path) -> Result<HeadRef, GitError> {
    if let Some(name) = symbolic_target(repo, git_dir, "HEAD")? {
        return Ok(HeadRef::Symbolic(name));
    }
    if repo.reftable {
        let oid = repo.real_in(git_dir).args(["rev-parse", "--verify", "HEAD"]).text()?;
        return Ok(HeadRef::Detached(Oid::parse(&oid)?));
    }
    let path = git_dir.join("HEAD");
    Ok(HeadRef::Detached(Oid::parse(&fs::read_to_string(&path).map_err(io("read", &path))?)?))
}

/// The commit that HEAD of one worktree points at; `None` on an unborn branch.
pub(crate) fn head_oid(repo: &Repo, git_dir: &Path) -> Result<Option<Oid>, GitError> {
    match head(repo, git_dir)? {
        HeadRef::Detached(oid) => Ok(Some(oid)),
        HeadRef::Symbolic(name) => repo.read_ref(&name),
    }
}

/// HEAD of a separate repository, read from its files; `None` if it is unborn.
pub(crate) fn read_head_in(git_dir: &Path) -> Result<Option<Oid>, GitError> {
    match head_in(git_dir)? {
        HeadRef::Symbolic(name) => {
            check_ref_name(&name)?;
            read_files_ref(git_dir, &name, 0, read_plain)
        }
        HeadRef::Detached(oid) => Ok(Some(oid)),
    }
}

/// The content of HEAD of a separate repository.
pub(crate) fn head_in(git_dir: &Path) -> Result<HeadRef, GitError> {
    let path = git_dir.join("HEAD");
    let text = read_plain(&path, MAX_REF)?.ok_or_else(|| io("read", &path)(ErrorKind::NotFound.into()))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    match text.strip_prefix("ref:") {
        Some(name) => Ok(HeadRef::Symbolic(name.trim().to_owned())),
        None => Ok(HeadRef::Detached(Oid::parse(&text)?)),
    }
}

/// The target of a symbolic ref; `None` if it is absent or not symbolic.
pub(crate) fn symbolic_target(repo: &Repo, git_dir: &Path, name: &str) -> Result<Option<String>, GitError> {
    if repo.reftable {
        let ran = repo.real_in(git_dir).args(["symbolic-ref", "--quiet", "--", name]).run()?;
        let target = String::from_utf8_lossy(&ran.stdout).trim_end().to_owned();
        return Ok((ran.code == Some(0)).then_some(target));
    }
    let path = git_dir.join(name);
    let text = absent_is_none(fs::read_to_string(&path)).map_err(io("read", &path))?;
    Ok(text.as_deref().and_then(|text| text.strip_prefix("ref:")).map(|target| target.trim().to_owned()))
}

pub(crate) fn oid_line(bytes: &[u8]) -> Result<Oid, GitError> {
    Ok(Oid::parse(&String::from_utf8_lossy(bytes))?)
}

/// Reads a file with a limit in bytes; `None` if there is none, or a directory in its place.
type ReadFile = fn(&Path, u64) -> Result<Option<Vec<u8>>, GitError>;

/// In the user's own git directory, links are followed as git follows them.
pub(super) fn read_users(path: &Path, _most: u64) -> Result<Option<Vec<u8>>, GitError> {
    match absent_is_none(fs::read(path)) {
        Err(error) if error.kind() == ErrorKind::IsADirectory => Ok(None),
        other => other.map_err(io("read", path)),
    }
}

fn read_files_ref(common_dir: &Path, name: &str, depth: u8, read: ReadFile) -> Result<Option<Oid>, GitError> {
    let loose = read(&common_dir.join(name), MAX_REF)?;
    let loose = loose.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    match loose.as_deref() {
        Some(text) => match text.strip_prefix("ref:") {
            Some(target) if depth < 5 => {
                check_ref_name(target.trim())?;
                read_files_ref(common_dir, target.trim(), depth + 1, read)
            }
            _ => Ok(Some(Oid::parse(text)?)),
        },
        None => read_packed_ref(common_dir, name, read),
    }
}

fn read_packed_ref(common_dir: &Path, name: &str, read: ReadFile) -> Result<Option<Oid>, GitError> {
    let path = common_dir.join("packed-refs");
    let Some(packed) = read(&path, MAX_PACKED)? else { return Ok(None) };
    for line in packed.split(|b| *b == b'\n') {
        if let Some(at) = line.iter().position(|b| *b == b' ')
            && &line[at + 1..] == name.as_bytes()
            && line[0] != b'#'
        {
            return oid_line(&line[..at]).map(Some);
        }
    }
    Ok(None)
}

/// Refuses names that could leave `refs/` or be read as an option; git checks the finer rules itself.
pub(crate) fn check_ref_name(name: &str) -> Result<(), GitError> {
    let bad_part = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    let bad_char = |c: char| c.is_control() || matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\');
    let bad = !name.starts_with("refs/")
        || name.split('/').any(bad_part)
        || name.contains("..")
        || name.contains("@{")
        || name.ends_with('.')
        || name.chars().any(bad_char);
    if bad { Err(GitError::BadBranch(name.to_owned())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_refs_are_refused() {
        for bad in [
            "refs/heads/../../x",
            "refs/heads/",
            "HEAD",
            "refs/heads/a b",
            "refs/heads/x.lock",
            "refs/heads/.x",
        ] {
            assert!(check_ref_name(bad).is_err(), "{bad}");
        }
        for good in
            ["refs/heads/main", "refs/heads/-x", "refs/heads/feature/ünï", "refs/regatta/salvage/PRD-1/1"]
        {
            assert!(check_ref_name(good).is_ok(), "{good}");
        }
    }
}
