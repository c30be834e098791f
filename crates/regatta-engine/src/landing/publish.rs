//! Moves the target to a commit that passed.
//!
//! Invariant: the one irreversible step is the compare-and-swap of the target ref. Before it, everything that could
//! refuse has been checked, and the checkouts that must follow are on record; after it, their indexes show the move at
//! once, then their files follow, now or in the next round (`landing::unfinished`).

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use regatta_core::causes::with_causes;

use super::follow::{Follower, Way};
use super::unfinished::{self, Move};
use crate::failpoint;
use crate::git::{Checkout, Expect, GitError, Oid, Operation, RefEdit, RefOutcome, Repo, Work, io};

const LOCK_TRIES: u32 = 8;
const FIRST_WAIT: Duration = Duration::from_millis(20);

/// What to publish.
#[derive(Clone, Debug)]
pub struct PublishRequest {
    /// Short branch name.
    pub target: String,
    /// The expected current commit; `None` to create the branch.
    pub old: Option<Oid>,
    /// The new commit.
    pub new: Oid,
    /// The message for the reflog.
    pub message: String,
}

/// The result of publishing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Published {
    /// The target is at `new`. `kept` are files that changed at the last moment, and stay as the user has them.
    Moved { followed: Vec<PathBuf>, kept: Vec<PathBuf> },
    /// The target is at `new`, but git or the disk kept a checkout from following: the next round finishes it.
    HalfWay { why: String },
    /// A checkout has not followed an earlier move yet; nothing was changed.
    Unfinished { why: String },
    /// The target was moved by someone else first.
    TargetMoved { now: Option<Oid> },
    /// A checkout of the target is in use; nothing was changed.
    WaitingForCheckout { worktree: PathBuf, paths: Vec<PathBuf>, why: WaitingFor },
}

/// What the user has to finish first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitingFor {
    /// Changes in files the landing touches, or untracked files in its way.
    LocalChanges,
    /// A merge, rebase or the like.
    Unfinished(Operation),
    /// A git command is running there, or was killed and left its `index.lock`.
    Locked,
}

/// What would make [`publish`] wait, as far as visible without locking an index. For cars that are checked repeatedly:
/// a user's own git command must not fail because of it.
pub fn in_the_way(repo: &Repo, work: &Work, request: &PublishRequest) -> Result<Option<Published>, GitError> {
    let Some(old) = &request.old else { return Ok(None) };
    for checkout in users_of(repo, &format!("refs/heads/{}", request.target))? {
        let (worktree, git_dir) = (checkout.path.clone(), checkout.git_dir.clone());
        if let Some(operation) = Operation::under_way(&git_dir) {
            let why = WaitingFor::Unfinished(operation);
            return Ok(Some(Published::WaitingForCheckout { worktree, paths: Vec::new(), why }));
        }
        if !git_dir.join("index").exists() {
            continue;
        }
        if let Way::Blocked(paths) = Follower::look(repo, work, checkout)?.way(old, &request.new)? {
            let why = WaitingFor::LocalChanges;
            return Ok(Some(Published::WaitingForCheckout { worktree, paths, why }));
        }
    }
    Ok(None)
}

/// Moves the target and updates the checkouts that have it checked out.
pub fn publish(repo: &Repo, work: &Work, request: &PublishRequest) -> Result<Published, GitError> {
    let name = format!("refs/heads/{}", request.target);
    let _alone = unfinished::alone(repo)?;
    let now = repo.read_ref(&name)?;
    if now != request.old {
        return Ok(Published::TargetMoved { now });
    }
    if let Some((_, why)) = unfinished::finish_alone(repo, work)?.unfinished.pop() {
        return Ok(Published::Unfinished { why });
    }
    let mut followers = Vec::new();
    for checkout in users_of(repo, &name)? {
        let waiting =
            |paths, why| Published::WaitingForCheckout { worktree: checkout.path.clone(), paths, why };
        if let Some(operation) = Operation::under_way(&checkout.git_dir) {
            return Ok(waiting(Vec::new(), WaitingFor::Unfinished(operation)));
        }
        // A worktree without an index has no files to update.
        if !checkout.git_dir.join("index").exists() {
            continue;
        }
        let Some(mut follower) = lock_patiently(repo, work, &checkout)? else {
            return Ok(waiting(vec![checkout.git_dir.join("index.lock")], WaitingFor::Locked));
        };
        let Some(old) = &request.old else { continue };
        if let Way::Blocked(paths) = follower.way(old, &request.new)? {
            return Ok(waiting(paths, WaitingFor::LocalChanges));
        }
        follower.prepare(old, &request.new)?;
        followers.push((follower, Move::new(&checkout, &name, old, &request.new)));
    }
    let begun = followers.iter().try_for_each(|(_, one)| one.begin(repo));
    let old = request.old.clone().map_or(Expect::Absent, Expect::Is);
    let edit = RefEdit { name, new: Some(request.new.clone()), old };
    let moved = begun.and_then(|()| repo.update_refs(&[edit], &request.message));
    if !matches!(moved, Ok(RefOutcome::Done)) {
        followers.iter().for_each(|(_, one)| one.end(repo));
    }
    if let RefOutcome::Moved { now, .. } = moved? {
        return Ok(Published::TargetMoved { now });
    }
    failpoint::reach("checkout-behind");
    // Whatever disk errors follow, the branch has moved, and the checkouts follow.
    let mut trouble = sync_ref(repo, &request.target).err();
    let (mut followed, mut kept) = (Vec::new(), Vec::new());
    for (follower, one) in followers {
        let path = follower.path().to_owned();
        match bring_along(follower, request) {
            Ok(stay) => {
                one.end(repo);
                kept.extend(stay.into_iter().map(|file| path.join(file)));
                followed.push(path);
            }
            Err(error) => trouble = Some(error),
        }
    }
    Ok(match trouble {
        None => Published::Moved { followed, kept },
        Some(error) => Published::HalfWay { why: with_causes(&error) },
    })
}

