//! Tasks of a project with several repositories, with the fields and words of parallel-agents.

use std::path::PathBuf;

use regatta_core::id::TaskId;
use regatta_core::state::{StateName, TaskState};
use regatta_core::time::Timestamp;
use regatta_store::TaskRecord;
use serde::{Deserialize, Serialize};

/// The queue of tasks that were not started yet; no engine serves it.
pub const UNSTARTED_QUEUE: &str = "unstarted";

/// One task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParallelTaskDocument {
    /// `PRD-<N>` or `GEN-<N>`.
    pub id: TaskId,
    /// `prd` or `generic`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// One line for people.
    pub description: String,
    /// The name of its repository.
    pub repo: String,
    /// The branch that holds, or will hold, its work.
    pub branch: String,
    /// The path of its lane, now or later.
    pub worktree_path: PathBuf,
    /// See [`status`].
    pub status: &'static str,
    /// Regatta's own name of the state.
    pub state: StateName,
    /// The reason for the state.
    pub reason: Option<String>,
    /// The id of the agent's conversation.
    pub session_id: Option<String>,
    /// The name of the conversation, for people.
    pub session_name: Option<String>,
    /// The log of its last attempt.
    pub log_path: Option<PathBuf>,
    /// The prompt it was started with.
    pub initial_prompt: Option<String>,
    /// The waiting follow-up prompts, with secrets masked.
    pub queued_prompts: Vec<String>,
    /// What the task waits for, as a note for people; this is not enforced.
    pub blocked_by: Vec<String>,
    /// The agent process of its last attempt.
    pub process: Option<ProcessDocument>,
    /// Its pull request, as last seen.
    pub pr: Option<PullRequestDocument>,
    /// Attempts so far.
    pub attempts: u32,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its state last changed.
    pub updated_at: Timestamp,
}

/// A process that was started for a task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessDocument {
    /// Its process id.
    pub pid: Option<u32>,
    /// When it was started.
    pub started_at: Option<Timestamp>,
    /// When its attempt was settled.
    pub exited_at: Option<Timestamp>,
    /// Its exit status, if it ended by itself.
    pub exit_code: Option<i32>,
}

/// A pull request, as `gh` reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequestDocument {
    /// Its number.
    pub number: Option<u64>,
    /// `OPEN`, `CLOSED` or `MERGED`.
    pub state: Option<String>,
    /// When it was merged, as `gh` prints it.
    #[serde(alias = "mergedAt")]
    pub merged_at: Option<String>,
    /// Its address.
    pub url: Option<String>,
}

/// The state in the words of parallel-agents. A task that continues by itself is `running`, even while it waits for its
/// turn, for an account or for its next attempt; any other is `exited`, unless it was given up.
pub fn status(task: &TaskRecord, destroyed: bool, has_lane: bool) -> &'static str {
    let unstarted = task.queue == UNSTARTED_QUEUE;
    match &task.state {
        _ if destroyed => "destroyed",
        TaskState::Pending { .. } | TaskState::Parked { .. } if unstarted => "created",
        TaskState::Parked { why: regatta_core::state::ParkReason::Operator, .. } => match task.attempts {
            0 => "created",
            _ => "exited",
        },
        TaskState::Pending { .. }
        | TaskState::Claimed { .. }
        | TaskState::Running { .. }
        | TaskState::Judging { .. }
        | TaskState::Parked { .. } => "running",
        TaskState::Landing { .. } => "awaiting-merge",
        TaskState::Done { .. } | TaskState::Landed { .. } | TaskState::Blocked { .. } => "exited",
        TaskState::Failed { .. } | TaskState::Skipped { .. } => "failed",
        TaskState::Cancelled { .. } if has_lane => "exited",
        TaskState::Cancelled { .. } => "destroyed",
    }
}
