//! Regatta as a server of the Model Context Protocol: what people type as commands, agents call as tools.
//!
//! Invariants: a server has one authority from its start to its end, and a tool that this does not allow is neither listed
//! nor run. What cannot be done is told as the result of the tool, with the next step, and never breaks the protocol.
//! Every act is the command's own: the binary lends it through [`Host`].

mod answer;
mod authority;
mod host;
pub mod http;
mod input;
mod limited;
mod prompts;
mod resources;
mod server;
pub mod stdio;
mod tools;

pub use answer::Refusal;
pub use authority::Authority;
pub use host::{
    ClaimOrder, CompleteOrder, ContextOrder, EnqueueOrder, Host, InboxOrder, PostOrder, PushOrder, Speaker,
};
pub use server::Server;

/// The name under which agents know this server.
pub const SERVER_NAME: &str = "regatta";
