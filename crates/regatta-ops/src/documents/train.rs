//! The train as a document.

use regatta_core::config::Strategy;
use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;
use regatta_engine::landing::picture::TestNow;
use regatta_engine::landing::target::Stopped;
use serde::Serialize;

/// The train, as `land status --json` has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainDocument {
    /// What waits to land, in its order.
    pub cars: Vec<CarDocument>,
    /// The command that every candidate has to pass.
    pub gate: Option<String>,
    /// What landed last.
    pub landed: Vec<LandedDocument>,
    /// Candidates that are tested at once.
    pub slots: u32,
    /// Why nothing lands until somebody decides.
    pub stopped: Option<Stopped>,
    /// How work comes onto the target.
    pub strategy: Strategy,
    /// The branch it lands on.
    pub target: String,
    /// What is under test.
    pub tests: Vec<TestNow>,
    /// The commit there.
    pub tip: Option<String>,
}

/// One task in the train.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CarDocument {
    /// The attempt whose work it is.
    pub attempt: u32,
    /// The commit that will land, once it is tested.
    pub candidate: Option<String>,
    /// Whether its checks passed.
    pub checked: bool,
    /// The head of its work.
    pub head: String,
    /// Its task.
    pub id: TaskId,
    /// Higher first.
    pub priority: i32,
    /// `queued`, `intended` or `gated`.
    pub step: &'static str,
    /// The candidates with its work that are under test.
    pub under_test: Vec<String>,
    /// Why it does not land by itself.
    pub waiting: Option<String>,
}

/// A task that landed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LandedDocument {
    /// When.
    pub at: Timestamp,
    /// As which commit.
    pub commit: Option<String>,
    /// The task.
    pub id: TaskId,
}
