//! Follow-up prompts as JSON documents.

use std::collections::BTreeMap;
use std::path::PathBuf;

use regatta_core::id::TaskId;
use regatta_core::prompt::{Prompt, PromptState};
use regatta_core::state::StateName;
use regatta_core::time::Timestamp;
use serde::Serialize;

use super::RefusedDocument;

/// A task that was sent a prompt, as in `send --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SentDocument {
    pub task_id: TaskId,
    /// Whether the task was idle and an engine can start it, so that it continues at once.
    pub dispatched: bool,
    /// How many follow-ups are waiting, including this one.
    pub queued_count: u32,
    /// The position of this one among them, from 1.
    pub position: u32,
    /// The number of this follow-up in the task, from 1.
    pub prompt: u32,
    /// The state's name.
    pub state: StateName,
    /// What is missing before it can start.
    pub hint: Option<String>,
}

/// The document of `broadcast --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BroadcastDocument {
    /// How many tasks were sent the prompt.
    pub total: usize,
    /// Each of them.
    pub results: Vec<SentDocument>,
    /// Tasks that refused it.
    pub refused: Vec<RefusedDocument>,
}

/// One follow-up, as `status --json` has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PromptDocument {
    /// The number of this follow-up in the task, from 1.
    pub n: u32,
    /// `queued`, `taken` or `told`.
    pub state: PromptState,
    /// Who sent it.
    pub by: String,
    /// When it was sent.
    pub at: Timestamp,
    /// The last attempt that was started with it.
    pub attempt: Option<u32>,
    /// The text, with secrets masked.
    pub text: String,
}

impl PromptDocument {
    /// `text` is the text as it may be shown.
    pub fn new(prompt: &Prompt, text: String) -> Self {
        Self {
            n: prompt.n,
            state: prompt.state,
            by: prompt.by.clone(),
            at: prompt.at,
            attempt: prompt.attempt,
            text,
        }
    }
}

/// The document of `attach --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AttachDocument {
    pub task_id: TaskId,
    /// The id of the agent's conversation.
    pub session_id: String,
    /// The entry of `agents` whose conversation it is.
    pub agent: String,
    /// The last attempt of the conversation.
    pub attempt: u32,
    /// The state's name.
    pub state: StateName,
    /// The node that has the lane and the conversation, if it is another one: the paths are of that machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Whether an agent is running in the lane, which only one process may work in.
    pub running: bool,
    /// The command line to type.
    pub resume_command: String,
    /// The same without a shell: program and arguments, to be run in the lane.
    pub argv: Vec<String>,
    /// Variables that say where the agent keeps its conversations.
    pub env: BTreeMap<String, String>,
    /// The path of the lane.
    pub worktree_path: PathBuf,
}
