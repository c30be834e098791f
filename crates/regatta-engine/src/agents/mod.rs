//! The programs that do the work: how each is started, what it prints, how it ended.
//!
//! Each kind of agent has one folder, which offers two things and nothing else:
//!
//! - an [`Invocation`]: argv, stdin and environment for one attempt, made from a profile and a [`Brief`];
//! - a [`Decoder`]: takes lines of output, returns [`AgentEvent`]s, and an [`Ending`] once the process has ended.
//!
//! Both are plain functions of values. Nothing here starts a process, reads a clock or knows a runtime; the exceptions
//! are [`claude::session_file_exists`] and `gemini::invocation`, which read the disk, and [`sim::main`], which *is* an
//! agent.
//!
//! To add a kind: a folder with those two, a variant of [`AgentKind`], a folder of recorded transcripts; step by step in
//! docs/guide/adding-an-agent.md.

mod by_hand;
mod calls;
pub mod claude;
pub mod codex;
pub mod command;
mod decoder;
mod edits;
mod event;
mod failure;
mod from_lane;
pub mod gemini;
mod json;
mod launch;
mod ledger;
mod lines;
pub mod opencode;
mod prompts;
mod reset;
pub mod sim;
mod suspicion;
mod words;

use std::path::Path;

use regatta_core::bounds::refusals;
use regatta_core::config::AgentKind;

pub use by_hand::{ByHand, by_hand};
pub use decoder::{AgentEnd, Decoder, Ending};
pub use event::{AgentEvent, FileChange};
pub use launch::{AgentProfile, Brief, GUIDANCE_VAR, Invocation, Refusal, SessionPlan, find_program};
pub use lines::{LineBuffer, MAX_LINE};
pub use suspicion::{News, Suspicions};
pub use words::is_own_command;

/// How to start one attempt. `is_set` says whether Regatta's own environment has a variable: the user's exported
/// variables override our defaults, as do the profile's.
///
/// A refusal is permanent: the agent cannot do what the task orders.
pub fn invocation(
    profile: &AgentProfile,
    brief: &Brief<'_>,
    is_set: &dyn Fn(&str) -> bool,
) -> Result<Invocation, Refusal> {
    let bounds = brief.bounds.on_top_of(&profile.bounds);
    if let Some(refused) = refusals(profile.kind, &bounds, brief.read_only).into_iter().next() {
        return Err(Refusal(refused.why));
    }
    let brief = &Brief { bounds: &bounds, ..*brief };
    // Agents print reset times in local time, some without naming the zone. To use another zone, set it in `env`.
    let is_set = &|name: &str| name != "TZ" && is_set(name);
    match profile.kind {
        AgentKind::Claude => claude::invocation(profile, brief, is_set),
        AgentKind::Codex => codex::invocation(profile, brief, is_set),
        AgentKind::Gemini => gemini::invocation(profile, brief, is_set),
        AgentKind::Opencode => opencode::invocation(profile, brief, is_set),
        AgentKind::Command => Ok(command::invocation(profile, brief)),
        AgentKind::Sim => Ok(sim::invocation(profile, brief)),
    }
}

/// A fresh decoder for the output of one attempt.
pub fn decoder(kind: AgentKind) -> Box<dyn Decoder> {
    match kind {
        AgentKind::Claude => Box::new(claude::ClaudeDecoder::default()),
        AgentKind::Codex => Box::new(codex::CodexDecoder::default()),
        AgentKind::Gemini => Box::new(gemini::GeminiDecoder::default()),
        AgentKind::Opencode => Box::new(opencode::OpencodeDecoder::default()),
        AgentKind::Command => Box::new(command::PlainDecoder::default()),
        AgentKind::Sim => Box::new(sim::SimDecoder::default()),
    }
}

/// The same, with file names relative to the lane.
pub fn decoder_in(kind: AgentKind, lane: Option<&Path>) -> Box<dyn Decoder> {
    match lane.and_then(Path::to_str) {
        Some(lane) => Box::new(from_lane::FromLane::new(decoder(kind), lane)),
        None => decoder(kind),
    }
}

/// Whether `id` may go into an argv as the id of a conversation: what an agent printed could be an option.
pub fn is_session_id(id: &str) -> bool {
    json::is_session_id(id)
}
