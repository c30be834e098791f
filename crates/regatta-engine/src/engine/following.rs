//! The user's branch follows a target at a hub when another machine lands there, in the background. Where machines
//! share the store, the hub is also looked at once a minute and after a reload: people push there, too.

use std::time::Duration;

use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Engine;
use super::timers::TICK;
use crate::landing::local::follow_hub;
use crate::travel::chores;

/// Shortest and longest pause before a branch that could not follow is tried again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What keeps the user's branch up to date with the hub.
pub(super) struct Following {
    task: Option<JoinHandle<bool>>,
    /// Something landed elsewhere, or may have.
    is_due: bool,
    /// When to try again what did not work.
    again: Option<Instant>,
    pause: Duration,
    /// When to look at the hub although nothing landed.
    look: Option<Instant>,
}

impl Following {
    /// Others may have landed something before this engine started.
    pub(super) fn new() -> Self {
        Self { task: None, is_due: true, again: None, pause: FIRST_PAUSE, look: None }
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.task.is_some()
    }

    /// Waits for the end of the current try; forever if there is none.
    pub(super) async fn ended(&mut self) -> bool {
        match &mut self.task {
            Some(task) => task.await.unwrap_or(false),
            None => std::future::pending().await,
        }
    }

    /// The settings were reloaded: they are compared with those at the hub.
    pub(super) fn reloaded(&mut self) {
        self.is_due = true;
    }

    /// Takes in whether the branch has what the hub has.
    pub(super) fn take(&mut self, is_even: bool, is_shared: bool) {
        self.task = None;
        self.look = is_shared.then(|| Instant::now() + chores::interval());
        if is_even {
            (self.again, self.pause) = (None, FIRST_PAUSE);
        } else {
            self.again = Some(Instant::now() + self.pause);
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// How long until the next try.
    pub(super) fn due_in(&self) -> Option<Duration> {
        let next = self.again.into_iter().chain(self.look).min().filter(|_| self.task.is_none())?;
        Some(next.saturating_duration_since(Instant::now()) + TICK)
    }
}

impl Engine {
    /// This commit of a task has landed on our target.
    pub(super) fn heard_landed(&mut self, task: &TaskId, commit: &Oid) {
        if self.ctx.repository.hub.is_none() || self.ctx.memory.train.has_landed(commit) {
            return;
        }
        self.following.is_due = true;
        // Its lane may be here.
        self.ctx.memory.lanes_to_retire().insert(task.clone());
        self.house_is_due = true;
    }

    /// Starts following if there is something to follow and nothing is under way.
    pub(super) fn follow_what_landed(&mut self) {
        if self.ctx.repository.hub.is_none() || self.following.is_under_way() || self.stopping.is_some() {
            return;
        }
        if self.following.again.is_none() && self.ctx.memory.train.is_behind() {
            // The train has tried in vain just now.
            self.following.again = Some(Instant::now() + self.following.pause);
        }
        let is_time = |at: Option<Instant>| at.is_some_and(|at| at <= Instant::now());
        let is_time = is_time(self.following.again) || is_time(self.following.look);
        if std::mem::take(&mut self.following.is_due) || is_time {
            (self.following.again, self.following.look) = (None, None);
            self.following.task = Some(tokio::spawn(follow_hub(self.ctx.clone())));
        }
    }
}
