//! The fault suite: a daemon's story is broken in every way we know and left to settle, and then all invariants are
//! checked. Short by default; `bench/faults` runs it long.
#![expect(clippy::print_stdout, reason = "it prints what it tried and found")]

mod durability;
mod failpoints;
mod identity;
mod kept;
mod killed_git;
mod kills;
mod lines;
mod locks;
mod moved;
mod one_agent;
mod reload;
mod scene;
mod troubles;
mod users_git;

/// The program under test.
const REGATTA: &str = env!("CARGO_BIN_EXE_regatta");
