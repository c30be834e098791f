//! The repositories of a project: how they depend on each other, and how current they are.

pub mod detected;
pub mod freshness;
pub mod manifests;
pub mod remote;
