//! The real binary, by capability: each command in a scratch repository of its own.

mod world;

mod cancel;
mod completions;
mod config;
mod diff;
mod doctor;
mod events;
mod help;
mod init;
mod lane;
mod list;
mod logs;
mod new;
mod salvage;
mod status;
mod validate;
mod worker;
