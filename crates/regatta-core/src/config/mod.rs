//! `regatta.yaml` and `node.yaml`, and what they share with task files: the table of keys and the YAML parser that uses it.
//!
//! ```text
//! text ─yaml─► nodes with places ─fields─► typed values ─file─► Config ─overrides─► Config
//!                     rows of keys ─┴──────────────► schema, template, reference
//! ```
//!
//! A key that this version reads but does not implement is never accepted silently: it causes a warning.

pub(crate) mod agents;
pub(crate) mod bounds;
mod check;
pub mod config_keys;
mod duration;
mod executing;
pub(crate) mod fields;
pub(crate) mod file;
mod hub;
pub mod keys;
mod models;
pub mod node_file;
mod notify;
mod overrides;
mod profiles;
pub(crate) mod reading;
pub mod reference;
mod repos;
mod roles;
mod rookery;
mod sandbox;
mod schema;
pub mod task_keys;
mod template;
mod values;
pub(crate) mod variables;
pub(crate) mod yaml;

#[cfg(test)]
mod tests;

pub use duration::{format_duration, parse_duration};
pub use file::{parse, parse_rookery};
pub use hub::HubAddress;
pub use node_file::{NodeProject, NodeSettings, parse_node};
pub use notify::{Notify, Sink};
pub use overrides::Setting;
pub use profiles::Profile;
pub use roles::{Chain, Role, Roles};
pub use schema::schema;
pub use template::template;
pub use values::{
    Agent, AgentKind, Config, Defaults, Keep, Land, LandFence, Lane, Limits, Models, Origin, Radar,
    WatchSettings,
};
pub use variables::refused_variable;

/// The text with one kind of line ending and without a byte order mark, so that positions in it are positions in the
/// file.
pub(crate) fn normalised(text: &str) -> String {
    text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n")
}
