//! opencode, by `opencode run --format json`. Recorded behaviour of version 1.18.33 is under
//! `tests/it/transcripts/opencode`.

mod classify;
mod command;
mod decode;

pub(super) use command::invocation;
pub use decode::OpencodeDecoder;
