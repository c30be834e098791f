//! Proposals, as `plan`, `plan list`, `approve` and `reject` print them.

use std::fmt;

use regatta_core::diagnostic::Diagnostic;
use regatta_core::id::TaskId;
use regatta_core::spec::TaskSpec;
use serde::Serialize;

/// The state of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProposalState {
    /// Its planner works on it.
    Planning,
    /// It can be approved or rejected.
    Proposed,
    /// It was approved.
    Approved,
    /// It was rejected.
    Rejected,
    /// There is no plan, and no planner works on one.
    Failed,
}

impl ProposalState {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            ProposalState::Planning => "planning",
            ProposalState::Proposed => "proposed",
            ProposalState::Approved => "approved",
            ProposalState::Rejected => "rejected",
            ProposalState::Failed => "failed",
        }
    }
}

impl fmt::Display for ProposalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A goal and its proposal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanDocument {
    /// Its id, which is also its planner's task id.
    pub id: TaskId,
    pub goal: String,
    pub state: ProposalState,
    /// Why it failed, or what it waits for.
    pub reason: Option<String>,
    /// The file with the plan, if there is one.
    pub file: Option<String>,
    /// The tasks, including links of chains.
    pub tasks: Vec<PlannedDocument>,
    /// Groups of tasks that could run together, in order.
    pub stages: Vec<Vec<TaskId>>,
    /// Warnings and errors about the file.
    pub diagnostics: Vec<Diagnostic>,
}

/// A task of a proposal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedDocument {
    pub id: TaskId,
    /// One line for people.
    pub title: String,
    pub agent: String,
    /// The model, if one was chosen.
    pub model: Option<String>,
    /// What it depends on.
    pub deps: Vec<TaskId>,
    /// The paths it writes to.
    pub writes: Vec<String>,
    /// The commands that have to succeed.
    pub checks: Vec<String>,
    /// The kinds of work.
    pub labels: Vec<String>,
    /// Whether it only reads.
    pub read_only: bool,
    /// The chain it belongs to.
    pub chain: Option<TaskId>,
    /// Its link in the chain.
    pub link: Option<&'static str>,
    /// Whether its work lands.
    pub lands: bool,
    /// The prompt for its agent.
    pub prompt: String,
}

impl From<&TaskSpec> for PlannedDocument {
    fn from(spec: &TaskSpec) -> Self {
        use regatta_core::part::Part;
        let part = spec.part.as_ref();
        Self {
            id: spec.id.clone(),
            title: spec.title.clone(),
            agent: spec.agent.clone(),
            model: spec.model.clone(),
            deps: spec.deps.clone(),
            writes: spec.writes.iter().map(ToString::to_string).collect(),
            checks: spec.checks.clone(),
            labels: spec.labels.clone(),
            read_only: spec.read_only,
            chain: part.and_then(|part| part.chain(&spec.id)).cloned(),
            link: part.and_then(Part::link),
            lands: spec.land || matches!(part, Some(Part::Builder { lands: true, .. })),
            prompt: spec.prompt.clone(),
        }
    }
}
