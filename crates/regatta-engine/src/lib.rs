//! Everything that runs: lanes and git, processes and their shims, agents, scheduling, judging, landing and recovery.
//!
//! Knows no SQL and no terminal, and serves no HTTP: it takes values and reports through [`notice::Notice`]s.

pub mod agents;
mod alarms;
mod away;
mod budget;
pub mod clock;
mod commands;
pub mod confine;
pub mod context;
pub mod crew;
pub mod daemon;
pub mod engine;
mod environment;
pub mod failpoint;
pub mod files;
pub mod git;
pub mod holds;
mod housekeeping;
pub mod hub;
mod judge;
mod keeping;
pub mod landing;
pub mod lanes;
mod leftovers;
mod machine;
mod meter;
pub mod notice;
pub mod notify;
mod persist;
pub mod plans;
pub mod process;
pub mod profiles;
pub mod radar;
mod records;
pub mod redact;
pub mod run;
pub mod sandbox;
pub mod scratch;
pub mod session;
pub mod shim;
pub mod suspicions;
pub mod templates;
pub mod tokens;
pub mod transcript;
pub mod trust;
pub mod worker;
