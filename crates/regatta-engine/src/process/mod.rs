//! **A daemon's death harms no run, and stopping means stopped.**
//!
//! Everything Regatta starts (agents, checks, setup commands, gates) runs under a shim: a small process in its own
//! session that outlives the engine, owns the whole tree below it as sub-reaper, and leaves an `exit.json` once that
//! tree has ended. The engine holds no state that is not in the run directory too, so that the next engine can [`find`]
//! what the last one launched.
//!
//! A run directory is used once. Its files, in the order they appear:
//!
//! | file | written by | says |
//! |---|---|---|
//! | `lock` | shim | held for the shim's life; its identity and its marker |
//! | `shim.log` | shim | empty, or why it panicked |
//! | `shim.json` | shim | the agent runs: both identities, marker, start |
//! | `stop.json` | engine | why the tree is to end; read by the shim when the signal arrives |
//! | `exit.json` | shim | the tree has ended, and how |
//!
//! Processes are identified by machine, boot, pid namespace, pid and start time, and signals go through pidfds, so
//! neither a reused pid nor a zombie is ever mistaken for the original. Nothing here polls: pidfds and inotify wake the
//! engine.

mod closing;
mod find;
mod handle;
pub(crate) mod hold;
mod holes;
mod host;
pub(crate) mod identity;
mod launch;
pub(crate) mod record;
pub mod tail;
pub(crate) mod tree;
mod wakeup;

pub use crate::shim::door::DoorSpec;
pub use find::{FoundRun, find};
pub use handle::Shim;
pub(crate) use handle::kill_every_tree;
pub(crate) use holes::Bound;
pub use holes::{before_holes, read_past_holes};
pub use identity::{Identity, Life};
pub use launch::{Launch, LaunchError, Stdin, Supervisor};
pub(crate) use launch::{OVERDUE, leave_what_starts};
pub use record::{ExitRecord, StopRequest};
pub use tail::{Line, Tail, dropped_line};
pub(crate) use tree::carrying;
pub use tree::{MARKER, sweep};
