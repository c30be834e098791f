//! Landing: builds the commit to be tested, and moves the target to exactly that commit.
//!
//! Invariants: the user's checkout is theirs (a candidate is built without one, and publishing changes files only if
//! nothing of the user's is in the way); a candidate is a pure function of its request, so that a landing interrupted
//! anywhere is continued by asking again; the target moves only from the commit the candidate was built on.

pub mod boarding;
pub mod candidate;
pub mod local;
pub mod on_request;
pub mod order;
pub mod picture;
pub mod publish;
pub mod pulls;
pub mod target;
pub mod train;
pub mod unfinished;

mod at_hub;
mod beside;
mod by_path;
mod chain;
mod clean;
mod fence;
mod follow;
mod gate;
pub(crate) mod gc;
mod inspect;
mod ledger;
mod merge;
mod moving;
mod pushing;
mod refused;
mod remote;
mod testing;
mod unfit;
