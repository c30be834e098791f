//! Proposals, as `plan`, `plan list`, `approve` and `reject` tell them.

use regatta_core::diagnostic::Diagnostic;
use regatta_core::id::TaskId;
use regatta_core::spec::TaskSpec;
use serde::Serialize;

/// A goal and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanDocument {
    /// Its name, which is also its planner's.
    pub id: TaskId,
    /// What was asked for.
    pub goal: String,
    /// `planning`, `proposed`, `approved`, `rejected` or `failed`.
    pub state: &'static str,
    /// Why it failed, or what it waits for.
    pub reason: Option<String>,
    /// The file that holds the plan, where there is one.
    pub file: Option<String>,
    /// The tasks, links of chains among them.
    pub tasks: Vec<PlannedDocument>,
    /// What could run together, in turns.
    pub stages: Vec<Vec<TaskId>>,
    /// What is worth knowing of the file.
    pub diagnostics: Vec<Diagnostic>,
}

/// A task of a proposal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedDocument {
    /// Its name.
    pub id: TaskId,
    /// One line for people.
    pub title: String,
    /// Who does it.
    pub agent: String,
    /// With which model, where one was chosen.
    pub model: Option<String>,
    /// What it depends on.
    pub deps: Vec<TaskId>,
    /// Where it writes.
    pub writes: Vec<String>,
    /// What has to succeed.
    pub checks: Vec<String>,
    /// What kind of work it is.
    pub labels: Vec<String>,
    /// It only looks.
    pub read_only: bool,
    /// The chain it belongs to.
    pub chain: Option<TaskId>,
    /// Which link of it.
    pub link: Option<&'static str>,
    /// Whether its work lands.
    pub lands: bool,
    /// What its agent is told.
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
