//! What was said to a task's agent after its order, as documents.

use regatta_core::state::StateName;
use std::collections::BTreeMap;
use std::path::PathBuf;

use regatta_core::id::TaskId;
use regatta_core::prompt::{Prompt, PromptState};
use regatta_core::time::Timestamp;
use serde::Serialize;

use super::RefusedDocument;

/// One task that was sent something, as `send --json` has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SentDocument {
    /// Which.
    pub task_id: TaskId,
    /// The task was idle and somebody is there to start it: it goes on at once.
    pub dispatched: bool,
    /// How many follow-ups wait for it now, this one among them.
    pub queued_count: u32,
    /// The place of this one among them, from 1.
    pub position: u32,
    /// Which of the task's follow-ups it is, from 1.
    pub prompt: u32,
    /// The state's name.
    pub state: StateName,
    /// What is missing before it can start.
    pub hint: Option<String>,
}

/// What `broadcast --json` has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BroadcastDocument {
    /// How many tasks were sent it.
    pub total: usize,
    /// Each of them.
    pub results: Vec<SentDocument>,
    /// Those that did not take it.
    pub refused: Vec<RefusedDocument>,
}

/// One follow-up, as `prompts --json` has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PromptDocument {
    /// Which of the task's follow-ups it is, from 1.
    pub n: u32,
    /// `queued`, `taken` or `told`.
    pub state: PromptState,
    /// Who said it.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// The last attempt that was started with it.
    pub attempt: Option<u32>,
    /// What was said, without secrets.
    pub text: String,
}

impl PromptDocument {
    /// With its text as it may be shown.
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

/// What `attach --json` has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AttachDocument {
    /// Which task.
    pub task_id: TaskId,
    /// The agent's own conversation.
    pub session_id: String,
    /// The entry of `agents` whose conversation it is.
    pub agent: String,
    /// The attempt that had it last.
    pub attempt: u32,
    /// The state's name.
    pub state: StateName,
    /// Somebody is at work in the lane: one may be, not two.
    pub running: bool,
    /// The line to type.
    pub resume_command: String,
    /// The same without a shell: program and arguments, to be started in the lane.
    pub argv: Vec<String>,
    /// Variables that say where the agent keeps its conversations.
    pub env: BTreeMap<String, String>,
    /// The lane.
    pub worktree_path: PathBuf,
}
