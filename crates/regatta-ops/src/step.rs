//! What can be done next, as data: one table for every refusal and every screen.

use std::fmt;

use regatta_core::id::TaskId;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// An action on a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Show everything about it.
    Status,
    /// Show what its agent did.
    Logs,
    /// Follow what its agent does.
    Follow,
    /// Follow its events.
    Events,
    /// Show its work.
    Diff,
    /// Wait until it ends.
    Wait,
    /// Cancel it.
    Cancel,
    /// Try again in its lane.
    Retry,
    /// Try again in its lane, in a new conversation.
    RetryFresh,
    /// Start it over in a fresh lane.
    Requeue,
    /// Let it start.
    Unpark,
    /// Land its work.
    Land,
    /// Land its work although its verdict did not pass.
    Accept,
    /// Try to land it again.
    LandRetry,
    /// Send its agent a follow-up prompt.
    Send,
    /// Hand it in.
    Complete,
    /// Take it from the board.
    Claim,
}

impl Act {
    /// The command that does it.
    pub fn command(self, task: &TaskId) -> String {
        match self {
            Act::Status => format!("regatta status {task}"),
            Act::Logs => format!("regatta logs {task}"),
            Act::Follow => format!("regatta logs -f {task}"),
            Act::Events => format!("regatta events -f --task {task}"),
            Act::Diff => format!("regatta diff {task}"),
            Act::Wait => format!("regatta wait {task}"),
            Act::Cancel => format!("regatta cancel {task}"),
            Act::Retry => format!("regatta retry {task}"),
            Act::RetryFresh => format!("regatta retry --fresh {task}"),
            Act::Requeue => format!("regatta requeue {task}"),
            Act::Unpark => format!("regatta unpark {task}"),
            Act::Land => format!("regatta land {task}"),
            Act::Accept => format!("regatta land --accept {task}"),
            Act::LandRetry => format!("regatta land retry {task}"),
            Act::Send => format!("regatta send {task} \"…\""),
            Act::Complete => format!("regatta task complete {task}"),
            Act::Claim => format!("regatta task claim {task}"),
        }
    }

    /// What it does, as the end of a sentence that begins with the command.
    pub fn does(self) -> &'static str {
        match self {
            Act::Status => "shows its state",
            Act::Logs => "shows what its agent did",
            Act::Follow => "follows its agent",
            Act::Events => "shows its events as they come",
            Act::Diff => "shows its work",
            Act::Wait => "waits for its end",
            Act::Cancel => "cancels it",
            Act::Retry => "tries again in its lane",
            Act::RetryFresh => "tries again in its lane with a new conversation",
            Act::Requeue => "starts it over in a fresh lane",
            Act::Unpark => "lets it start now",
            Act::Land => "lands it",
            Act::Accept => "lands it as it is",
            Act::LandRetry => "tries again to land it",
            Act::Send => "sends its agent a message",
            Act::Complete => "hands it in",
            Act::Claim => "takes it",
        }
    }
}

/// One next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An action on a task.
    Act {
        /// The action.
        act: Act,
        task: TaskId,
    },
    /// Anything else, in a sentence.
    Advice(String),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Act { act, task } => write!(f, "`{}` {}", act.command(task), act.does()),
            Step::Advice(text) => f.write_str(text),
        }
    }
}

impl Serialize for Step {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Step::Act { act, task } => {
                json!({ "act": act, "task": task, "command": act.command(task), "text": self.to_string() })
            }
            Step::Advice(text) => json!({ "text": text }),
        }
        .serialize(serializer)
    }
}
