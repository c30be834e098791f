//! Fixtures for tests. Nothing here ships.

pub mod agents;
pub mod api;
pub mod daemon;
pub mod forge;
pub mod history;
mod http;
pub mod invariants;
pub mod net;
pub mod postgres;
pub mod repo;
pub mod running;
pub mod shown;
pub mod wire;
pub mod world;
pub mod zookeeper;
