//! What a task changed.

use std::path::PathBuf;

use regatta_core::id::TaskId;
use regatta_engine::git::Oid;
use serde::Serialize;

/// The document of `diff --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiffDocument {
    /// The commit that the work is compared with.
    pub base: Oid,
    /// How many bytes of the work are missing here, because a lane on another machine sends a limited amount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_bytes: Option<u64>,
    /// The changed files.
    pub files: Vec<String>,
    /// The commit that holds the work, if its lane is gone.
    pub head: Option<Oid>,
    /// The task.
    pub id: TaskId,
    /// The lane that holds the work.
    pub lane: Option<PathBuf>,
    /// The node that has the lane, if it is another one. Secrets in the work are masked then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The changes as a patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// The changed files, with the number of changed lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stat: Option<String>,
}

/// Which tasks would run together, as in `run --dry-run --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StagesDocument {
    /// The name of the plan.
    pub plan: Option<String>,
    /// Groups of tasks that could run together, in order.
    pub stages: Vec<Vec<TaskId>>,
}
