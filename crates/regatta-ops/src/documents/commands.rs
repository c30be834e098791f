//! The small documents of single commands. Their fields are printed in the order of their names.

use std::collections::BTreeMap;
use std::path::PathBuf;

use regatta_core::diagnostic::Diagnostic;
use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::repos::RepoName;
use regatta_core::state::StateName;
use regatta_core::time::Timestamp;
use regatta_core::train::history::Phase;
use regatta_engine::landing::target::Stopped;
use serde::Serialize;
use serde_json::Value;

use super::DaemonDocument;
use crate::refusal::Refusal;
use crate::setup::FileStep;
use crate::step::Step;

/// A document with all its fields, also those of nested values, in the order of their names.
pub fn by_name(document: &impl Serialize) -> Value {
    serde_json::to_value(document).expect("our own values serialise")
}

/// The error of a command, on standard error.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ErrorDocument {
    /// The exit code.
    pub code: u8,
    /// Mistakes in files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
    /// What went wrong, in one sentence.
    pub error: String,
    /// The next steps in one line.
    pub hint: String,
    /// The next steps one by one; absent if the command line could not be parsed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Vec<Step>>,
    /// The state that was in the way, if it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<&'static str>,
    /// The task with that state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
}

impl ErrorDocument {
    /// The refusal of an operation, with the exit code of its kind.
    pub fn of(refusal: &Refusal, code: u8) -> Self {
        let (task, state) = refusal.task.clone().unzip();
        Self {
            code,
            diagnostics: refusal.diagnostics.clone(),
            error: refusal.message.clone(),
            hint: refusal.hint(),
            next: Some(refusal.next.clone()),
            state,
            task,
        }
    }

    /// A command line that could not be parsed.
    pub fn usage(error: String, hint: String, code: u8) -> Self {
        Self { code, diagnostics: Vec::new(), error, hint, next: None, state: None, task: None }
    }
}

/// `status` without an id.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HealthDocument {
    /// With a hub: why the target here does not have what landed there.
    pub behind: Option<String>,
    /// The number of tasks by state.
    pub counts: BTreeMap<StateName, u64>,
    /// The daemon that serves the main queue, if one is running.
    pub daemon: Option<DaemonDocument>,
    /// Where the store is.
    pub store: String,
    /// The number of all tasks.
    pub total: u64,
}

/// `init`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InitDocument {
    /// The created files and directories.
    pub made: Vec<PathBuf>,
    /// The root of the repository.
    pub root: PathBuf,
}

/// `new`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewFileDocument {
    /// The id of the task, or the name of the plan.
    pub id: TaskId,
    /// `task` or `plan`.
    pub kind: &'static str,
    /// The created file.
    pub path: PathBuf,
}

/// `validate`, for files without errors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ValidDocument {
    /// Warnings.
    pub diagnostics: Vec<Diagnostic>,
    /// Always true: with errors, the command prints an error instead.
    pub ok: bool,
    /// The ids of the tasks in the files.
    pub tasks: Vec<TaskId>,
}

/// `trust`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TrustDocument {
    /// What may run something, or decides where work goes.
    pub items: Vec<TrustItem>,
    /// Whether all of it is trusted.
    pub trusted: bool,
}

/// Where a setting that may run something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum TrustKind {
    /// It is the state directory itself.
    #[serde(rename = "state")]
    State,
    /// Git's settings, hooks and remotes.
    #[serde(rename = "git")]
    Git,
    /// The configuration file.
    #[serde(rename = "regatta.yaml")]
    File,
}

/// One setting that may run something or decides where work goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TrustItem {
    /// Its value now; `None` if it was removed.
    pub is: Option<String>,
    pub kind: TrustKind,
    /// The name of its repository in `repos`; missing for the project's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoName>,
    /// Whether the user agreed to it.
    pub trusted: bool,
    /// The value that the user agreed to, if it differs.
    pub was: Option<String>,
    /// The setting's name.
    pub what: String,
}

/// `setup claude` and `setup codex`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SetupDocument {
    /// A command that the user runs for the MCP server.
    pub by_hand: Option<&'static str>,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// The files and what was done with them.
    pub files: Vec<FileStep>,
}

/// `setup --name`, as in claude-orchestrator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SetupMemberDocument {
    /// The member's name.
    pub name: Option<String>,
    /// The command that registers the member.
    pub next: String,
    /// The root of the repository.
    pub project: PathBuf,
    /// The member's role.
    pub role: String,
    /// The directory of the templates.
    pub templates: PathBuf,
}

/// `version`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VersionDocument {
    /// `regatta`.
    pub name: &'static str,
    pub version: &'static str,
}

/// `completions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CompletionsDocument {
    pub script: String,
    /// The shell that reads it.
    pub shell: String,
}

/// `mcp --http`, once it listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListeningDocument {
    /// The file with the token that clients send.
    pub token_file: PathBuf,
    /// The address.
    pub url: String,
}

/// `worker done`, `progress` and `stuck`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordedDocument {
    /// The attempt whose report was recorded.
    pub attempt: u32,
    /// Always true.
    pub ok: bool,
    pub task: TaskId,
}

/// `profiles warm`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WarmDocument {
    /// Tasks that stay parked until a limit ends.
    pub parked: Vec<TaskId>,
    /// The profiles that can be used again.
    pub warm: Vec<String>,
}

/// `land resume`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResumedDocument {
    /// Why the train had stopped, if it had.
    pub stopped: Option<Stopped>,
    /// The branch.
    pub target: String,
    /// The commit from which landing continues.
    pub tip: Oid,
}

/// `land history`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HistoryDocument {
    /// The task.
    pub id: TaskId,
    /// The phases of its landings, in order.
    pub phases: Vec<Phase>,
    /// The state's name.
    pub state: &'static str,
}

/// `ctx delete`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeletedContextDocument {
    /// Always true.
    pub deleted: bool,
    pub key: String,
    /// The version of the deletion.
    pub version: u64,
}

/// `msg dismiss`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DismissedDocument {
    /// The numbers of the removed messages.
    pub dismissed: Vec<u64>,
}

/// A message of the daemon in its log, between the events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SaidDocument {
    /// When it was written.
    pub at: Timestamp,
    /// `said`.
    pub kind: &'static str,
    /// The message.
    pub text: String,
}

/// The beginning of an attempt in `logs --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogAttemptDocument {
    /// The agent's name.
    pub agent: String,
    /// The attempt's number.
    pub attempt: u32,
    /// The number of the follow-up prompt that it works on.
    pub prompt: Option<u32>,
    /// The id of its conversation.
    pub session: Option<String>,
    /// The prompts that its agent got.
    pub told: Vec<LogPromptDocument>,
    /// `attempt`.
    #[serde(rename = "type")]
    pub kind: &'static str,
}

/// One prompt in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogPromptDocument {
    /// `task`, `follow-up` or `guidance`.
    pub kind: &'static str,
    /// The prompt.
    pub text: String,
}

/// One event of an agent in `logs --json`; `E` is the normal form of the event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogEventDocument<E> {
    /// The attempt's number.
    pub attempt: u32,
    #[serde(flatten)]
    pub event: E,
}

/// A line on the standard error of an agent, in `logs --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogStderrDocument<'a> {
    /// The attempt's number.
    pub attempt: u32,
    /// The line.
    pub text: &'a str,
    /// `stderr`.
    #[serde(rename = "type")]
    pub kind: &'static str,
}
