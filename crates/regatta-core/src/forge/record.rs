//! The pull request of a task, as Regatta keeps it beside the task: it outlives the task's car.
//!
//! Every act is recorded here, or in the car's step, before it is taken.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::pull::Column;
use super::slug::{NodeId, PullNumber, Slug};
use crate::id::TaskId;
use crate::oid::Oid;
use crate::time::Timestamp;
use crate::train::Strategy;

/// Most keys that are kept of what an agent has been sent; the oldest are forgotten first.
const MOST_HEARD: usize = 4000;

/// What is kept of a task's pull request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PullRecord {
    /// The task.
    pub task: TaskId,
    /// The train of its car.
    pub train: String,
    /// The host of the forge.
    pub host: String,
    /// The repository that the pull request is in.
    pub repo: Slug,
    /// The repository of its branch.
    pub head_repo: Slug,
    /// Its branch, without `refs/heads/`.
    pub branch: String,
    /// The branch it is merged into.
    pub base: String,
    /// The commit that was pushed last, or that a person pushed and Regatta took over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Oid>,
    /// When that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pushed_at: Option<Timestamp>,
    /// The pull request, once it was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull: Option<OpenedPull>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<PullEnd>,
    /// Whether it was opened as a draft.
    #[serde(default)]
    pub draft: bool,
    /// Whether it is merged without a review.
    #[serde(default)]
    pub no_review: bool,
    /// What its agent has been sent.
    #[serde(default)]
    pub heard: Heard,
    /// What its agent is about to be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sending: Option<Sending>,
    /// The commit that passed the gate here before it was proposed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tested: Option<Oid>,
    /// How often its failed checks were run again, at which commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reruns: Option<(Oid, u32)>,
    /// A person's word that it may be merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Allowed>,
    /// The digest of the last look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub print: Option<String>,
    /// How many looks in a row found mergeability unknown.
    #[serde(default)]
    pub unknown_looks: u32,
    /// What the last look at the whole of it showed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Shown>,
    /// Regatta's own comment on it. Written only when notifications are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<Sticky>,
}

/// A comment of Regatta.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommentId {
    /// Its number, for edits.
    pub number: u64,
    /// Its id, by which it is recognised among others.
    pub id: NodeId,
}

/// The one comment about a task, and what it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sticky {
    /// The comment.
    pub id: CommentId,
    /// The pull request it is on: a later one of the same task gets its own.
    pub on: PullNumber,
    /// What happened so far, oldest first.
    pub lines: Vec<String>,
    /// The last event that it has.
    pub seq: u64,
    /// When it was last edited.
    pub at: Timestamp,
}

/// A pull request that exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedPull {
    /// Its number.
    pub number: PullNumber,
    /// Its id.
    pub id: NodeId,
    /// Its address for people.
    pub url: String,
}

/// How a pull request ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum PullEnd {
    /// It was merged.
    Merged {
        /// The commit on the target.
        commit: Oid,
        /// The head that was merged.
        head: Oid,
    },
    /// It was closed without a merge.
    Closed,
}

/// Keys of what an agent has been sent, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard(Vec<String>);

impl Heard {
    /// Adds keys; each counts once.
    pub fn add(&mut self, keys: impl IntoIterator<Item = String>) {
        for key in keys {
            if !self.0.contains(&key) {
                self.0.push(key);
            }
        }
        let surplus = self.0.len().saturating_sub(MOST_HEARD);
        self.0.drain(..surplus);
    }

    /// All keys.
    pub fn keys(&self) -> BTreeSet<String> {
        self.0.iter().cloned().collect()
    }
}

/// A prompt that is about to be sent. It is recorded with its request id first, so that it is sent exactly once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sending {
    /// The id of the request.
    pub request: String,
    /// Who speaks.
    pub by: Speaker,
    /// The prompt.
    pub text: String,
    /// Keys of what is in it.
    pub keys: Vec<String>,
}

/// Whose words a follow-up has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Speaker {
    /// Reviewers and commenters.
    Review,
    /// Apps that review.
    Bots,
    /// Failed checks.
    Ci,
    /// The queue of the target.
    Queue,
    /// A conflict with the target.
    Conflict,
}

impl Speaker {
    /// Its name, as the prompt's sender.
    pub const fn as_str(self) -> &'static str {
        match self {
            Speaker::Review => "review",
            Speaker::Bots => "bots",
            Speaker::Ci => "ci",
            Speaker::Queue => "queue",
            Speaker::Conflict => "conflict",
        }
    }

    /// Whether a prompt by `sender` counts as a round without a person's word.
    pub fn is_machine(sender: &str) -> bool {
        [Speaker::Bots, Speaker::Ci, Speaker::Queue, Speaker::Conflict].iter().any(|by| by.as_str() == sender)
    }
}

/// How many follow-ups in a row had no person's word, given the senders of all follow-ups in order.
pub fn rounds<'a>(senders: impl DoubleEndedIterator<Item = &'a str>) -> u32 {
    let machine = senders.rev().take_while(|sender| Speaker::is_machine(sender)).count();
    u32::try_from(machine).unwrap_or(u32::MAX)
}

/// A person's word that a pull request may be merged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowed {
    /// Who says so.
    pub by: String,
    /// At which commit: another one needs another word.
    pub head: Oid,
    /// How to merge it, if not as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Strategy>,
}

/// What people see of a pull request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// In one line.
    pub line: String,
    /// Its column.
    pub column: Column,
    /// Checks that passed, failed, and have no result yet.
    pub checks: (u32, u32, u32),
    /// Whether the forge sees a conflict; none if it does not know.
    pub conflicts: Option<bool>,
    /// When that was.
    pub at: Timestamp,
}

impl PullRecord {
    /// What it waits for, as the last look showed it. One that a person merges is named by its address.
    pub fn waits_for(&self) -> Option<String> {
        let shown = self.shown.as_ref()?;
        Some(match (&self.pull, shown.column) {
            (Some(pull), Column::ReadyToMerge) => format!("{}: {}", shown.line, pull.url),
            _ => shown.line.clone(),
        })
    }

    /// Whether its pull request is open.
    pub fn is_open(&self) -> bool {
        self.pull.is_some() && self.end.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_persons_word_ends_the_count_of_rounds() {
        let count = |senders: &[&str]| rounds(senders.iter().copied());
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&["ci", "conflict", "bots", "queue"]), 4);
        assert_eq!(count(&["ci", "ci", "review", "ci"]), 1);
        assert_eq!(count(&["ci", "ci", "ann"]), 0);
    }

    #[test]
    fn what_was_heard_is_bounded_and_counts_once() {
        let mut heard = Heard::default();
        heard.add((0..MOST_HEARD + 10).map(|n| n.to_string()));
        heard.add(["4009".to_owned()]);
        assert_eq!(heard.0.len(), MOST_HEARD);
        assert_eq!((heard.0[0].as_str(), heard.0.last().unwrap().as_str()), ("10", "4009"));
    }
}
