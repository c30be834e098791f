//! A model API on loopback that the real agent command lines talk to: what it answers is written by the test.
//!
//! A prompt names its [`Script`] by a tag, and each request of that conversation takes the next [`Turn`]. The dialect
//! is the client's: Anthropic's Messages, OpenAI's Responses or Gemini's. Everything that was asked is kept, so that a
//! test can say what an agent remembered. The same listener is the agents' proxy: whoever asks it for another host is
//! refused and written down.

mod asked;
mod dialect;
mod gemini;
mod http;
mod messages;
mod responses;
mod script;
mod server;

pub use asked::{Asked, Said};
pub use dialect::Dialect;
pub use script::{Refusal, Script, Turn, tag};
pub use server::Api;
