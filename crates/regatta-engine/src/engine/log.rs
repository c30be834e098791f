//! Reads the event log: shows events to observers, and keeps the engine's own data up to date.

use regatta_core::event::{Event, EventBody};
use regatta_core::state::BlockReason;
use regatta_core::train::LandStep;

use super::due::Effect;
use super::{Engine, EngineError};
use crate::notice::Notice;
use crate::persist::until_answered;

/// Number of events read from the store at once.
const EVENTS_AT_ONCE: usize = 512;

/// The engine's position in the log.
pub(super) struct LogPosition {
    /// The last event that the engine has read.
    pub(super) read: u64,
    /// The last event that it has shown to observers.
    shown: u64,
}

impl LogPosition {
    pub(super) fn at(seq: u64) -> Self {
        Self { read: seq, shown: seq }
    }
}

impl Engine {
    /// Reads the events since the last call: shows them, and updates the reservations.
    pub(super) async fn tell_events(&mut self) -> Result<(), EngineError> {
        self.tell_what_waits(false).await?;
        loop {
            let services = &self.ctx.services;
            let events =
                until_answered(|| services.store.events(self.log.read, None, EVENTS_AT_ONCE)).await?;
            let Some(last) = events.last() else { return Ok(()) };
            let is_last = events.len() < EVENTS_AT_ONCE;
            let is_shown = self.log.shown == self.log.read && services.notices.has_room();
            self.log.read = last.seq;
            if is_shown {
                self.log.shown = last.seq;
            }
            for event in events {
                self.note(&event);
                if is_shown {
                    self.ctx.services.tell(Notice::Event(event));
                }
            }
            self.notifier.seen(self.log.read);
            if is_last {
                return Ok(());
            }
        }
    }

    /// Shows events that were left in the store because observers were slow; all of them at the `end`.
    pub(super) async fn tell_what_waits(&mut self, end: bool) -> Result<(), EngineError> {
        let services = &self.ctx.services;
        while self.log.shown < self.log.read && (end || services.notices.has_room()) {
            let events =
                until_answered(|| services.store.events(self.log.shown, None, EVENTS_AT_ONCE)).await?;
            self.log.shown = events.last().map_or(self.log.read, |last| last.seq);
            for event in events {
                // Events that came meanwhile are processed first.
                if event.seq > self.log.read {
                    self.log.shown = self.log.read;
                    break;
                }
                services.tell(Notice::Event(event));
            }
        }
        Ok(())
    }

    fn note(&mut self, event: &Event) {
        if !self.due.is_deaf() {
            self.chains.heard(event);
        }
        let Some(task) = &event.task else { return };
        self.nodes.heard(task, &event.body);
        let is_live = self.workers.live().contains_key(task);
        if is_live && matches!(event.body, EventBody::PromptQueued { .. }) {
            self.ctx.memory.has_follow_up(task);
        }
        match &event.body {
            // The chain continues by itself.
            EventBody::Blocked { reason: BlockReason::Changes, .. } => {
                self.reservations.remove(task);
            }
            EventBody::Failed { .. } | EventBody::Blocked { .. } => {
                let is_ours = self.reservations.remove(task);
                self.failed_fast |= is_ours && self.ctx.settings.options.fail_fast;
            }
            EventBody::Done { .. } | EventBody::Cancelled { .. } => {
                self.reservations.remove(task);
            }
            EventBody::Landing { landing, target } => {
                if let Some(commit) = landing.landed_commit()
                    && target.as_ref().is_none_or(|target| *target == self.ctx.repository.target)
                {
                    self.heard_landed(task, commit);
                }
                // A pull request may stay open for days: others may write the same files meanwhile, if the user agrees.
                let is_proposed = matches!(landing, LandStep::Proposed { .. });
                if landing.is_end() || is_proposed && !self.ctx.settings.config.land.pr.hold_writes {
                    self.radar.stir();
                    self.reservations.remove(task);
                }
            }
            EventBody::Approved { .. } => {
                // Only the specs of its own tasks tell an engine what their cars need.
                match self.reservations.of(task) {
                    Some(spec) => {
                        let attempt = event.attempt.unwrap_or_default();
                        let all_landed = self.ctx.memory.was_on_landed_work(task, attempt);
                        let (_, via) = self.ctx.settings.config.land.way(spec);
                        self.trains.has_car(spec, via, all_landed);
                    }
                    None => self.trains.stir(),
                }
                self.radar.stir();
            }
            EventBody::MergeAllowed { .. } => {
                for yard in self.ctx.all() {
                    yard.memory.pulls.look_now();
                }
                self.trains.look_at_pulls();
            }
            EventBody::Enqueued { .. } | EventBody::PromptQueued { rearmed: true, .. } => {
                self.trains.car_may_have_left();
            }
            _ => {}
        }
        if matches!(event.body, EventBody::Cancelled { .. }) {
            self.trains.car_may_have_left();
        }
        self.due.heard(Effect::of(&event.body), task, is_live, self.standby.holds_any());
    }
}
