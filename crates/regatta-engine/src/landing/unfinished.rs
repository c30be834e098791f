//! Moves of the target that a checkout has not completely followed yet.
//!
//! Invariant: a checkout's move is on disk before the target moves and is removed when its last file is in place. The
//! next process that checks (a train, `regatta doctor --fix`) finishes what a kill or a full disk interrupted. One
//! process at a time moves checkouts.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use regatta_core::causes::with_causes;
use regatta_core::hex::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::follow::Follower;
use super::publish::lock_patiently;
use crate::git::{
    Checkout, FileLock, GitError, Oid, Operation, Repo, Work, absent_is_none, io, replace_file,
};

/// A checkout on its way from one commit to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The directory.
    pub checkout: PathBuf,
    /// Its git directory.
    git_dir: PathBuf,
    /// The full name of the branch that moved.
    branch: String,
    from: Oid,
    to: Oid,
}

/// The result of finishing moves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Checkouts that are now complete, and the files in them that are the user's own.
    pub finished: Vec<(PathBuf, Vec<PathBuf>)>,
    /// Checkouts that are not, and why.
    pub unfinished: Vec<(PathBuf, String)>,
}

impl Move {
    pub(super) fn new(checkout: &Checkout, branch: &str, from: &Oid, to: &Oid) -> Self {
        Self {
            checkout: checkout.path.clone(),
            git_dir: checkout.git_dir.clone(),
            branch: branch.to_owned(),
            from: from.clone(),
            to: to.clone(),
        }
    }

    fn file(&self, repo: &Repo) -> PathBuf {
        use std::os::unix::ffi::OsStrExt as _;
        let hash = Sha256::digest(self.git_dir.as_os_str().as_bytes());
        directory(&repo.state_dir).join(format!("{}.json", hex(&hash[..8])))
    }

    /// Records the move.
    pub(super) fn begin(&self, repo: &Repo) -> Result<(), GitError> {
        let text = serde_json::to_vec(self).expect("our own values serialise");
        replace_file(&self.file(repo), &text)
    }

    pub(super) fn is_begun(&self, repo: &Repo) -> bool {
        self.file(repo).exists()
    }

    /// The checkout is complete, or its move never began.
    pub(super) fn end(&self, repo: &Repo) {
        fs::remove_file(self.file(repo)).ok();
    }
}

/// The right to move checkouts, until it is dropped.
pub(super) fn alone(repo: &Repo) -> Result<FileLock, GitError> {
    FileLock::wait(directory(&repo.state_dir).join("lock"))
}

/// Every unfinished move. A record that cannot be read is an error: its checkout may be incomplete.
pub fn unfinished(state_dir: &Path) -> Result<Vec<Move>, GitError> {
    let dir = directory(state_dir);
    let Some(entries) = absent_is_none(fs::read_dir(&dir)).map_err(io("list", &dir))? else {
        return Ok(Vec::new());
    };
    let files = entries.flatten().map(|entry| entry.path());
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
    files.filter_map(|path| read_move(&path).transpose()).collect()
}

/// The move that a file records; `None` if it has ended meanwhile.
fn read_move(path: &Path) -> Result<Option<Move>, GitError> {
    let Some(bytes) = absent_is_none(fs::read(path)).map_err(io("read", path))? else { return Ok(None) };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|source| GitError::BadMove { path: path.to_owned(), source })
}

/// Whether there is any.
pub(crate) fn has_unfinished(state_dir: &Path) -> bool {
    unfinished(state_dir).is_ok_and(|moves| !moves.is_empty())
}

/// Finishes interrupted moves.
pub fn finish(repo: &Repo, work: &Work) -> Result<Looked, GitError> {
    if unfinished(&repo.state_dir)?.is_empty() {
        return Ok(Looked::default());
    }
    let _alone = alone(repo)?;
    finish_alone(repo, work)
}

/// The same for a caller that holds [`alone`].
pub(super) fn finish_alone(repo: &Repo, work: &Work) -> Result<Looked, GitError> {
    let mut looked = Looked::default();
    for one in unfinished(&repo.state_dir)? {
        let at = one.checkout.display();
        match finish_one(repo, work, &one) {
            Ok(Ok(kept)) => {
                one.end(repo);
                looked.finished.push((one.checkout, kept));
            }
            Ok(Err(why)) => {
                let why = format!("the checkout at {at} has not followed {} yet: {why}", short(&one.branch));
                looked.unfinished.push((one.checkout, why));
            }
            Err(error) => {
                let why = with_causes(&error);
                let why = format!(
                    "the checkout at {at} has not followed {} yet: could not {why}",
                    short(&one.branch)
                );
                looked.unfinished.push((one.checkout, why));
            }
        }
    }
    Ok(looked)
}

/// Returns the user's files that stay, or what has to be waited for.
fn finish_one(repo: &Repo, work: &Work, one: &Move) -> Result<Result<Vec<PathBuf>, String>, GitError> {
    let done = Ok(Ok(Vec::new()));
    let found = repo.checkouts()?.into_iter().find(|checkout| checkout.git_dir == one.git_dir);
    let Some(checkout) = found else { return done };
    Follower::clear_own_lock(&checkout);
    if let Some(operation) = Operation::under_way(&checkout.git_dir) {
        return Ok(Err(format!("it is in the middle of a {operation}")));
    }
    let Move { from, to, .. } = one;
    let on_branch = checkout.on.as_deref() == Some(one.branch.as_str());
    let (Some(tip), true, true) =
        (repo.read_ref(&one.branch)?, on_branch, checkout.git_dir.join("index").exists())
    else {
        return done;
    };
    // The branch never moved, or the user has moved it elsewhere since.
    if !work.exists(to)? || !work.exists(from)? || !work.is_ancestor(to, &tip)? {
        return done;
    }
    // What the user has committed on top is theirs.
    let skip: BTreeSet<PathBuf> = work.paths_between(to, &tip)?.into_iter().collect();
    let Some(mut follower) = lock_patiently(repo, work, &checkout)? else {
        return Ok(Err("git is running in it, or left its index.lock there".to_owned()));
    };
    follower.settle(from, to, &skip).map(Ok)
}

fn short(branch: &str) -> &str {
    branch.strip_prefix("refs/heads/").unwrap_or(branch)
}

fn directory(state_dir: &Path) -> PathBuf {
    state_dir.join("moves")
}
