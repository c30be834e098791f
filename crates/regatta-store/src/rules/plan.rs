//! What a rule wants written: all of it, if everything it rests on still holds, or nothing.

use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;

use super::record::{Key, Record};

/// A plan. Its writes are in the order of their keys.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Records that were relied upon and are not written, with their versions.
    #[cfg_attr(
        not(any(test, feature = "postgres", feature = "zookeeper")),
        expect(dead_code, reason = "SQLite plans inside the transaction that commits")
    )]
    pub(crate) checks: Vec<(Key, u64)>,
    pub(crate) writes: Vec<Write>,
    /// Numbered by the commit, in this order.
    pub(crate) events: Vec<NewEvent>,
}

/// A record to be written.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) key: Key,
    /// The version that it must still have; zero if it must be absent.
    #[cfg_attr(
        not(any(test, feature = "postgres", feature = "zookeeper")),
        expect(dead_code, reason = "SQLite plans inside the transaction that commits")
    )]
    pub(crate) version: u64,
    /// What it was, for backends that have to find its old place in an index. A backend that reads inside its
    /// transaction is not asked for records that are only overwritten, and gets `None` for them.
    pub(crate) before: Option<Record>,
    /// What it becomes; `None` deletes it. The same as before if only its version has to move.
    pub(crate) after: Option<Record>,
}

/// An event to be appended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NewEvent {
    pub(crate) at: Timestamp,
    /// The task it is about, by its order of arrival and its id.
    pub(crate) task: Option<(u64, TaskId)>,
    pub(crate) attempt: Option<u32>,
    /// JSON.
    pub(crate) body: String,
}
