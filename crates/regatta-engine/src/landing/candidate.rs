//! The commit that would land.
//!
//! Invariant: [`build`] is a pure function of its request and of the objects it names. Asked again after a crash it
//! makes the same commit, so "did this land?" is answered by looking for its id.

use std::path::PathBuf;

use regatta_core::time::Timestamp;
pub use regatta_core::train::Strategy;

use super::merge::{Author, Merged, git_date, merge_trees, write_commit};
use crate::git::{GitError, Identity, LoggedCommit, Oid, Work};

/// Everything a candidate is made of.
#[derive(Clone, Debug)]
pub struct CandidateRequest {
    /// How.
    pub strategy: Strategy,
    /// The target, or the candidate before this one.
    pub target_tip: Oid,
    /// What the lane began from.
    pub base: Oid,
    /// What it made.
    pub head: Oid,
    /// For squash and merge.
    pub message: String,
    /// Committer; for squash and merge the author too.
    pub identity: Identity,
    /// Committer date of every commit that is written.
    pub at: Timestamp,
    /// `(key, value)` lines at the end of `message`.
    pub trailers: Vec<(String, String)>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Candidate {
    /// This commit can be tested and landed. With `fast_forward` it is the lane's own head.
    Clean { commit: Oid, tree: Oid, fast_forward: bool },
    /// The target has all of it.
    AlreadyIn,
    /// The lane made no commits.
    Empty,
    /// These files do not merge.
    Conflict { paths: Vec<PathBuf>, details: String },
}

/// Builds the candidate of one lane.
pub fn build(work: &Work, request: &CandidateRequest) -> Result<Candidate, GitError> {
    if request.head == request.base {
        return Ok(Candidate::Empty);
    }
    let commits = work.commits_beyond(&[&request.base, &request.target_tip], &request.head)?;
    let Some(last) = commits.last() else {
        // Either the target has them, or the agent went back behind its base.
        let gone_back = work.is_ancestor(&request.head, &request.base)?;
        return Ok(if gone_back { Candidate::Empty } else { Candidate::AlreadyIn });
    };
    match request.strategy {
        Strategy::Rebase => rebase(work, request, &commits, last),
        Strategy::Squash => squash(work, request),
        Strategy::Merge => merge(work, request),
    }
}

fn rebase(
    work: &Work,
    request: &CandidateRequest,
    commits: &[LoggedCommit],
    last: &LoggedCommit,
) -> Result<Candidate, GitError> {
    let linear = commits.iter().all(|commit| commit.parents.len() == 1)
        && commits.windows(2).all(|pair| pair[1].parents[0] == pair[0].oid);
    let on_tip = linear && commits[0].parents[0] == request.target_tip;
    if on_tip || (!linear && work.is_ancestor(&request.target_tip, &request.head)?) {
        return Ok(Candidate::Clean {
            commit: last.oid.clone(),
            tree: last.tree.clone(),
            fast_forward: true,
        });
    }
    if !linear {
        // Replaying a merge would need the resolution its author made: take the result as a whole.
        return squash(work, request);
    }
    let mut onto = request.target_tip.clone();
    let mut tree = work.tree_of(&onto)?;
    for commit in commits {
        let merged = match merge_trees(work, Some(&commit.parents[0]), &onto, &commit.oid)? {
            Merged::Tree(tree) => tree,
            Merged::Conflict { paths, details } => return Ok(Candidate::Conflict { paths, details }),
        };
        if merged == tree {
            continue;
        }
        let author = Author {
            name: &commit.author_name,
            email: &commit.author_email,
            date: &format!("@{}", commit.author_date),
        };
        let committer = (&request.identity, request.at);
        onto = write_commit(work, &merged, &[&onto], &author, committer, &commit.message)?;
        tree = merged;
    }
    if onto == request.target_tip {
        return Ok(Candidate::AlreadyIn);
    }
    Ok(Candidate::Clean { commit: onto, tree, fast_forward: false })
}

/// The lane's own change, from its base to its head, as one commit.
fn squash(work: &Work, request: &CandidateRequest) -> Result<Candidate, GitError> {
    // A lane that does not descend from its base any more has no change "since base": merge it as git would.
    let base = work.is_ancestor(&request.base, &request.head)?.then_some(&request.base);
    let merged = merge_trees(work, base, &request.target_tip, &request.head)?;
    finish(work, request, merged, &[&request.target_tip])
}

fn merge(work: &Work, request: &CandidateRequest) -> Result<Candidate, GitError> {
    let merged = merge_trees(work, None, &request.target_tip, &request.head)?;
    finish(work, request, merged, &[&request.target_tip, &request.head])
}

fn finish(
    work: &Work,
    request: &CandidateRequest,
    merged: Merged,
    parents: &[&Oid],
) -> Result<Candidate, GitError> {
    let tree = match merged {
        Merged::Tree(tree) => tree,
        Merged::Conflict { paths, details } => return Ok(Candidate::Conflict { paths, details }),
    };
    if tree == work.tree_of(&request.target_tip)? {
        return Ok(Candidate::AlreadyIn);
    }
    let (who, date) = (&request.identity, git_date(request.at));
    let author = Author { name: &who.name, email: &who.email, date: &date };
    let message = with_trailers(&request.message, &request.trailers);
    let commit = write_commit(work, &tree, parents, &author, (who, request.at), message.as_bytes())?;
    Ok(Candidate::Clean { commit, tree, fast_forward: false })
}

fn with_trailers(message: &str, trailers: &[(String, String)]) -> String {
    let mut out = message.trim_end().to_owned();
    out.push('\n');
    for (n, (key, value)) in trailers.iter().enumerate() {
        if n == 0 {
            out.push('\n');
        }
        out.push_str(&format!("{key}: {}\n", value.replace('\n', " ")));
    }
    out
}

/// What came of putting several heads together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Combined {
    /// A commit that contains them all.
    Base(Oid),
    /// This one does not merge with those before it.
    Conflict { with: Oid, paths: Vec<PathBuf>, details: String },
}

/// A base commit that contains `tip` and every one of `heads`; those it has already cost nothing.
pub fn combine(
    work: &Work,
    tip: &Oid,
    heads: &[Oid],
    identity: &Identity,
    at: Timestamp,
) -> Result<Combined, GitError> {
    let mut tip = tip.clone();
    for head in heads {
        if work.is_ancestor(head, &tip)? {
            continue;
        }
        if work.is_ancestor(&tip, head)? {
            tip = head.clone();
            continue;
        }
        let tree = match merge_trees(work, None, &tip, head)? {
            Merged::Tree(tree) => tree,
            Merged::Conflict { paths, details } => {
                return Ok(Combined::Conflict { with: head.clone(), paths, details });
            }
        };
        let date = git_date(at);
        let author = Author { name: &identity.name, email: &identity.email, date: &date };
        let message = format!("regatta: base with {}\n", head.short());
        tip = write_commit(work, &tree, &[&tip, head], &author, (identity, at), message.as_bytes())?;
    }
    Ok(Combined::Base(tip))
}
