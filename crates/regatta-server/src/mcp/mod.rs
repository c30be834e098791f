//! Regatta as a Model Context Protocol server: what people type as commands, agents call as tools.
//!
//! Invariants: a server has one authority for its whole life, and a tool that this does not allow is neither listed nor
//! run. A refusal is the result of the tool, with the next step, and never breaks the protocol. Every action is an
//! operation of `regatta-ops`, as for the commands; [`Desk`] has the project and the store.

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
