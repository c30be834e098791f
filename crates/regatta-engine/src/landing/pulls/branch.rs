//! The branch of a pull request at the remote, in git: pushed, taken over, deleted.
//!
//! Invariant: the branch only moves forward. Work that does not contain what is there is joined with it by a merge
//! commit; a branch is deleted only at the commit that was merged.

use std::collections::BTreeMap;

use regatta_core::id::TaskId;

use crate::clock;
use crate::context::Context;
use crate::git::{Expect, GitError, Oid, RefEdit};
use crate::landing::merge::{Author, Merged, git_date, merge_trees, write_commit};

/// Our own ref of what was pushed, or is about to be: no `git gc` removes it meanwhile.
fn held(task: &TaskId) -> String {
    format!("refs/regatta/pull/{task}")
}

/// Where branches are fetched to.
fn fetched(task: &TaskId) -> String {
    format!("refs/regatta/pull-there/{task}")
}

/// Keeps a commit that is about to be pushed.
pub(super) fn hold(ctx: &Context, task: &TaskId, commit: &Oid) -> Result<(), GitError> {
    let name = held(task);
    let old = ctx.repository.repo.read_ref(&name)?;
    if old.as_ref() == Some(commit) {
        return Ok(());
    }
    let old = old.map_or(Expect::Absent, Expect::Is);
    let edit = RefEdit { name, new: Some(commit.clone()), old };
    ctx.repository.repo.update_refs(&[edit], "regatta: proposed").map(drop)
}

/// Releases what was kept for a pull request that is over.
pub(super) fn let_go(ctx: &Context, task: &TaskId) -> Result<(), GitError> {
    let mut edits = Vec::new();
    for name in [held(task), fetched(task)] {
        if let Some(oid) = ctx.repository.repo.read_ref(&name)? {
            edits.push(RefEdit { name, new: None, old: Expect::Is(oid) });
        }
    }
    if edits.is_empty() {
        return Ok(());
    }
    ctx.repository.repo.update_refs(&edits, "regatta: the pull request is over").map(drop)
}

/// The commit of a branch at a remote; `None` if it is not there.
pub(super) fn tip_there(ctx: &Context, remote: &str, branch: &str) -> Result<Option<Oid>, GitError> {
    let git = ctx.repository.work.bare().cwd(&ctx.repository.checkout).env("GIT_TERMINAL_PROMPT", "0");
    let listed = git.args(["ls-remote", "--", remote]).arg(format!("refs/heads/{branch}")).text()?;
    listed.split_whitespace().next().map(Oid::parse).transpose().map_err(Into::into)
}

/// The commits of all branches of tasks at a remote, by branch.
pub(super) fn tips_there(ctx: &Context, remote: &str) -> Result<BTreeMap<String, Oid>, GitError> {
    let git = ctx.repository.work.bare().cwd(&ctx.repository.checkout).env("GIT_TERMINAL_PROMPT", "0");
    let listed = git.args(["ls-remote", "--", remote, "refs/heads/regatta/*"]).text()?;
    let mut tips = BTreeMap::new();
    for (oid, name) in listed.lines().filter_map(|line| line.split_once('\t')) {
        if let Some(branch) = name.strip_prefix("refs/heads/") {
            tips.insert(branch.to_owned(), Oid::parse(oid)?);
        }
    }
    Ok(tips)
}

/// Fetches the branch of a task without touching the user's own; `None` if it is not there.
pub(super) fn fetch(
    ctx: &Context,
    remote: &str,
    branch: &str,
    task: &TaskId,
) -> Result<Option<Oid>, GitError> {
    let Some(tip) = tip_there(ctx, remote, branch)? else { return Ok(None) };
    if !ctx.repository.work.exists(&tip)? {
        let git = ctx.repository.work.bare().cwd(&ctx.repository.checkout).env("GIT_TERMINAL_PROMPT", "0");
        let quiet = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"];
        let refspec = format!("+refs/heads/{branch}:{}", fetched(task));
        git.args(quiet).args(["--", remote]).arg(refspec).bytes()?;
    }
    // It may have moved once more since.
    Ok(ctx.repository.work.exists(&tip)?.then_some(tip))
}

/// The commit to push: `work` with everything that is `there`, on top of it. Of what Regatta left there (`ours`), the
/// content of `work` counts: work on another base replaces it. What others pushed since is merged; `None` if that
/// conflicts, or if they replaced `ours`.
pub(super) fn joined(
    ctx: &Context,
    ours: Option<&Oid>,
    there: Option<&Oid>,
    work: &Oid,
) -> Result<Option<Oid>, GitError> {
    let repo = &ctx.repository.work;
    let Some(there) = there.or(ours) else { return Ok(Some(work.clone())) };
    if repo.is_ancestor(there, work)? {
        return Ok(Some(work.clone()));
    }
    let is_forward = match ours {
        Some(ours) => repo.is_ancestor(ours, there)?,
        None => repo.is_ancestor(work, there)?,
    };
    if !is_forward {
        return Ok(None);
    }
    // What is there contains it: a person pushed on top, or nothing has changed.
    if repo.is_ancestor(work, there)? {
        return Ok(Some(there.clone()));
    }
    let tree = match merge_trees(repo, ours, work, there)? {
        Merged::Tree(tree) => tree,
        Merged::Conflict { .. } => return Ok(None),
    };
    let message = format!("Continue with {}\n", work.short());
    join(ctx, &tree, &[there, work], message).map(Some)
}

/// A merge of the target into the branch; the files in conflict if there are any.
pub(super) fn update(
    ctx: &Context,
    head: &Oid,
    tip: &Oid,
) -> Result<Result<Oid, Vec<std::path::PathBuf>>, GitError> {
    if ctx.repository.work.is_ancestor(tip, head)? {
        return Ok(Ok(head.clone()));
    }
    match merge_trees(&ctx.repository.work, None, head, tip)? {
        Merged::Tree(tree) => {
            let message = format!("Merge {} into this branch\n", ctx.repository.target);
            join(ctx, &tree, &[head, tip], message).map(Ok)
        }
        Merged::Conflict { paths, .. } => Ok(Err(paths)),
    }
}

fn join(ctx: &Context, tree: &Oid, parents: &[&Oid], message: String) -> Result<Oid, GitError> {
    let (who, at) = (ctx.repository.work.identity(), clock::now());
    let date = git_date(at);
    let author = Author { name: &who.name, email: &who.email, date: &date };
    write_commit(&ctx.repository.work, tree, parents, &author, (&who, at), message.as_bytes())
}

/// What came of a deletion.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Deleted {
    /// It is gone.
    Gone,
    /// It carries commits that were not merged, or the remote does not allow it: it stays.
    Stays,
}

/// Deletes a branch at a remote, only at this commit.
pub(super) fn delete(ctx: &Context, remote: &str, branch: &str, at: &Oid) -> Result<Deleted, GitError> {
    match tip_there(ctx, remote, branch)? {
        None => return Ok(Deleted::Gone),
        Some(tip) if tip != *at => return Ok(Deleted::Stays),
        Some(_) => {}
    }
    let name = format!("refs/heads/{branch}");
    let git = ctx.repository.work.bare().cwd(&ctx.repository.checkout).env("GIT_TERMINAL_PROMPT", "0");
    let lease = format!("--force-with-lease={name}:{at}");
    let ran = git
        .args(["push", "--porcelain", "--no-verify", &lease, "--", remote])
        .arg(format!(":{name}"))
        .run()?;
    Ok(if ran.code == Some(0) { Deleted::Gone } else { Deleted::Stays })
}
