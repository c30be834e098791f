//! What Regatta tells programs: the documents of `--json`, and of everything that will serve them over a wire.
//!
//! Invariant: a type here is a promise to somebody outside. Fields may be added, never renamed or taken away; the
//! types of the core may change behind them.

pub mod crew;
pub mod documents;
pub mod mcp;
pub mod plans;
