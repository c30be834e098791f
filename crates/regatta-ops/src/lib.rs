//! Everything a person or a program can do with Regatta, as functions that take a typed request and return a typed
//! result or a [`Refusal`]. The command line, the MCP server and `top` are thin layers over it.
//!
//! Invariant: nothing here prints, parses arguments or makes decisions by the text of a message.

pub mod assemble;
pub mod attach;
pub mod changes;
pub mod cost;
pub mod crew;
pub mod daemon;
pub mod diff;
pub mod documents;
pub mod door;
mod elsewhere;
pub mod everywhere;
pub mod foreground;
pub mod hub;
pub mod lanes;
pub mod logins;
pub mod look;
mod naming;
pub mod nodes;
pub mod operator;
pub mod parallel;
pub mod plans;
pub mod profiles;
pub mod project;
pub mod pulls;
pub mod reclaim;
pub mod refusal;
pub mod report;
pub mod repos;
pub mod salvage;
pub mod sandbox;
pub mod scaffold;
pub mod secrets;
pub mod setup;
pub mod start_error;
pub mod step;
pub mod stores;
pub mod target;
pub mod taskfiles;
pub mod tasks;
pub mod trust;
pub mod wait;
pub mod when;
pub mod worker;

pub use changes::StoreChanges;
pub use crew::Crew;
pub use operator::{Operator, Selection};
pub use project::{Project, ProjectOptions};
pub use refusal::{Refusal, RefusalKind};
pub use step::{Act, Step};
