//! A model API on the loopback interface for the real agent command lines: the test writes its answers.
//!
//! A prompt names its [`Script`] by a tag, and each request of that conversation takes the next [`Turn`]. The dialect
//! is the client's: Anthropic's Messages, OpenAI's Responses or Gemini's. All requests are kept, so that a test can
//! check what an agent remembered. The same listener is the agents' proxy: requests for another host are refused and
//! recorded.

mod asked;
mod dialect;
mod gemini;
mod messages;
mod responses;
mod script;
mod server;

pub use asked::{Asked, Said};
pub use dialect::Dialect;
pub use script::{Refusal, Script, Turn, tag};
pub use server::Api;
