//! A task as ordered: everything Regatta needs to know before an agent starts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bounds::Bounds;
use crate::budget::Ceiling;
use crate::crew::Wanted;
use crate::id::TaskId;
use crate::node::Requirement;
use crate::part::Part;
use crate::repos::RepoName;
use crate::rest::Rest;
use crate::train::Via;
use crate::verdict::VerdictAdapter;
use crate::writes::WritePath;

/// One unit of work for one agent, with every default filled in.
///
/// The parser builds it, the store keeps it, the engine only reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskSpec {
    pub id: TaskId,
    /// One line for display; defaults to the prompt's first heading.
    pub title: String,
    /// The text for the agent.
    pub prompt: String,
    /// The repository it works in; `None` for the project's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoName>,
    /// The agent's entry in `agents:`.
    pub agent: String,
    /// The model, if the task names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The kinds of work it is; they may choose the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// The ceiling for all its attempts together, if the task sets one.
    #[serde(default, skip_serializing_if = "Ceiling::is_open")]
    pub budget: Ceiling,
    /// The agent's own persona (`claude --agent NAME`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persona: Option<String>,
    /// Its priority; higher comes first.
    pub priority: i32,
    /// The tasks that must be landed or done before this one starts.
    pub deps: Vec<TaskId>,
    /// The places it declares to write; overlapping tasks never run at once.
    pub writes: Vec<WritePath>,
    /// The group that limits it: at most `limits.groups` of one group run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency_group: Option<String>,
    /// What it requires of the node that works on it, besides its agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<Requirement>,
    /// It only reads: no lane of its own, nothing to land.
    pub read_only: bool,
    /// What the agent may do, and its MCP servers.
    #[serde(default, skip_serializing_if = "Bounds::is_empty")]
    pub bounds: Bounds,
    /// Environment variables for the agent, in addition to those Regatta sets.
    pub env: BTreeMap<String, String>,
    /// Commands that Regatta runs on the committed tree before it accepts a pass.
    pub checks: Vec<String>,
    /// Maximum number of work failures.
    pub max_attempts: u32,
    /// The time limits of an attempt.
    pub limits: TimeLimits,
    /// Where the verdict is read from.
    pub verdict_adapter: VerdictAdapter,
    /// Whether Regatta commits the changes that the agent left uncommitted.
    pub auto_commit: bool,
    /// Whether passing work joins the train.
    pub land: bool,
    /// What it wants of its landing, if that differs from the settings.
    #[serde(default, skip_serializing_if = "LandWishes::is_none")]
    pub landing: LandWishes,
    /// The directory within the lane in which the agent starts; empty for its root.
    #[serde(default)]
    pub workdir: PathBuf,
    /// For plans of parallel-orchestra: a directory, absolute or from the repository root, whose files are copied to
    /// the lane's `.claude`. Such a task starts at the lane's root if the lane does not have `workdir`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assets: Option<PathBuf>,
    /// The plan it came from, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// `file:line` of its definition, for messages.
    #[serde(default)]
    pub source: String,
    /// The crew members it is meant for, if it is on the board.
    #[serde(default, skip_serializing_if = "Wanted::is_anybody")]
    pub wanted: Wanted,
    /// Its part in something larger, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// What only a newer version knows of it.
    #[serde(flatten)]
    pub rest: Rest,
}

impl TaskSpec {
    /// A task with every setting at its default.
    pub fn plain(id: TaskId, agent: &str, prompt: &str) -> Self {
        Self {
            title: id.to_string(),
            id,
            prompt: prompt.to_owned(),
            repo: None,
            agent: agent.to_owned(),
            model: None,
            labels: Vec::new(),
            budget: Ceiling::default(),
            persona: None,
            priority: 0,
            deps: Vec::new(),
            writes: Vec::new(),
            concurrency_group: None,
            requires: Vec::new(),
            read_only: false,
            bounds: Bounds::default(),
            env: BTreeMap::new(),
            checks: Vec::new(),
            max_attempts: 3,
            limits: TimeLimits::default(),
            verdict_adapter: VerdictAdapter::Chain,
            auto_commit: true,
            land: true,
            landing: LandWishes::default(),
            workdir: PathBuf::new(),
            assets: None,
            plan: None,
            source: String::new(),
            wanted: Wanted::default(),
            part: None,
            rest: Rest::default(),
        }
    }
}

/// What a task wants of its landing. `None` leaves it to the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandWishes {
    /// The way to the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<Via>,
    /// Whether its pull request is opened as a draft.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<bool>,
    /// Who is asked to review its pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviewers: Option<Vec<String>>,
}

impl LandWishes {
    /// Whether everything is left to the settings.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The time limits of an attempt. `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeLimits {
    /// From start to end.
    pub total: Option<Duration>,
    /// From start to the first byte of output.
    pub first_output: Option<Duration>,
    /// Silence while no tool call is open.
    pub idle: Option<Duration>,
}
