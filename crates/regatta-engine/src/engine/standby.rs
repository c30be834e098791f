//! Ready tasks that were not started, and when the engine has to check them again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;

use super::timers::{LONGEST_SLEEP, TICK};
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
    /// Tasks whose requirements this node does not satisfy.
    unserved: BTreeSet<TaskId>,
    /// When the first account that a task waits for is available.
    next_account: Option<Timestamp>,
    /// When the pause after the last start of any engine is over.
    next_slot: Option<Instant>,
    /// When to check again what changes without an event: room on the machine, and engines that die.
    next_look: Option<Instant>,
    /// When this engine last started a task.
    last_start: Option<Instant>,
}

impl Standby {
    pub(super) fn new(holds: Holds) -> Self {
        Self {
            holds,
            behind_writes: BTreeSet::new(),
            without_account: BTreeSet::new(),
            unserved: BTreeSet::new(),
            next_account: None,
            next_slot: None,
            next_look: None,
            last_start: None,
        }
    }

    /// Starts a new check.
    pub(super) fn begin(&mut self) {
        self.behind_writes.clear();
        self.without_account.clear();
        self.unserved.clear();
        self.next_account = None;
        self.next_slot = None;
        self.next_look = None;
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

    pub(super) fn is_unserved(&mut self, task: TaskId) {
        self.unserved.insert(task);
    }

    /// Whether this node does not satisfy what the task requires.
    pub(super) fn is_for_others(&self, task: &TaskId) -> bool {
        self.unserved.contains(task)
    }

    /// An engine started a task just now: the next start is possible after `left`.
    pub(super) fn is_staggered(&mut self, left: Duration) {
        self.next_slot = Some(Instant::now() + left);
    }

    /// No event comes when this is over.
    pub(super) fn looks_again(&mut self) {
        self.next_look = Some(Instant::now() + LONGEST_SLEEP);
    }

    /// Whether ready tasks were left unstarted.
    pub(super) fn holds_any(&self) -> bool {
        self.holds.any()
    }

    /// Why ready tasks were left unstarted.
    pub(super) fn held(&self) -> &BTreeMap<TaskId, String> {
        self.holds.all()
    }

    /// Whether this ready task was left unstarted.
    pub(super) fn is_held(&self, task: &TaskId) -> bool {
        self.holds.is_held(task)
    }

    /// Whether a task waits for an account.
    pub(super) fn waits_for_accounts(&self) -> bool {
        !self.without_account.is_empty() || self.next_account.is_some()
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
        self.behind_writes.contains(task)
            || self.without_account.contains(task)
            || self.unserved.contains(task)
    }

    pub(super) fn n_stuck(&self) -> usize {
        self.behind_writes.len() + self.without_account.len() + self.unserved.len()
    }

    /// The rest of the pause after this engine's last start.
    pub(super) fn pause_left(&self, stagger: Option<Duration>) -> Option<Duration> {
        stagger?.checked_sub(self.last_start?.elapsed())
    }

    /// How long until an account is available, a pause is over, or a held task has to be checked again.
    pub(super) fn due_in(&self) -> Option<Duration> {
        let account = self.next_account.map(|at| at.since(clock::now()) + TICK);
        let instants = self.next_slot.into_iter().chain(self.next_look);
        let left = instants.map(|at| at.saturating_duration_since(Instant::now()) + TICK);
        account.into_iter().chain(left).min()
    }

    /// Whether ready tasks have to be checked again by now.
    pub(super) fn is_due(&self) -> bool {
        self.due_in().is_some_and(|left| left <= TICK)
    }
}
