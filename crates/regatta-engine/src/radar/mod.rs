//! The conflict radar: finds work that would conflict while agents are still running.
//!
//! ```text
//! subjects ─ tasks with work that is not on the target: lanes, cars, branches
//!   ─ lanes::capture ─► a commit each, uncommitted work included
//!   ─ history ─► what each changed since it left the target        (one rev-list, one diff-tree)
//!   ─ core::radar::meetings ─► pairs that share files, or may
//!   ─ memory ─► pairs that were never merged ─► one merge-tree
//! ```
//!
//! Invariant: a scan changes nothing of any lane, of the user's checkout or of the repository, and runs nothing that an
//! agent planted. What it writes is in `.regatta/radar` and can be deleted at any time.

mod counsel;
mod history;
mod look;
mod memory;
mod subjects;
mod watch;

pub(crate) use counsel::counsel;
pub use look::{Look, RadarError, look};
pub use memory::last_sighting;
pub(crate) use watch::{LookOutcome, RadarWatch};
