//! Regatta's vocabulary as types, and its decisions as functions: values in, values out.
//!
//! This crate does no IO, reads neither clock nor environment, and knows no runtime. Callers pass in values to decide
//! on and get the decision back as a value.

pub mod admission;
pub mod attempt;
pub mod bounds;
pub mod budget;
pub mod causes;
pub mod chain;
pub mod commit_message;
pub mod config;
pub mod crew;
pub mod diagnostic;
pub mod event;
pub mod exit;
pub mod failure;
pub mod forge;
pub mod graph;
pub mod hex;
pub mod id;
pub mod node;
pub mod notify;
pub mod oid;
pub mod part;
pub mod plain;
pub mod profiles;
pub mod prompt;
pub mod proposal;
pub mod radar;
pub mod report;
pub mod repos;
pub mod rest;
pub mod sandbox;
pub mod session;
pub mod spec;
pub mod state;
pub mod suspicion;
pub mod taskfile;
pub mod tier;
pub mod time;
pub mod train;
pub mod verdict;
pub mod writes;
