//! The protocol of a client, and answers in it.

use serde_json::Value;

use super::asked::Asked;
use super::script::{Part, Refusal};
use super::{gemini, messages, responses};
use crate::http::Reply;

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Anthropic's Messages: claude, opencode.
    Messages,
    /// OpenAI's Responses: codex.
    Responses,
    /// Gemini's `generateContent`.
    Gemini,
}

impl Dialect {
    /// The answer in one piece.
    pub(super) fn whole(self, parts: &[Part], asked: &Asked, serial: u64) -> Value {
        match self {
            Dialect::Messages => messages::whole(parts, asked, serial),
            Dialect::Responses => responses::whole(parts, asked, serial),
            Dialect::Gemini => gemini::whole(parts, asked, serial),
        }
    }

    /// The same answer as a stream of events.
    pub(super) fn events(self, parts: &[Part], asked: &Asked, serial: u64) -> Vec<Value> {
        match self {
            Dialect::Messages => messages::events(parts, asked, serial),
            Dialect::Responses => responses::events(parts, asked, serial),
            Dialect::Gemini => gemini::events(parts, asked, serial),
        }
    }

    /// A refusal. `now` is in seconds since 1970.
    pub(super) fn refusal(self, refusal: Refusal, now: u64) -> Reply {
        match self {
            Dialect::Messages => messages::refusal(refusal, now),
            Dialect::Responses => responses::refusal(refusal, now),
            Dialect::Gemini => gemini::refusal(refusal),
        }
    }
}
