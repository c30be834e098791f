//! The engine's integration tests, one module per capability.

mod agents;
mod process;
mod tail;
