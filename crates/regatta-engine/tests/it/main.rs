//! The engine's integration tests, one module per capability.

mod agents;
mod process;
mod tail;
mod fixture;
mod git;
mod landing;
mod lanes;
