//! The real binary, by capability: each command in a scratch repository of its own.

mod world;

mod cancel;
mod completions;
mod config;
mod daemon;
mod daemon_adoption;
mod daemon_mishaps;
mod daemon_service;
mod diff;
mod doctor;
mod errors;
mod events;
mod help;
mod init;
mod lane;
mod lane_alone;
mod list;
mod logs;
mod new;
mod notify;
mod queue;
mod radar;
mod rookery;
mod run_agents;
mod run_crashes;
mod run_ends;
mod run_flags;
mod run_input;
mod run_kept;
mod run_landing;
mod run_liars;
mod run_pool;
mod run_processes;
mod run_repositories;
mod run_retries;
mod run_scheduling;
mod run_stops;
mod run_train;
mod salvage;
mod secrets;
mod status;
mod validate;
mod wait;
mod worker;
/// The program under test.
const REGATTA: &str = env!("CARGO_BIN_EXE_regatta");
