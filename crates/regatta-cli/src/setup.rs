//! The files that Regatta installs where the user's own agent looks for skills, commands and servers.

pub(crate) mod files;
pub(crate) mod json_servers;
pub(crate) mod places;
pub(crate) mod toml_servers;

pub(crate) use files::{Done, Step};
