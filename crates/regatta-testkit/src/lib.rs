//! Fixtures for tests. Nothing here ships.

pub mod daemon;
pub mod invariants;
pub mod repo;
pub mod world;
