//! Follow-up prompts to a task's agent, delivered one per attempt, in order.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Longest follow-up in bytes: longer text belongs in a file that the prompt names.
pub const MAX_PROMPT: usize = 256 * 1024;

/// One follow-up of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// Its number among the task's follow-ups, from 1: the order in which they were sent and are delivered.
    pub n: u32,
    /// The text for the agent, verbatim.
    pub text: String,
    /// Who sent it.
    pub by: String,
    /// When it was sent.
    pub at: Timestamp,
    /// Its delivery state.
    pub state: PromptState,
    /// The last attempt that took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

/// The delivery state of a follow-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromptState {
    /// It waits for the next attempt.
    Queued,
    /// The current attempt was started for it.
    Taken,
    /// An attempt that was started for it has ended by itself.
    Told,
}

impl PromptState {
    /// Its name.
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
