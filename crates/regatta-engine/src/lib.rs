//! What runs: agents, their processes and lanes, judging and landing.

pub mod agents;
pub mod redact;
pub mod process;
pub mod shim;
pub mod git;
pub mod landing;
pub mod lanes;
