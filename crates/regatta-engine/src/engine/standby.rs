//! Ready tasks that were not started, and when the engine has to check them again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;

use super::timers::TICK;
use crate::clock;
use crate::holds::Holds;
use crate::profiles::NoAccount;

/// The result of the last check of ready tasks.
pub(super) struct Standby {
    /// Why each is not started, for display.
    holds: Holds,
    /// Tasks behind the declared writes of an unsettled task.
    behind_writes: BTreeSet<TaskId>,
    /// Tasks without an account that becomes available by itself.
    without_account: BTreeSet<TaskId>,
    /// When the first account that a task waits for is available.
    next_account: Option<Timestamp>,
    /// When the pause after another engine's last start is over.
    next_slot: Option<Instant>,
    /// When this engine last started a task.
    last_start: Option<Instant>,
}

impl Standby {
    pub(super) fn new(holds: Holds) -> Self {
        Self {
            holds,
            behind_writes: BTreeSet::new(),
            without_account: BTreeSet::new(),
            next_account: None,
            next_slot: None,
            last_start: None,
        }
    }

    /// Starts a new check.
    pub(super) fn begin(&mut self) {
        self.behind_writes.clear();
        self.without_account.clear();
        self.next_account = None;
        self.next_slot = None;
    }

    pub(super) fn is_behind_writes(&mut self, task: TaskId) {
        self.behind_writes.insert(task);
    }

    pub(super) fn has_no_account(&mut self, task: TaskId, no_account: &NoAccount) {
        match no_account.until {
            Some(until) => {
                self.next_account = Some(self.next_account.map_or(until, |next| next.min(until)));
            }
            None => drop(self.without_account.insert(task)),
        }
    }

    /// Another engine started a task just now: the next start is possible after `left`.
    pub(super) fn is_staggered(&mut self, left: Duration) {
        self.next_slot = Some(Instant::now() + left);
    }

    pub(super) fn started(&mut self) {
        self.last_start = Some(Instant::now());
    }

    /// Records why tasks are held; returns what is new.
    pub(super) fn tell(&mut self, held: BTreeMap<TaskId, String>) -> Vec<(TaskId, String)> {
        self.holds.tell(held)
    }

    /// Whether no passing of time helps this task: it waits for other tasks, or for a user.
    pub(super) fn is_stuck(&self, task: &TaskId) -> bool {
        self.behind_writes.contains(task) || self.without_account.contains(task)
    }

    pub(super) fn n_stuck(&self) -> usize {
        self.behind_writes.len() + self.without_account.len()
    }

    /// The rest of the pause after this engine's last start.
    pub(super) fn pause_left(&self, stagger: Option<Duration>) -> Option<Duration> {
        stagger?.checked_sub(self.last_start?.elapsed())
    }

    /// How long until an account is available, or another engine's pause is over.
    pub(super) fn due_in(&self) -> Option<Duration> {
        let account = self.next_account.map(|at| at.since(clock::now()) + TICK);
        let slot = self.next_slot.map(|at| at.saturating_duration_since(Instant::now()) + TICK);
        account.into_iter().chain(slot).min()
    }
}