/// Makes the move of a branch survive a power cut: git syncs the file, but not the directory it is renamed in.
fn sync_ref(repo: &Repo, branch: &str) -> Result<(), GitError> {
    let heads = repo.common_dir.join("refs/heads");
    let file = heads.join(branch.strip_prefix("refs/heads/").unwrap_or(branch));
    let dir = file.parent().unwrap_or(&heads);
    // A reftable has no such directory, and git syncs what it renames.
    match std::fs::File::open(dir) {
        Ok(opened) => opened.sync_all().map_err(io("write through", dir)),
        Err(_) => Ok(()),
    }
}

/// Updates index and files of one checkout; returns the files that stay as the user has them.
fn bring_along(mut follower: Follower<'_>, request: &PublishRequest) -> Result<Vec<PathBuf>, GitError> {
    let Some(old) = &request.old else { return Ok(Vec::new()) };
    follower.show_move()?;
    failpoint::reach("index-moved");
    match follower.go(old, &request.new) {
        Ok(true) => Ok(Vec::new()),
        // Something changed at the last moment, or git could not continue: update path by path.
        Ok(false) | Err(_) => follower.settle(old, &request.new, &BTreeSet::new()),
    }
}

/// After a crash between the move of the ref and the files: updates every checkout whose move is on record, or whose
/// index is still exactly the old tree.
pub fn resume_follow(
    repo: &Repo,
    work: &Work,
    target: &str,
    old: &Oid,
    new: &Oid,
) -> Result<Vec<PathBuf>, GitError> {
    let name = format!("refs/heads/{target}");
    let _alone = unfinished::alone(repo)?;
    let users = users_of(repo, &name)?;
    users.iter().for_each(Follower::clear_own_lock);
    if repo.read_ref(&name)?.as_ref() == Some(new) {
        for checkout in users {
            let one = Move::new(&checkout, &name, old, new);
            let busy =
                Operation::under_way(&checkout.git_dir).is_some() || !checkout.git_dir.join("index").exists();
            if busy || one.is_begun(repo) {
                continue;
            }
            let follower = Follower::look(repo, work, checkout)?;
            if follower.index_tree()? == Some(work.tree_of(old)?) {
                one.begin(repo)?;
            }
        }
    }
    let looked = unfinished::finish_alone(repo, work)?;
    Ok(looked.finished.into_iter().map(|(checkout, _)| checkout).collect())
}

/// The user's worktrees that are on the branch or rebasing it.
fn users_of(repo: &Repo, name: &str) -> Result<Vec<Checkout>, GitError> {
    let mut users = repo.checkouts()?;
    users.retain(|checkout| !checkout.is_lane && checkout.holds(name));
    Ok(users)
}

pub(super) fn lock_patiently<'a>(
    repo: &Repo,
    work: &'a Work,
    checkout: &Checkout,
) -> Result<Option<Follower<'a>>, GitError> {
    let mut wait = FIRST_WAIT;
    for _ in 0..LOCK_TRIES {
        if let Some(follower) = Follower::lock(repo, work, checkout.clone())? {
            return Ok(Some(follower));
        }
        std::thread::sleep(crate::git::jittered(wait));
        wait *= 2;
    }
    Ok(None)
}
