//! Fixtures for tests. Nothing here ships.

pub mod repo;
pub mod world;
