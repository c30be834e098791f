//! The engine's integration tests, one module per capability.

mod agents;
mod brought_in;
mod commits;
mod confine;
mod costs;
mod fixture;
mod forge;
mod git;
mod hub;
mod landing;
mod lanes;
mod own_git;
mod planted;
mod pool;
mod process;
mod tail;
