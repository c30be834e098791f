//! A task as it was ordered: everything Regatta needs to know before an agent starts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bounds::Bounds;
use crate::budget::Ceiling;
use crate::crew::Wanted;
use crate::id::TaskId;
use crate::part::Part;
use crate::verdict::VerdictAdapter;
use crate::writes::WritePath;

/// One unit of work for one agent, with every default filled in.
///
/// Parsing makes it, the store keeps it, the engine only reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Its name.
    pub id: TaskId,
    /// One line for people; the first heading of the prompt where none was given.
    pub title: String,
    /// What the agent is told.
    pub prompt: String,
    /// The entry of `agents:` that does the work.
    pub agent: String,
    /// The model, where the task names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What kind of work it is; may choose the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// What all its attempts together may use, where the task says so itself.
    #[serde(default, skip_serializing_if = "Ceiling::is_open")]
    pub budget: Ceiling,
    /// The agent's own persona (`claude --agent NAME`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persona: Option<String>,
    /// Higher first.
    pub priority: i32,
    /// What has to be landed, or done, before this may start.
    pub deps: Vec<TaskId>,
    /// Places it says it will write; overlapping tasks never run at once.
    pub writes: Vec<WritePath>,
    /// At most as many of one group at once as `limits.groups` allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency_group: Option<String>,
    /// Reads only: no lane of its own, nothing to land.
    pub read_only: bool,
    /// What the agent may do, and the servers it is given.
    #[serde(default, skip_serializing_if = "Bounds::is_empty")]
    pub bounds: Bounds,
    /// Variables for the agent on top of its built environment.
    pub env: BTreeMap<String, String>,
    /// Commands Regatta runs on the committed tree before it believes a pass.
    pub checks: Vec<String>,
    /// Work failures allowed in all.
    pub max_attempts: u32,
    /// The three clocks.
    pub limits: TimeLimits,
    /// Where the verdict is read from.
    pub verdict_adapter: VerdictAdapter,
    /// Whether Regatta commits what the agent left uncommitted.
    pub auto_commit: bool,
    /// Whether passing work goes on to the train.
    pub land: bool,
    /// Directory inside the lane in which the agent starts; empty for its root.
    #[serde(default)]
    pub workdir: PathBuf,
    /// A directory whose files are copied to the lane's `.claude`, where the plan is parallel-orchestra's: from the
    /// repository root, or absolute. Its task starts at the lane's root where the lane does not have `workdir`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assets: Option<PathBuf>,
    /// The plan it came from, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// `file:line` of its definition, for messages.
    #[serde(default)]
    pub source: String,
    /// Whom of the crew it is for, where it is on the board.
    #[serde(default, skip_serializing_if = "Wanted::is_anybody")]
    pub wanted: Wanted,
    /// The part it plays in something larger, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
}

impl TaskSpec {
    /// A task with nothing special about it: every setting at its default.
    pub fn plain(id: TaskId, agent: &str, prompt: &str) -> Self {
        Self {
            title: id.to_string(),
            id,
            prompt: prompt.to_owned(),
            agent: agent.to_owned(),
            model: None,
            labels: Vec::new(),
            budget: Ceiling::default(),
            persona: None,
            priority: 0,
            deps: Vec::new(),
            writes: Vec::new(),
            concurrency_group: None,
            read_only: false,
            bounds: Bounds::default(),
            env: BTreeMap::new(),
            checks: Vec::new(),
            max_attempts: 3,
            limits: TimeLimits::default(),
            verdict_adapter: VerdictAdapter::Chain,
            auto_commit: true,
            land: true,
            workdir: PathBuf::new(),
            assets: None,
            plan: None,
            source: String::new(),
            wanted: Wanted::default(),
            part: None,
        }
    }
}

/// The clocks that run on an attempt. `None` means no such limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeLimits {
    /// From start to end.
    pub total: Option<Duration>,
    /// From start to the first byte of output.
    pub first_output: Option<Duration>,
    /// Silence while no tool call is open.
    pub idle: Option<Duration>,
}
