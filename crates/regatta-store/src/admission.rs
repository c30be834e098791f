//! The limits of a claim, over all engines of a project: checked in the claim's own transaction, so that two engines
//! cannot both pass.

use std::fmt;
use std::time::Duration;

use regatta_core::id::TaskId;
use regatta_core::session::SessionKind;
use regatta_core::writes::WritePath;

use crate::SessionId;

/// The limits as seen by the claiming engine. Claims of all engines with open sessions count, including dead ones whose
/// agents may still run; claims of crew members do not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimLimits {
    /// Maximum number of running agents; `None` for no limit.
    pub max_workers: Option<u32>,
    /// The node whose claims alone count for `max_workers`; `None` for all claims.
    pub node: Option<String>,
    /// Maximum number of running agents on all nodes together.
    pub total: Option<u32>,
    /// The limit of the task's group, if it has one.
    pub group: Option<u32>,
    /// The minimum pause between two starts. The only rule that compares times, since users give it in seconds of their
    /// clock. A clock that was set by more than this is no reason to wait.
    pub stagger: Option<Duration>,
    /// Claims of dead engines without any process left: they do not count.
    pub uncounted: Vec<TaskId>,
}

/// How many claims an engine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The engine's session.
    pub session: SessionId,
    /// What is running.
    pub kind: SessionKind,
    /// The same as text for display: `run PLAN` or `daemon`.
    pub what: String,
    /// Its node's name, if machines share the store.
    pub node: Option<String>,
    /// The number of claims.
    pub claims: u32,
}

/// The limit that a claim would exceed, and who uses it up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// All workers of the project are busy.
    Workers {
        /// The limit.
        max: u32,
        /// The engines whose agents are running.
        holders: Vec<Holder>,
    },
    /// All workers of all nodes are busy.
    Total {
        /// The limit.
        max: u32,
        /// The engines whose agents are running.
        holders: Vec<Holder>,
    },
    /// Its group is full.
    Group {
        /// The group's name.
        group: String,
        /// The limit.
        max: u32,
        /// The engines whose agents are running.
        holders: Vec<Holder>,
    },
    /// It writes to a place that a claimed task writes.
    Writes {
        /// The claimed task.
        other: TaskId,
        /// The place it writes.
        path: WritePath,
        /// The engine that holds that task.
        holder: Holder,
    },
    /// An engine started a task too recently.
    Stagger {
        /// The time left to wait.
        left: Duration,
    },
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            SessionKind::Daemon => f.write_str("the daemon")?,
            _ => write!(f, "`{}`", self.what)?,
        }
        self.node.as_ref().map_or(Ok(()), |node| write!(f, " on {node}"))
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
            Held::Total { max, holders } => {
                write!(f, "limits.workers_total {max} reached: {}", shares(holders))
            }
            Held::Group { group, max, holders } => {
                write!(f, "group {group} is full ({max}): {}", shares(holders))
            }
            Held::Writes { other, path, holder } => write!(f, "{other} writes {path}, in {holder}"),
            Held::Stagger { .. } => f.write_str("waiting for `limits.stagger` since the last start"),
        }
    }
}
