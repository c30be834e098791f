//! The landing queue: one train per target branch, one car per task.
//!
//! Invariant: a candidate commit is a pure function of its [`Intent`]; the compare-and-swap of the target ref is
//! the only step that cannot be repeated, and the intent is on disk before it.

pub mod bets;
pub mod history;

use serde::{Deserialize, Serialize};

use crate::id::TaskId;
use crate::time::Timestamp;
use crate::verdict::Verdict;

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
    /// What was said of the work, for the commit's trailer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Checks of its own passed in its lane.
    #[serde(default)]
    pub checked: bool,
    /// Who took it although its verdict was not good, for the commit's trailer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_by: Option<String>,
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
    /// A gate ran on a candidate this car is in. Told; the car keeps its step.
    Tested {
        /// The commit that was tested.
        candidate: String,
        /// Those on it, in order, this car among them.
        cars: Vec<TaskId>,
        /// How it went.
        outcome: GateOutcome,
        /// How long it took.
        millis: u64,
        /// In words.
        note: String,
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
    /// It goes back to its agent, which is told what it conflicts with; the car leaves.
    Bounce {
        /// The commit of the target it does not merge with.
        onto: String,
        /// In words.
        detail: String,
        /// The files in conflict.
        files: Vec<String>,
        /// What the other side did to them.
        theirs: String,
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

/// How a gate went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateOutcome {
    /// At the first try.
    Passed,
    /// At a later one.
    Flaky,
    /// At no try.
    Failed,
}

impl GateOutcome {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            GateOutcome::Passed => "passed",
            GateOutcome::Flaky => "flaky",
            GateOutcome::Failed => "failed",
        }
    }
}

impl LandStep {
    /// The word for it.
    pub const fn name(&self) -> &'static str {
        match self {
            LandStep::Intend { .. } => "intend",
            LandStep::Tested { .. } => "tested",
            LandStep::Gate { .. } => "gate",
            LandStep::Wait { .. } => "wait",
            LandStep::Landed { .. } => "landed",
            LandStep::AlreadyIn { .. } => "already-in",
            LandStep::Bounce { .. } => "bounce",
            LandStep::Reject { .. } => "reject",
        }
    }
}

/// The order in which cars land: priority, then approval. Dependencies need no rule here,
/// since a dependent starts only after its dependencies landed.
pub fn order(cars: &mut [Car]) {
    cars.sort_by(|a, b| b.priority.cmp(&a.priority).then(a.seq.cmp(&b.seq)));
}
