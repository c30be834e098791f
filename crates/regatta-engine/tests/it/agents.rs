//! Agents: what real ones printed, how they are started, and the simulated one.

mod argv;
mod argv_of_others;
mod attach;
mod bounds;
mod endings;
mod garbage;
mod other_kinds;
mod suspicions;
mod transcripts;

use regatta_core::config::AgentKind;
use regatta_core::time::Timestamp;

const EVERY_KIND: [AgentKind; 6] = [
    AgentKind::Claude,
    AgentKind::Codex,
    AgentKind::Gemini,
    AgentKind::Opencode,
    AgentKind::Command,
    AgentKind::Sim,
];

/// When the transcripts were recorded.
fn recorded_at() -> Timestamp {
    Timestamp::try_from("2026-11-15T02:12:27Z".to_owned()).unwrap()
}
