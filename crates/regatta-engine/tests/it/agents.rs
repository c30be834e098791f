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

use regatta_core::time::Timestamp;
use regatta_engine::agents::Kind;

const EVERY_KIND: [Kind; 6] =
    [Kind::Claude, Kind::Codex, Kind::Gemini, Kind::Opencode, Kind::Command, Kind::Sim];

/// When the transcripts were recorded.
fn recorded_at() -> Timestamp {
    Timestamp::try_from("2026-11-15T02:12:27Z".to_owned()).unwrap()
}
