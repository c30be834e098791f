//! Claude Code, by its `stream-json` output. Recorded behaviour of version 2.1.197 is under `tests/it/transcripts/claude`.

mod classify;
mod command;
mod decode;
mod servers;
mod session;

pub(super) use command::invocation;
pub use decode::ClaudeDecoder;
pub use session::{config_dir, session_file_exists};
