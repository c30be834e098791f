//! The landing queue: one train per target branch, one car per task.
//!
//! Invariant: a candidate commit is a pure function of its [`Intent`]; the compare-and-swap of the target ref is
//! the only step that cannot be repeated, and the intent is on disk before it.

pub mod bets;

use serde::{Deserialize, Serialize};

use crate::id::TaskId;
use crate::time::Timestamp;

/// How a car's commits become commits of the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Each commit replayed: linear history, author and message kept.
    #[default]
    Rebase,
    /// One commit for the task.
    Squash,
    /// A merge commit with the task's head as second parent.
    Merge,
}

impl Strategy {
    /// All names, as written in `land.strategy`.
    pub const NAMES: [(&'static str, Strategy); 3] =
        [("rebase", Strategy::Rebase), ("squash", Strategy::Squash), ("merge", Strategy::Merge)];
}

/// What a task asks of the train.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandRequest {
    /// The branch to land on.
    pub target: String,
    /// How.
    pub strategy: Strategy,
    /// The commit the lane started from.
    pub base: String,
    /// The commit to land.
    pub head: String,
    /// Subject and body for strategies that make a commit of their own.
    pub message: String,
}

/// One task's place in a train.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Car {
    /// Whose work it is.
    pub task: TaskId,
    /// The attempt that made it.
    pub attempt: u32,
    /// Higher first.
    pub priority: i32,
    /// Order of approval.
    pub seq: u64,
    /// What was asked.
    pub request: LandRequest,
    /// How far it has come.
    pub step: CarStep,
}

/// How far a car has come. Each step names the facts the next one needs after a crash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum CarStep {
    /// Waiting for its turn.
    Queued,
    /// A candidate is about to be built from exactly these facts.
    Intended {
        /// The facts.
        intent: Intent,
    },
    /// The candidate passed its gate, or there is none; the ref may be moved.
    Gated {
        /// The facts.
        intent: Intent,
        /// The commit that was tested and will land.
        candidate: String,
    },
}

/// The facts a candidate is made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The target's tip; `None` while the branch does not exist yet.
    pub onto: Option<String>,
    /// The committer date, so that the commit comes out the same every time.
    pub at: Timestamp,
}

/// What a lander does to a car.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LandStep {
    /// Queued, Intended or Gated becomes Intended: the target may have moved meanwhile.
    Intend {
        /// The facts.
        intent: Intent,
    },
    /// Intended becomes Gated.
    Gate {
        /// The commit that passed.
        candidate: String,
        /// What the gate said, for the event log.
        note: String,
    },
    /// The car cannot move for a reason outside of it; it keeps its step.
    Wait {
        /// What it waits for.
        why: String,
    },
    /// The ref was moved: the task is landed, the car leaves.
    Landed {
        /// The commit on the target.
        commit: String,
    },
    /// Nothing was left to land: the target already has it. The task is landed, the car leaves.
    AlreadyIn {
        /// The target's tip that has it.
        commit: String,
    },
    /// The task is blocked, the car leaves.
    Reject {
        /// `conflict` or `tests`.
        reason: crate::state::BlockReason,
        /// What was wrong.
        detail: String,
        /// The files in conflict.
        files: Vec<String>,
    },
}

/// The order in which cars land: priority, then approval. Dependencies need no rule here,
/// since a dependent starts only after its dependencies landed.
pub fn order(cars: &mut [Car]) {
    cars.sort_by(|a, b| b.priority.cmp(&a.priority).then(a.seq.cmp(&b.seq)));
}
