//! The train as a JSON document.

use regatta_core::forge::record::PullRecord;
use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::repos::RepoName;
use regatta_core::time::Timestamp;
use regatta_core::train::Strategy;
use regatta_engine::landing::picture::TestNow;
use regatta_engine::landing::target::Stopped;
use serde::Serialize;

/// The train, as in `land status --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainDocument {
    /// With a hub: why the branch here does not have what landed there.
    pub behind: Option<String>,
    /// The cars that wait to land, in order.
    pub cars: Vec<CarDocument>,
    /// The command that every candidate has to pass.
    pub gate: Option<String>,
    /// The last landed tasks.
    pub landed: Vec<LandedDocument>,
    /// How many candidates are tested at once.
    pub slots: u32,
    /// Why nothing lands until a person decides.
    pub stopped: Option<Stopped>,
    /// How work is put onto the target.
    pub strategy: Strategy,
    /// The branch it lands on.
    pub target: String,
    /// The tests in progress.
    pub tests: Vec<TestNow>,
    /// The tip of the target.
    pub tip: Option<Oid>,
}

/// One task in the train.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CarDocument {
    /// The attempt whose work lands.
    pub attempt: u32,
    /// The tested commit that will land, once there is one.
    pub candidate: Option<Oid>,
    /// Whether its checks passed.
    pub checked: bool,
    /// The last commit of its work.
    pub head: Oid,
    /// The id of its task.
    pub id: TaskId,
    /// Higher numbers land first.
    pub priority: i32,
    /// Its pull request, if it has one.
    pub pull: Option<CarPullDocument>,
    /// The repository it lands in, if it is not the project's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoName>,
    /// `queued`, `intended`, `gated`, `proposing`, `proposed` or `merging`.
    pub step: &'static str,
    /// Candidates under test that contain its work.
    pub under_test: Vec<Oid>,
    /// Why it does not land by itself.
    pub waiting: Option<String>,
}

/// The pull request of a car.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CarPullDocument {
    /// What the last look showed, in one line.
    pub line: Option<String>,
    /// Its number.
    pub number: u64,
    /// Its address.
    pub url: String,
}

impl CarPullDocument {
    /// The pull request of a record, once it was opened.
    pub fn of(record: &PullRecord) -> Option<Self> {
        let pull = record.pull.as_ref()?;
        let line = record.shown.as_ref().map(|shown| shown.line.clone());
        Some(Self { line, number: pull.number.0, url: pull.url.clone() })
    }
}

/// A task that landed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LandedDocument {
    /// When it landed.
    pub at: Timestamp,
    /// The commit on the target.
    pub commit: Option<Oid>,
    /// The task's id.
    pub id: TaskId,
}
