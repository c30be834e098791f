//! What a claim must not exceed, over all engines of a project: checked in the claim's own step, so that no two engines
//! pass each other.

use std::fmt;
use std::time::Duration;

use regatta_core::id::TaskId;
use regatta_core::writes::WritePath;

use crate::SessionId;

/// The limits as the engine that claims sees them. Counted are the claims of all engines whose sessions are open, also of
/// those that have died and whose agents may work on; what members of the crew hold is not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimLimits {
    /// Agents at work at once; `None` for any number.
    pub max_workers: Option<u32>,
    /// Of the task's own group, if it has one.
    pub group: Option<u32>,
    /// Between two starts. The one rule that compares times: people ask for it in seconds of their clock. A clock that
    /// was set by more than this is no reason to wait.
    pub stagger: Option<Duration>,
    /// Claims of engines that have died, with no process left that would work on: they are not counted.
    pub uncounted: Vec<TaskId>,
}

/// How many claims an engine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Which engine.
    pub session: SessionId,
    /// What it is: `run PLAN` or `daemon`.
    pub what: String,
    /// How many.
    pub claims: u32,
}

/// Which limit a claim would cross, and because of whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// All workers of the project are busy.
    Workers {
        /// The limit.
        max: u32,
        /// Whose agents they are.
        holders: Vec<Holder>,
    },
    /// Its group is full.
    Group {
        /// Which.
        group: String,
        /// The limit.
        max: u32,
        /// Whose agents they are.
        holders: Vec<Holder>,
    },
    /// It writes where a claimed task writes.
    Writes {
        /// Whose place it is.
        other: TaskId,
        /// The place.
        path: WritePath,
        /// Who works on that task.
        holder: Holder,
    },
    /// The last start of any engine was just now.
    Stagger {
        /// So long from now.
        left: Duration,
    },
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what.as_str() {
            "daemon" => f.write_str("the daemon"),
            what => write!(f, "`{what}`"),
        }
    }
}

/// "3 in the daemon, 1 in `run plan.md`".
fn shares(holders: &[Holder]) -> String {
    let shares: Vec<String> = holders.iter().map(|holder| format!("{} in {holder}", holder.claims)).collect();
    shares.join(", ")
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Held::Workers { max, holders } => write!(f, "max_workers {max} reached: {}", shares(holders)),
            Held::Group { group, max, holders } => {
                write!(f, "group {group} is full ({max}): {}", shares(holders))
            }
            Held::Writes { other, path, holder } => write!(f, "{other} writes {path}, in {holder}"),
            Held::Stagger { .. } => f.write_str("the last start was just now"),
        }
    }
}
