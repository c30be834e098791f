//! Warm lanes: checked-out trees that no task needs at the moment, kept to become the next lane within milliseconds.
//!
//! Invariant: a lane from the pool contains what a fresh checkout would contain, plus declared build directories;
//! nothing else from earlier use is left. If that is doubtful the tree is deleted.
//!
//! A pooled tree is only a directory, `<lanes>/.pool/<n>`: git does not know it, and nothing in it is work, since the
//! lane's work was saved before. Its manifest is kept in `.regatta/pool`, where no agent writes. Its number, and the
//! fence of its holder, come from one counter that only grows.

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
