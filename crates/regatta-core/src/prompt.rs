//! What people say to a task's agent after its order: follow-up prompts, told one per attempt, in order.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// The longest follow-up in bytes: longer text belongs in a file that the prompt names.
pub const MAX_PROMPT: usize = 256 * 1024;

/// One follow-up of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// Which of the task's follow-ups it is, from 1: the order in which they were said, and are told.
    pub n: u32,
    /// What the agent is told, word for word.
    pub text: String,
    /// Who said it.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// How far it is on its way.
    pub state: PromptState,
    /// The last attempt that took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

/// How far a follow-up is on its way to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromptState {
    /// It waits for the next attempt.
    Queued,
    /// The attempt under way was started for it.
    Taken,
    /// An attempt that was started for it has come to an end of its own.
    Told,
}

impl PromptState {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            PromptState::Queued => "queued",
            PromptState::Taken => "taken",
            PromptState::Told => "told",
        }
    }

    /// The state of that name.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Queued, Self::Taken, Self::Told].into_iter().find(|state| state.as_str() == word)
    }
}
