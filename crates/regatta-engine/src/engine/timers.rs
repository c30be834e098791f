//! What the engine does by the clock: tasks whose time has come, cancellations, and how long it may sleep.

use std::time::{Duration, Instant};

use regatta_store::{Operation, RequestId, StoreError};

use super::{Engine, EngineError, PAGE};
use crate::alarms::Alarms;
use crate::clock;
use crate::persist::until_answered;
use crate::worker::Stop;

/// Longest sleep of the engine: a wake-up from the store is only a hint.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);
/// Interval between two checks for cancellations.
const CANCEL_INTERVAL: Duration = Duration::from_millis(100);
/// The resolution of clocks: one more, and the time has certainly come.
pub(super) const TICK: Duration = Duration::from_millis(1);

/// What is due, and when.
#[derive(Default)]
pub(super) struct Timers {
    /// When waiting tasks may continue.
    alarms: Alarms,
    /// The time until the next of them at the last check.
    next_alarm: Option<Duration>,
    cancels_looked_at: Option<Instant>,
    /// A check for cancellations was postponed.
    cancels_are_due: bool,
}

impl Timers {
    /// How long until the next check for cancellations; `None` if it is due.
    fn cancels_in(&self) -> Option<Duration> {
        CANCEL_INTERVAL.checked_sub(self.cancels_looked_at?.elapsed()).filter(|left| !left.is_zero())
    }
}

impl Engine {
    /// Ends workers whose tasks were cancelled, or interrupted for an urgent prompt. Checks at most ten times a second:
    /// each check reads every live task, and each step of each worker wakes the engine.
    pub(super) async fn obey_cancels(&mut self) -> Result<(), EngineError> {
        self.timers.cancels_are_due = self.timers.cancels_in().is_some();
        if self.timers.cancels_are_due {
            return Ok(());
        }
        self.timers.cancels_looked_at = Some(Instant::now());
        for (task, live) in self.workers.live() {
            if live.stop.borrow().is_some() {
                continue;
            }
            let record = until_answered(|| self.ctx.services.store.task(task)).await?;
            if let Some(by) = record.cancel_asked {
                let _ = live.stop.send(Some(Stop::Cancel { by }));
            } else if let Some(by) = record.interrupt_asked {
                let why = format!("interrupted: {by} sent a new message");
                let _ = live.stop.send(Some(Stop::Interrupt { why, now: false }));
            }
        }
        Ok(())
    }

    /// Makes tasks pending again whose time has come.
    pub(super) async fn ring_timers(&mut self) -> Result<(), EngineError> {
        let now = clock::now();
        let store = &self.ctx.services.store;
        let waiting = until_answered(|| store.timers(&self.queue, PAGE)).await?;
        self.timers.alarms.keep(&waiting);
        self.timers.next_alarm = None;
        for (task, due) in waiting {
            let mut pause = Duration::ZERO;
            if !self.timers.alarms.knows(&task, due) && due > now {
                pause = due.since(until_answered(|| store.task(&task)).await?.updated_at);
            }
            let left = self.timers.alarms.left(&task, due, pause, now, Instant::now());
            if !left.is_zero() {
                let next = self.timers.next_alarm.map_or(left, |next| next.min(left));
                self.timers.next_alarm = Some(next);
                continue;
            }
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
    pub(super) async fn next_timer(&self) -> Result<Duration, EngineError> {
        let timers = until_answered(|| self.ctx.services.store.timers(&self.queue, 1)).await?;
        let due = timers.first().map(|(_, due)| due.since(clock::now()).max(TICK));
        let alarm = self.timers.next_alarm.map(|left| left.max(TICK));
        let pause = self.standby.pause_left(self.ctx.settings.config.limits.stagger);
        let radar = self.radar.due_in(&self.ctx, self.workers.len()).filter(|_| self.stopping.is_none());
        let cancels = self.timers.cancels_are_due.then(|| self.timers.cancels_in().unwrap_or_default());
        let starts = self.stopping.is_none() && !self.failed_fast;
        let times = [
            due,
            alarm,
            self.train.due_in(),
            pause.map(|left| left + TICK),
            self.standby.due_in().filter(|_| starts),
            cancels.map(|left| left + TICK),
            radar.map(|left| left + TICK),
            self.budgets.due_in().map(|left| left + TICK),
        ];
        Ok(times.into_iter().flatten().min().map_or(LONGEST_SLEEP, |next| next.min(LONGEST_SLEEP)))
    }
}
