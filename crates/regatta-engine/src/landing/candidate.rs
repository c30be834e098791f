//! The commit that would land.
//!
//! Invariant: [`build`] is a pure function of its request and of the objects it names. Called again after a crash it
//! makes the same commit, so "did this land?" is answered by looking for its id.

use std::path::PathBuf;

use regatta_core::commit_message::without_trailers;
use regatta_core::time::Timestamp;
pub use regatta_core::train::Strategy;

use super::merge::{Author, Merged, git_date, merge_trees, write_commit};
use crate::git::{GitError, Identity, LoggedCommit, Oid, Work};

/// Everything a candidate is made from.
#[derive(Clone, Debug)]
pub struct CandidateRequest {
    /// The landing strategy.
    pub strategy: Strategy,
    /// The target, or the candidate before this one.
    pub target_tip: Oid,
    /// The commit the lane started from.
    pub base: Oid,
    /// The commit with the lane's work.
    pub head: Oid,
    /// The message, for squash and merge.
    pub message: String,
    /// Committer; for squash and merge the author too.
    pub identity: Identity,
    /// Committer date of every commit that is written.
    pub at: Timestamp,
    /// `(key, value)` lines at the end of the last commit's message.
    pub trailers: Vec<(String, String)>,
}

/// The result of building a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Candidate {
    /// This commit can be tested and landed. With `fast_forward` it is the lane's own head.
    Clean { commit: Oid, tree: Oid, fast_forward: bool },
    /// The target already contains all of it.
    AlreadyIn,
    /// The lane made no commits.
    Empty,
    /// These files do not merge.
    Conflict { paths: Vec<PathBuf>, details: String },
}

/// The work of a lane, wherever it is going to land.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Its commits from the first to the last, without those of its base.
    commits: Vec<LoggedCommit>,
    /// Each commit is the only child of the one before.
    linear: bool,
    /// The agent went back behind its base.
    gone_back: bool,
}

/// Reads the work of a lane.
pub fn survey(work: &Work, base: &Oid, head: &Oid) -> Result<Survey, GitError> {
    if head == base {
        return Ok(Survey { commits: Vec::new(), linear: true, gone_back: true });
    }
    let commits = work.commits_beyond(&[base], head)?;
    let linear = commits.iter().all(|commit| commit.parents.len() == 1)
        && commits.windows(2).all(|pair| pair[1].parents[0] == pair[0].oid);
    let gone_back = commits.is_empty() && work.is_ancestor(head, base)?;
    Ok(Survey { commits, linear, gone_back })
}

/// Builds the candidate of one lane.
pub fn build(work: &Work, request: &CandidateRequest) -> Result<Candidate, GitError> {
    build_from(work, request, &survey(work, &request.base, &request.head)?)
}

/// The same, with the lane's work already read.
pub fn build_from(work: &Work, request: &CandidateRequest, survey: &Survey) -> Result<Candidate, GitError> {
    let Some(last) = survey.commits.last() else {
        return Ok(if survey.gone_back { Candidate::Empty } else { Candidate::AlreadyIn });
    };
    match request.strategy {
        Strategy::Rebase => rebase(work, request, survey, last),
        Strategy::Squash => squash(work, request),
        Strategy::Merge => merge(work, request),
    }
}

fn rebase(
    work: &Work,
    request: &CandidateRequest,
    survey: &Survey,
    last: &LoggedCommit,
) -> Result<Candidate, GitError> {
    let commits = &survey.commits;
    let on_tip = survey.linear && commits[0].parents[0] == request.target_tip;
    if on_tip {
        return on_its_own_base(work, request, last);
    }
    if !survey.linear {
        if work.is_ancestor(&request.target_tip, &request.head)? {
            return Ok(as_it_is(last));
        }
        // Replaying a merge would need its author's resolution: take the result as a whole.
        return squash(work, request);
    }
    let mut onto = request.target_tip.clone();
    let mut tree = work.tree_of(&onto)?;
    for commit in commits {
        let merged = match merge_trees(work, Some(&commit.parents[0]), &onto, &commit.oid)? {
            Merged::Tree(tree) => tree,
            Merged::Conflict { paths, details, .. } => return Ok(Candidate::Conflict { paths, details }),
        };
        if merged == tree {
            continue;
        }
        let message = if commit.oid == last.oid {
            with_trailers(&commit.message, &request.trailers)
        } else {
            commit.message.clone()
        };
        onto = write_commit(
            work,
            &merged,
            &[&onto],
            &author_of(commit),
            (&request.identity, request.at),
            &message,
        )?;
        tree = merged;
    }
    if onto == request.target_tip {
        return Ok(Candidate::AlreadyIn);
    }
    Ok(Candidate::Clean { commit: onto, tree, fast_forward: false })
}

