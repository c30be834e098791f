//! What the user wants of pull requests, what Regatta expects, and what it has seen so far.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::facts::Author;
use crate::forge::repository::Permission;
use crate::oid::Oid;
use crate::time::Timestamp;
use crate::train::Strategy;

/// When Regatta merges a pull request: `land.pr.merge`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MergeWhen {
    /// Never: a person merges.
    Never,
    /// When checks passed and another person with write access approved the head.
    #[default]
    Approved,
    /// When checks passed.
    Green,
}

impl MergeWhen {
    /// All names, as written in `land.pr.merge`.
    pub const NAMES: [(&'static str, MergeWhen); 3] =
        [("never", MergeWhen::Never), ("approved", MergeWhen::Approved), ("green", MergeWhen::Green)];
}

/// Which checks count: `land.pr.checks`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChecksPolicy {
    /// Those that a rule of the forge requires; where there is no such rule, all.
    #[default]
    Required,
    /// All.
    All,
    /// Only those without which the forge refuses the merge; that there are none is a pass.
    None,
}

impl ChecksPolicy {
    /// All names, as written in `land.pr.checks`.
    pub const NAMES: [(&'static str, ChecksPolicy); 3] =
        [("required", ChecksPolicy::Required), ("all", ChecksPolicy::All), ("none", ChecksPolicy::None)];
}

/// What goes back to the agent of a pull request: `land.pr.feedback`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Feeds {
    /// Submitted reviews, with their threads.
    pub reviews: bool,
    /// Loose comments.
    pub comments: bool,
    /// Failed checks.
    pub ci: bool,
    /// Conflicts with the target.
    pub conflicts: bool,
}

impl Feeds {
    /// All names, as written in `land.pr.feedback`.
    pub const NAMES: [&'static str; 4] = ["reviews", "comments", "ci", "conflicts"];
    /// Everything.
    pub const ALL: Feeds = Feeds { reviews: true, comments: true, ci: true, conflicts: true };
    /// Nothing.
    pub const NOTHING: Feeds = Feeds { reviews: false, comments: false, ci: false, conflicts: false };
}

impl Default for Feeds {
    fn default() -> Self {
        Self::ALL
    }
}

/// What the user wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// When to merge.
    pub merge: MergeWhen,
    /// Which checks count.
    pub checks: ChecksPolicy,
    /// How long after a push the first check may take to show up.
    pub checks_within: Duration,
    /// How to merge.
    pub method: Strategy,
    /// Whether Regatta opened it as a draft, so that a draft is no sign of a person's wish.
    pub draft: bool,
    /// What a person must be allowed to do for an approval to count.
    pub trust: Permission,
    /// Logins of apps that count like people who are trusted, except for approvals.
    pub bots: Vec<String>,
    /// The account that Regatta acts as: its own approval does not count.
    pub viewer: String,
    /// What goes back to the agent.
    pub feedback: Feeds,
    /// Whether `land.test_command` passed on this very head.
    pub tested: bool,
}

impl Policy {
    /// Whether an author's words count: a person with enough permission, or an app that the user named.
    pub fn trusts(&self, author: &Author) -> bool {
        if author.bot {
            self.bots.iter().any(|bot| same_app(bot, &author.login))
        } else {
            author.permission.is_some_and(|permission| permission >= self.trust)
        }
    }
}

/// Whether both name the same app, with or without the ending that GitHub shows.
fn same_app(one: &str, other: &str) -> bool {
    let bare = |login: &str| login.trim_end_matches("[bot]").to_ascii_lowercase();
    bare(one) == bare(other)
}

/// What Regatta left at the forge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The commit it pushed last, or took over.
    pub head: Oid,
    /// The target.
    pub base: String,
}

/// What Regatta has seen and done so far.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    /// The current time.
    pub now: Timestamp,
    /// When the head was pushed.
    pub pushed_at: Timestamp,
    /// How many looks in a row found mergeability unknown, this one not included.
    pub unknown_looks: u32,
    /// Keys of everything that the task's agent has been sent: ids of comments and reviews, and the keys of
    /// [`Next::CiFailed`](super::Next::CiFailed), [`Next::Conflict`](super::Next::Conflict) and
    /// [`Next::QueueRefused`](super::Next::QueueRefused).
    pub heard: &'a BTreeSet<String>,
}
