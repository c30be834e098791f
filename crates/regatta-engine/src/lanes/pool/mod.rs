//! Warm lanes: checked-out trees that nobody needs just now, kept to become the next lane in milliseconds.
//!
//! Invariant: a lane from the pool holds what a fresh checkout would hold, and declared build directories; nothing
//! else that somebody did in it before is left. Where that is doubtful the tree is thrown away.
//!
//! A pooled tree is only a directory, `<lanes>/.pool/<n>`: git does not know it, and nothing in it is work, since
//! what was in the lane was saved before. What it must look like is kept in `.regatta/pool`, where no agent writes.
//! Its number, and the fence of whoever has it, come from one counter that only grows.

mod holders;
mod manifest;
mod options;
mod pattern;
mod put;
mod setup;
mod slot;
mod take;
mod tree;

pub(super) use manifest::Stamp;
pub use options::PoolOptions;
pub(super) use setup::SetUp;
pub(super) use slot::Filled;
pub use slot::PooledLane;
