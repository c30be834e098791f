//! Tasks of a project with several repositories, with the fields and words of parallel-agents.

use std::path::PathBuf;

use regatta_core::id::TaskId;
use regatta_core::state::{StateName, TaskState};
use regatta_core::time::Timestamp;
use regatta_store::TaskRecord;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::crew::BoardTaskDocument;
use super::{AttachDocument, DaemonStarted};
use crate::parallel::registry::Entry;

/// The queue of tasks that were not started yet; no engine serves it.
pub const UNSTARTED_QUEUE: &str = "unstarted";

/// One task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParallelTaskDocument {
    /// `PRD-<N>` or `GEN-<N>`.
    pub id: TaskId,
    /// What it is for.
    #[serde(rename = "type")]
    pub kind: ParallelKind,
    /// One line for people.
    pub description: String,
    /// The name of its repository.
    pub repo: String,
    /// The branch that holds, or will hold, its work.
    pub branch: String,
    /// The path of its lane, now or later.
    pub worktree_path: PathBuf,
    /// Its state in the words of parallel-agents.
    pub status: ParallelStatus,
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

/// A pull request, with the words of `gh pr list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequestDocument {
    pub number: Option<u64>,
    /// `OPEN`, `CLOSED` or `MERGED`.
    pub state: Option<String>,
    /// When it was merged, as the forge writes it.
    #[serde(alias = "mergedAt")]
    pub merged_at: Option<String>,
    /// Its address.
    pub url: Option<String>,
}

/// What a task of parallel-agents is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ParallelKind {
    /// A requirement document.
    Prd,
    /// Anything else.
    Generic,
}

impl ParallelKind {
    /// The kind that an id belongs to.
    pub fn of(id: &TaskId) -> Option<Self> {
        if id.is_prd() {
            return Some(ParallelKind::Prd);
        }
        let digits = id.as_str().strip_prefix("GEN-")?;
        let numbered = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        numbered.then_some(ParallelKind::Generic)
    }
}

/// The state of a task in the words of parallel-agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParallelStatus {
    /// It was created and not started.
    Created,
    /// It continues by itself.
    Running,
    /// Its work is in the train.
    AwaitingMerge,
    /// It has ended.
    Exited,
    /// It failed.
    Failed,
    /// It was given up.
    Destroyed,
}

impl ParallelStatus {
    /// The state in the words of parallel-agents. A task that continues by itself is `running`, even while it waits for its
    /// turn, for an account or for its next attempt; any other is `exited`, unless it was given up.
    pub fn of(task: &TaskRecord, destroyed: bool, has_lane: bool) -> Self {
        let unstarted = task.queue == UNSTARTED_QUEUE;
        match &task.state {
            _ if destroyed => ParallelStatus::Destroyed,
            TaskState::Pending { .. } | TaskState::Parked { .. } if unstarted => ParallelStatus::Created,
            TaskState::Parked { why: regatta_core::state::ParkReason::Operator, .. } => match task.attempts {
                0 => ParallelStatus::Created,
                _ => ParallelStatus::Exited,
            },
            TaskState::Pending { .. }
            | TaskState::Claimed { .. }
            | TaskState::Running { .. }
            | TaskState::Judging { .. }
            | TaskState::Parked { .. } => ParallelStatus::Running,
            TaskState::Landing { .. } => ParallelStatus::AwaitingMerge,
            TaskState::Done { .. } | TaskState::Landed { .. } | TaskState::Blocked { .. } => {
                ParallelStatus::Exited
            }
            TaskState::Failed { .. } | TaskState::Skipped { .. } => ParallelStatus::Failed,
            TaskState::Cancelled { .. } if has_lane => ParallelStatus::Exited,
            TaskState::Cancelled { .. } => ParallelStatus::Destroyed,
        }
    }
}

impl PullRequestDocument {
    /// Whether it is merged.
    pub fn is_merged(&self) -> bool {
        self.state.as_deref().is_some_and(|state| state.eq_ignore_ascii_case("merged"))
    }
}

/// The document of `task create`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParallelCreated {
    pub task: ParallelTaskDocument,
}

/// The document of `task start`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParallelStarted {
    /// The daemon that was started for it.
    pub daemon: Option<DaemonStarted>,
    pub task: ParallelTaskDocument,
}

/// The document of `task start --dry-run`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParallelPreview {
    pub agent: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The directory it would be started in.
    pub cwd: PathBuf,
    /// Always true.
    pub dry_run: bool,
    /// The log of its last attempt.
    pub log_path: Option<PathBuf>,
    /// The conversation it would continue.
    pub session_id: Option<String>,
    /// The name of the conversation.
    pub session_name: String,
    /// The prompt.
    pub stdin: String,
    pub task_id: TaskId,
    /// Whether a daemon would be started.
    pub would_start_daemon: bool,
}

/// The document of `task send`, and a result of `task broadcast`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParallelSent {
    /// The daemon that was started for it.
    pub daemon: Option<DaemonStarted>,
    /// Whether the agent was idle and continues at once.
    pub dispatched: bool,
    /// Its place among the waiting prompts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u32>,
    /// How many prompts wait.
    pub queued_count: usize,
    /// The state of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StateName>,
    /// The task afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<ParallelTaskDocument>,
    /// The task's id.
    pub task_id: TaskId,
}

