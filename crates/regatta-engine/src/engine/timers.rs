//! What the engine does by the clock: tasks whose time has come, cancellations, and how long it may sleep.

use std::time::{Duration, Instant};

use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;
use regatta_store::{Operation, RequestId, StoreError, TaskQuery};

use super::{Engine, EngineError, PAGE};
use crate::alarms::Alarms;
use crate::clock;
use crate::persist::until_answered;
use crate::worker::Stop;

/// Longest sleep of the engine: clocks are set, and other processes end, without a wake-up.
pub(super) const LONGEST_SLEEP: Duration = Duration::from_secs(5);
/// The resolution of clocks: one more, and the time has certainly come.
pub(super) const TICK: Duration = Duration::from_millis(1);

/// What is due, and when.
#[derive(Default)]
pub(super) struct Timers {
    /// When waiting tasks may continue.
    alarms: Alarms,
    /// When the first of them is due, by a clock that cannot be set.
    next_alarm: Option<Instant>,
    /// The same by the wall clock.
    next_due: Option<Timestamp>,
}

impl Timers {
    /// How long until a task's time comes, by whichever clock gets there first.
    fn due_in(&self) -> Option<Duration> {
        let alarm = self.next_alarm.map(|at| at.saturating_duration_since(Instant::now()));
        let due = self.next_due.map(|at| at.since(clock::now()));
        alarm.into_iter().chain(due).min()
    }
}

impl Engine {
    /// Ends workers whose tasks were cancelled, or interrupted for an urgent prompt.
    pub(super) async fn obey_cancels(&mut self) -> Result<(), EngineError> {
        let (all, some) = (std::mem::take(&mut self.due.all_cancels), std::mem::take(&mut self.due.cancels));
        let live = self.workers.live().iter();
        let live = live.filter(|(task, live)| (all || some.contains(*task)) && live.stop.borrow().is_none());
        let ids: Vec<TaskId> = live.map(|(task, _)| task.clone()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let query = TaskQuery { ids: Some(ids), ..TaskQuery::default() };
        for record in until_answered(|| self.ctx.services.store.tasks(&query)).await? {
            let Some(live) = self.workers.live().get(&record.spec.id) else { continue };
            if let Some(by) = record.cancel_asked {
                let _ = live.stop.send(Some(Stop::Cancel { by }));
            } else if let Some(by) = record.interrupt_asked {
                let why = format!("interrupted: {by} sent a new message");
                let _ = live.stop.send(Some(Stop::Interrupt { why, now: false }));
            }
        }
        Ok(())
    }

    /// Makes tasks pending again whose time has come. Reads them when one was added, and when the first is due.
    pub(super) async fn ring_timers(&mut self) -> Result<(), EngineError> {
        let rings = self.timers.due_in().is_some_and(|left| left.is_zero());
        if !std::mem::take(&mut self.due.timers) && !rings {
            return Ok(());
        }
        let now = clock::now();
        let store = &self.ctx.services.store;
        let waiting = until_answered(|| store.timers(&self.queue, PAGE)).await?;
        self.timers.alarms.keep(&waiting);
        (self.timers.next_alarm, self.timers.next_due) = (None, None);
        for (task, due) in waiting {
            let mut pause = Duration::ZERO;
            if !self.timers.alarms.knows(&task, due) && due > now {
                pause = due.since(until_answered(|| store.task(&task)).await?.updated_at);
            }
            let tick = Instant::now();
            let left = self.timers.alarms.left(&task, due, pause, now, tick);
            if !left.is_zero() {
                let next = self.timers.next_alarm.map_or(tick + left, |next| next.min(tick + left));
                self.timers.next_alarm = Some(next);
                self.timers.next_due = Some(self.timers.next_due.map_or(due, |next| next.min(due)));
                continue;
            }
            // The event that it is due leads to its start.
            self.due.log = true;
            let request = RequestId::fresh();
            match until_answered(|| store.operate(&task, &Operation::Due, &request, now)).await {
                // It was changed meanwhile; there is nothing left to do.
                Ok(()) | Err(StoreError::Refused(_) | StoreError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// How long to sleep if nothing else wakes the engine.
    pub(super) fn next_timer(&self) -> Duration {
        let radar = self.radar.due_in(&self.ctx, self.workers.len()).filter(|_| self.stopping.is_none());
        let starts = self.stopping.is_none() && !self.failed_fast;
        let times = [
            Some(self.due.due_in(Instant::now())),
            self.timers.due_in().filter(|_| self.stopping.is_none()).map(|left| left + TICK),
            self.trains.due_in(),
            self.following.due_in().filter(|_| self.stopping.is_none()),
            self.standby.due_in().filter(|_| starts),
            radar.map(|left| left + TICK),
            self.budgets.due_in().map(|left| left + TICK),
            self.nodes.due_in().filter(|_| self.stopping.is_none()),
        ];
        times.into_iter().flatten().min().map_or(LONGEST_SLEEP, |next| next.min(LONGEST_SLEEP))
    }
}
