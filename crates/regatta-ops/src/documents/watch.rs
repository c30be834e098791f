//! What happens to tasks while a caller waits, one document at a time.

use regatta_core::id::TaskId;
use regatta_core::state::StateName;
use serde::Serialize;

use crate::refusal::{Refusal, RefusalKind};
use crate::wait::Granularity;

/// One line of `wait --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum WatchDocument {
    /// The wait for a task begins.
    Watching {
        task: TaskId,
        state: StateName,
        /// The process of its running agent.
        pid: Option<u32>,
        /// How much is reported.
        #[serde(skip)]
        granularity: Granularity,
        /// Why it will not start by itself, for people.
        #[serde(skip)]
        note: Option<String>,
    },
    /// Its agent uses a tool.
    Tool {
        task: TaskId,
        attempt: u32,
        /// The tool.
        name: String,
        /// What it does.
        summary: String,
    },
    /// Its agent says something.
    Log {
        task: TaskId,
        attempt: u32,
        /// One line, with secrets masked.
        text: String,
    },
    /// What its agent says and does is on another machine, which does not send it. The wait goes on.
    Unseen {
        task: TaskId,
        attempt: u32,
        /// Where it is, and why it is not sent.
        why: String,
    },
    /// It has ended.
    Exited {
        task: TaskId,
        /// Its last state.
        state: StateName,
        /// The reason for the state.
        reason: Option<String>,
    },
    /// The time ran out.
    Timeout {
        /// The tasks that have not ended.
        tasks: Vec<TaskId>,
    },
    /// The wait failed.
    Error {
        /// The task, if it is about one.
        #[serde(skip_serializing_if = "Option::is_none")]
        task: Option<TaskId>,
        /// What prevented it.
        error: String,
        /// The kind of the refusal.
        #[serde(skip)]
        kind: RefusalKind,
    },
}

impl WatchDocument {
    /// A refusal, about one task or about the whole wait.
    pub fn error(task: Option<&TaskId>, refusal: &Refusal) -> Self {
        WatchDocument::Error { task: task.cloned(), error: refusal.message.clone(), kind: refusal.kind }
    }
}