fn as_it_is(last: &LoggedCommit) -> Candidate {
    Candidate::Clean { commit: last.oid.clone(), tree: last.tree.clone(), fast_forward: true }
}

pub(super) fn author_of(commit: &LoggedCommit) -> Author<'_> {
    Author { name: &commit.author_name, email: &commit.author_email, date: &commit.author_date }
}

/// Nothing has to be replayed; only the last commit gets the trailers. A signed commit stays as it is.
fn on_its_own_base(
    work: &Work,
    request: &CandidateRequest,
    last: &LoggedCommit,
) -> Result<Candidate, GitError> {
    let message = with_trailers(&last.message, &request.trailers);
    if message == last.message || work.trust().signing().is_some() {
        return Ok(as_it_is(last));
    }
    let parent = &last.parents[0];
    let committer = (&request.identity, request.at);
    let commit = write_commit(work, &last.tree, &[parent], &author_of(last), committer, &message)?;
    Ok(Candidate::Clean { commit, tree: last.tree.clone(), fast_forward: false })
}

/// The lane's own change, from its base to its head, as one commit.
fn squash(work: &Work, request: &CandidateRequest) -> Result<Candidate, GitError> {
    // If the lane merged the target, it resolved conflicts on the way, so its merge base counts from there on. If it no
    // longer descends from its base, it has no change "since base": merge it as git would.
    let own = work.is_ancestor(&request.base, &request.head)?
        && !work.is_ancestor(&request.target_tip, &request.head)?;
    let merged = merge_trees(work, own.then_some(&request.base), &request.target_tip, &request.head)?;
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
        Merged::Conflict { paths, details, .. } => return Ok(Candidate::Conflict { paths, details }),
    };
    if tree == work.tree_of(&request.target_tip)? {
        return Ok(Candidate::AlreadyIn);
    }
    let (who, date) = (&request.identity, git_date(request.at));
    let author = Author { name: &who.name, email: &who.email, date: &date };
    let message = with_trailers(request.message.as_bytes(), &request.trailers);
    let commit = write_commit(work, &tree, parents, &author, (who, request.at), &message)?;
    Ok(Candidate::Clean { commit, tree, fast_forward: false })
}

/// The message with these trailers at its end, each once. Existing trailers with these names are removed.
fn with_trailers(message: &[u8], trailers: &[(String, String)]) -> Vec<u8> {
    if trailers.is_empty() {
        return message.to_vec();
    }
    let mut text = without_trailers(message, |_, _| false);
    text.truncate(text.trim_ascii_end().len());
    let is_trailer = |line: &[u8]| {
        let key = line.windows(2).position(|pair| pair == b": ").map(|at| &line[..at]);
        key.is_some_and(|key| {
            !key.is_empty() && key.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
        })
    };
    let last_gap = text.windows(2).rposition(|pair| pair == b"\n\n");
    let in_trailers = last_gap.is_some_and(|at| text[at + 2..].split(|byte| *byte == b'\n').all(is_trailer));
    text.extend_from_slice(if in_trailers { b"\n" } else { b"\n\n" });
    for (key, value) in trailers {
        text.extend_from_slice(format!("{key}: {}\n", value.replace('\n', " ")).as_bytes());
    }
    text
}

/// A tree with both sides, and conflict markers where they conflict.
pub(crate) fn with_marks(work: &Work, base: &Oid, onto: &Oid, head: &Oid) -> Result<Oid, GitError> {
    let own = work.is_ancestor(base, head)?;
    Ok(match merge_trees(work, own.then_some(base), onto, head)? {
        Merged::Tree(tree) => tree,
        Merged::Conflict { marked, .. } => marked,
    })
}

/// The result of combining several heads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Combined {
    /// A commit that contains them all.
    Base(Oid),
    /// This head does not merge with those before it.
    Conflict { with: Oid, paths: Vec<PathBuf>, details: String },
}

/// A base commit that contains `tip` and all of `heads`; those already contained cost nothing.
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
            Merged::Conflict { paths, details, .. } => {
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
