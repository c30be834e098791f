//! The name of a state as users, queries and counts use it, and the groups of states that decisions depend on.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The name of a state, without its facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StateName {
    /// Not started, or to be started again.
    Pending,
    /// A node prepares its lane.
    Claimed,
    /// Its agent is running.
    Running,
    /// Evidence is collected.
    Judging,
    /// In the train.
    Landing,
    /// Good, with nothing to land.
    Done,
    /// Landed on the target branch.
    Landed,
    /// Failed for good.
    Failed,
    /// Cancelled.
    Cancelled,
    /// A dependency failed or was cancelled.
    Skipped,
    /// Waiting for a time.
    Parked,
    /// Waiting for a user.
    Blocked,
}

impl StateName {
    /// All names, in the order of a task's life.
    pub const ALL: [StateName; 12] = [
        StateName::Pending,
        StateName::Claimed,
        StateName::Running,
        StateName::Judging,
        StateName::Landing,
        StateName::Done,
        StateName::Landed,
        StateName::Failed,
        StateName::Cancelled,
        StateName::Skipped,
        StateName::Parked,
        StateName::Blocked,
    ];

    /// The name exactly as users see it.
    pub const fn as_str(self) -> &'static str {
        match self {
            StateName::Pending => "pending",
            StateName::Claimed => "claimed",
            StateName::Running => "running",
            StateName::Judging => "judging",
            StateName::Landing => "landing",
            StateName::Done => "done",
            StateName::Landed => "landed",
            StateName::Failed => "failed",
            StateName::Cancelled => "cancelled",
            StateName::Skipped => "skipped",
            StateName::Parked => "parked",
            StateName::Blocked => "blocked",
        }
    }

    /// Its position in a task's life.
    pub const fn place(self) -> usize {
        self as usize
    }

    /// All states of a group, in the order of a task's life: `StateName::all_that(StateName::is_open)`.
    pub fn all_that(is_in: impl Fn(StateName) -> bool) -> Vec<StateName> {
        Self::ALL.into_iter().filter(|name| is_in(*name)).collect()
    }

    /// The states that a filter's word means: a name, `all`, `active`, `completed` or `in_progress`. An empty list
    /// means all states, as in a query.
    pub fn meant_by(word: &str) -> Result<Vec<StateName>, UnknownState> {
        Ok(match word {
            "all" => Vec::new(),
            "active" => Self::all_that(Self::is_open),
            "completed" => Self::all_that(Self::is_met),
            "in_progress" => vec![StateName::Running],
            name => vec![name.parse()?],
        })
    }

    /// Meets a dependency: landed, or done with nothing to land.
    pub const fn is_met(self) -> bool {
        matches!(self, StateName::Done | StateName::Landed)
    }

    /// Will never meet a dependency unless it is revived.
    pub const fn is_dead(self) -> bool {
        matches!(self, StateName::Failed | StateName::Cancelled | StateName::Skipped)
    }

    /// Ended: met or dead.
    pub const fn is_terminal(self) -> bool {
        self.is_met() || self.is_dead()
    }

    /// Not ended: the state may still change, by itself or with a user's help.
    pub const fn is_open(self) -> bool {
        !self.is_terminal()
    }

    /// Nothing more happens by itself: ended, or waiting for a user.
    pub const fn is_settled(self) -> bool {
        self.is_terminal() || matches!(self, StateName::Blocked)
    }

    /// Held by a claim.
    pub const fn is_claimed(self) -> bool {
        matches!(self, StateName::Claimed | StateName::Running | StateName::Judging)
    }

    /// Held by a claim or by the train.
    pub const fn is_busy(self) -> bool {
        self.is_claimed() || matches!(self, StateName::Landing)
    }

    /// Its agent can receive a message: the task was neither cancelled nor skipped.
    pub const fn can_hear(self) -> bool {
        !matches!(self, StateName::Cancelled | StateName::Skipped)
    }

    /// A user can retry it.
    pub const fn can_retry(self) -> bool {
        matches!(self, StateName::Blocked | StateName::Failed | StateName::Skipped)
    }
}

/// Sorted by name, as documents list them; [`StateName::place`] gives the order of a task's life.
impl Ord for StateName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl PartialOrd for StateName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that is not the name of a state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown state {0:?}")]
pub struct UnknownState(pub String);

impl FromStr for StateName {
    type Err = UnknownState;

    fn from_str(word: &str) -> Result<Self, UnknownState> {
        let found = Self::ALL.into_iter().find(|name| name.as_str() == word);
        found.ok_or_else(|| UnknownState(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_places_and_documents_agree() {
        for (place, name) in StateName::ALL.into_iter().enumerate() {
            assert_eq!(name.place(), place);
            assert_eq!(name.as_str().parse(), Ok(name));
            assert_eq!(serde_json::to_value(name).unwrap(), name.as_str());
            assert_eq!(serde_json::from_value::<StateName>(name.as_str().into()).unwrap(), name);
        }
        assert_eq!("Done".parse::<StateName>(), Err(UnknownState("Done".to_owned())));
    }

    #[test]
    fn the_groups_are_what_they_say() {
        let words = |is_in: fn(StateName) -> bool| {
            StateName::all_that(is_in).into_iter().map(StateName::as_str).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words(StateName::is_met), "done landed");
        assert_eq!(words(StateName::is_dead), "failed cancelled skipped");
        assert_eq!(words(StateName::is_terminal), "done landed failed cancelled skipped");
        assert_eq!(words(StateName::is_open), "pending claimed running judging landing parked blocked");
        assert_eq!(words(StateName::is_settled), "done landed failed cancelled skipped blocked");
        assert_eq!(words(StateName::is_claimed), "claimed running judging");
        assert_eq!(words(StateName::is_busy), "claimed running judging landing");
        assert_eq!(words(StateName::can_retry), "failed skipped blocked");
        assert_eq!(StateName::all_that(|name| !name.can_hear()), [StateName::Cancelled, StateName::Skipped]);
    }

    #[test]
    fn a_filter_takes_a_name_or_the_word_for_a_group() {
        assert_eq!(StateName::meant_by("all"), Ok(Vec::new()));
        assert_eq!(StateName::meant_by("active"), Ok(StateName::all_that(StateName::is_open)));
        assert_eq!(StateName::meant_by("completed"), Ok(vec![StateName::Done, StateName::Landed]));
        assert_eq!(StateName::meant_by("in_progress"), Ok(vec![StateName::Running]));
        assert_eq!(StateName::meant_by("parked"), Ok(vec![StateName::Parked]));
        assert_eq!(StateName::meant_by("over"), Err(UnknownState("over".to_owned())));
    }
}