/// The document of `task broadcast`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParallelBroadcast {
    /// The tasks that refused it.
    pub refused: Vec<ParallelRefused>,
    /// The tasks it was sent to.
    pub results: Vec<ParallelSent>,
    /// How many those are.
    pub total: usize,
}

/// A task that refused a prompt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParallelRefused {
    /// The reason.
    pub error: String,
    /// The next steps.
    pub hint: String,
    pub task_id: TaskId,
}

/// The document of `task status`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParallelStatusDocument {
    /// The daemon that was started again.
    pub daemon: Option<DaemonStarted>,
    /// Whether that daemon has prompts to deliver.
    pub drained: bool,
    /// The last lines of its log.
    pub log_tail: Vec<String>,
    /// Whether that daemon takes over a running attempt.
    pub reaped: bool,
    pub task: ParallelTaskDocument,
}

/// The document of `task list` with registered repositories.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParallelList {
    /// The board of the current repository.
    pub board: Vec<BoardTaskDocument>,
    /// Repositories that could not be read.
    pub errors: Vec<UnreadableRepository>,
    /// The tasks of all repositories.
    pub tasks: Vec<ParallelTaskDocument>,
}

/// A repository that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadableRepository {
    /// The reason.
    pub error: String,
    /// The next steps.
    pub hint: String,
    /// Its name.
    pub repo: String,
}

/// The document of `task attach`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParallelAttach {
    /// How to continue the conversation.
    #[serde(flatten)]
    pub attach: AttachDocument,
    /// The name of the conversation.
    pub session_name: String,
}

/// The document of `task pr-check`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PullRequestCheck {
    /// The branch that was looked for.
    pub branch: String,
    /// Why nothing was found.
    pub error: Option<String>,
    /// Whether one was found now.
    pub found: bool,
    /// The pull request, as last seen.
    pub pr: Option<PullRequestDocument>,
    pub task_id: TaskId,
}

/// The document of `task destroy`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ParallelDestroyed {
    /// Why its branch was not deleted.
    pub branch_delete_error: Option<String>,
    /// Whether its branch was deleted.
    pub branch_deleted: bool,
    /// The task.
    pub destroyed: TaskId,
    /// Whether its agent was stopped.
    pub process_killed: bool,
    /// The refs with work that existed nowhere else.
    pub salvaged: Vec<String>,
    pub state: StateName,
    /// Whether it had a worktree.
    pub worktree_removed: bool,
}

/// The document of `task cleanup`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParallelCleanup {
    /// How many tasks were destroyed.
    pub destroyed: usize,
    /// What happened to each task.
    pub results: Vec<CleanupResult>,
    /// How many tasks were looked at.
    pub scanned: usize,
}

/// What a cleanup did to one task.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum CleanupResult {
    /// Its pull request is not merged.
    Skipped {
        /// Why its pull request could not be read.
        error: Option<String>,
        /// Its pull request, as last seen.
        pr: Option<PullRequestDocument>,
        /// The state of the pull request.
        reason: String,
        task_id: TaskId,
    },
    /// It would be destroyed.
    WouldDestroy {
        /// Its pull request.
        pr: Option<PullRequestDocument>,
        task_id: TaskId,
    },
    /// It was destroyed.
    Destroyed {
        /// What was removed.
        detail: ParallelDestroyed,
        /// Its pull request.
        pr: Option<PullRequestDocument>,
        task_id: TaskId,
    },
    /// It could not be destroyed.
    Error {
        /// The reason.
        error: String,
        /// The next steps.
        hint: String,
        /// Its pull request.
        pr: Option<PullRequestDocument>,
        task_id: TaskId,
    },
}

/// The document of `repo list`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RepositoriesDocument {
    /// The settings.
    pub config: Map<String, Value>,
    pub repositories: Vec<Entry>,
    /// The directory of the registry.
    pub root: PathBuf,
    /// A setting in the file that has no effect, as a sentence.
    #[serde(skip)]
    pub ignored: Option<&'static str>,
}

/// The document of `repo add`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RepositoryAdded {
    /// The repository.
    pub added: Entry,
    /// Whether `.regatta/` had to be kept out of its git.
    pub exclude_updated: bool,
    /// The directory of the registry.
    pub root: PathBuf,
}

/// The document of `repo discover`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SiblingsDocument {
    /// The repositories beside a directory.
    pub siblings: Vec<PathBuf>,
}

/// The document of `init --discover-from`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RegistryDocument {
    /// The settings.
    pub config: Map<String, Value>,
    /// Whether their file was made.
    pub config_created: bool,
    /// The directory of the registry.
    pub root: PathBuf,
    /// The repositories beside the named directory.
    pub siblings: Vec<PathBuf>,
    /// Facts about tasks.
    pub state: Map<String, Value>,
    /// Whether their file was made.
    pub state_created: bool,
}
