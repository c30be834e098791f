//! Gemini CLI, by its `stream-json` output. Recorded behaviour of version 0.61.0 is under `tests/it/transcripts/gemini`.

mod classify;
mod command;
mod decode;
mod policy;

pub(super) use command::invocation;
pub use decode::GeminiDecoder;
