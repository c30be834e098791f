//! Codex, by `codex exec --json`. Recorded behaviour of version 0.166.0 is under `tests/it/transcripts/codex`.

mod classify;
mod command;
mod decode;

pub(super) use command::invocation;
pub use decode::CodexDecoder;
