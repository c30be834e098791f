//! Conventions as tests, and what the other tests stand on.

mod api;
mod dependencies;
mod forge;
mod tidy;
