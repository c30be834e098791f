//! Regatta as a server of the Model Context Protocol: what people type as commands, agents call as tools.
//!
//! Invariants: a server has one authority from its start to its end, and a tool that this does not allow is neither listed
//! nor run. What cannot be done is told as the result of the tool, with the next step, and never breaks the protocol.
//! Every act is one of `regatta-ops`, as it is for the commands; [`Desk`] has the project and the store.

mod answer;
mod authority;
mod desk;
pub mod http;
mod input;
mod limited;
mod prompts;
mod resources;
mod server;
pub mod stdio;
mod tools;

pub use authority::Authority;
pub use desk::Desk;
pub use server::Server;

/// The name under which agents know this server.
pub const SERVER_NAME: &str = "regatta";
