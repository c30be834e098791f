//! What the engine looks at in its next turn, and which event leads to it.
//!
//! A wake-up of the store costs one read of the event log; the kinds of the events decide what else is read. Events of
//! this process come back through the log like those of others, so nothing is looked at twice for them.
//!
//! Invariant: no decision depends on an event that could be missed. Everything is looked at when the engine starts,
//! after the store was unreachable, after a reload, and every [`SAFETY_NET`].
//!
//! | decision | looked at after |
//! |---|---|
//! | which tasks start | an event that makes a task ready: queued, queued again, due, released, retried, re-armed, assigned to a node, or a dependency done or landed; an order to this node, or a change of another |
//! | the same for tasks that a limit, a group or declared writes held back | an event that ends a claim, in any engine; the end of a worker; every few seconds, because an engine that dies writes none |
//! | the same for tasks without an account, behind a pause or a budget | the time at which that ends; for accounts also any change of the store, since they have no events |
//! | timers | `parked`, and `retrying` with a time |
//! | cancels and urgent prompts | `cancel-asked` and `prompt-queued` of a task at work; after an adoption |
//! | chains | any event of one of their tasks |
//! | the train | `approved`; for a round under way also what can remove a car: `cancelled`, `enqueued` |
//! | budgets | usage of an agent; any event that ends a claim |
//! | whether the run is over, or the daemon idle | any of these, the end of a worker, the end of a round |

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::train::LandStep;

use crate::persist::{for_test, times_away};

/// Everything is looked at again after this long.
const SAFETY_NET: Duration = Duration::from_secs(60);
/// Wake-ups that follow each other faster than this are one.
const QUIET: Duration = Duration::from_millis(20);
/// But no event waits for longer than this.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// Reads for wake-ups alone are at least this far apart: most come from this engine's own workers, and what it has to
/// act on at once wakes it by itself.
const SPACING: Duration = Duration::from_millis(100);

/// What an event can lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// No decision depends on it.
    None,
    /// A task may have become ready.
    Ready,
    /// A claim ended: a held task may be able to start.
    Frees,
    /// A claim ended, and its task waits for a time.
    Waits,
    /// The process that works on the task is asked for something.
    Asks,
    /// It was written by a newer version, and can mean anything.
    Any,
}

impl Effect {
    pub(super) fn of(body: &EventBody) -> Self {
        match body {
            EventBody::Enqueued { .. }
            | EventBody::Released { .. }
            | EventBody::Retrying { not_before: None, .. }
            | EventBody::Due
            | EventBody::Done { .. }
            | EventBody::Rearmed
            | EventBody::Adopted { .. }
            | EventBody::Assigned { .. }
            | EventBody::PromptQueued { rearmed: true, .. }
            | EventBody::FollowingUp { .. }
            | EventBody::Stands { .. }
            // What no node could serve, or another one should have.
            | EventBody::NodeJoined { .. }
            | EventBody::NodeLost { .. } => Self::Ready,
            EventBody::Landing { landing, .. } => match landing {
                LandStep::Landed { .. }
                | LandStep::AlreadyIn { .. }
                | LandStep::Merged { .. }
                | LandStep::Bounce { .. } => Self::Ready,
                // Its declared writes are free from then on.
                LandStep::Reject { .. } | LandStep::Proposed { .. } => Self::Frees,
                LandStep::Intend { .. }
                | LandStep::Tested { .. }
                | LandStep::Gate { .. }
                | LandStep::Propose { .. }
                | LandStep::Merge { .. }
                | LandStep::Wait { .. } => Self::None,
            },
            EventBody::Approved { .. }
            | EventBody::Failed { .. }
            | EventBody::Blocked { .. }
            | EventBody::Skipped { .. }
            | EventBody::Cancelled { .. } => Self::Frees,
            EventBody::Retrying { not_before: Some(_), .. } | EventBody::Parked { .. } => Self::Waits,
            EventBody::CancelAsked { .. } | EventBody::PromptQueued { rearmed: false, .. } => Self::Asks,
            EventBody::Unknown(_) => Self::Any,
            EventBody::Claimed { .. }
            | EventBody::LaneReady { .. }
            | EventBody::Started { .. }
            | EventBody::Exited { .. }
            | EventBody::Progressed { .. }
            | EventBody::Reported { .. }
            | EventBody::Stuck { .. }
            | EventBody::Judged { .. }
            | EventBody::ConflictAhead { .. }
            | EventBody::Suspected { .. }
            | EventBody::WentOn { .. }
            | EventBody::BudgetWarned { .. }
            | EventBody::BudgetSpent { .. }
            | EventBody::Salvaged { .. }
            | EventBody::TakenBack { .. }
            | EventBody::Unserved { .. }
            | EventBody::Servable { .. }
            | EventBody::MergeAllowed { .. }
            | EventBody::Noted { .. } => Self::None,
        }
    }
}

/// What the next turn looks at.
pub(super) struct Due {
    /// The event log.
    pub(super) log: bool,
    /// Ready tasks.
    pub(super) ready: bool,
    /// Tasks that wait for a time.
    pub(super) timers: bool,
    /// Requests to cancel or interrupt: of all tasks at work.
    pub(super) all_cancels: bool,
    /// The same of these.
    pub(super) cancels: BTreeSet<TaskId>,
    pub(super) budgets: bool,
    /// Whether anything can still move.
    pub(super) end: bool,
    /// The first and the last wake-up that no read has answered yet.
    woken: Option<(Instant, Instant)>,
    last_read: Option<Instant>,
    last_net: Instant,
    net: Duration,
    /// How often the store had been unreachable at the last look.
    times_away: u64,
    /// Events are shown, and lead to nothing: for tests of the safety net.
    is_deaf: bool,
}

impl Due {
    pub(super) fn everything() -> Self {
        Self {
            log: true,
            ready: true,
            timers: true,
            all_cancels: true,
            cancels: BTreeSet::new(),
            budgets: true,
            end: true,
            woken: None,
            last_read: None,
            last_net: Instant::now(),
            net: for_test("REGATTA_TEST_SAFETY_NET_MS").unwrap_or(SAFETY_NET),
            times_away: times_away(),
            is_deaf: cfg!(debug_assertions) && std::env::var_os("REGATTA_TEST_DEAF").is_some(),
        }
    }

    /// The store may have changed.
    pub(super) fn woken(&mut self, now: Instant) {
        let first = self.woken.map_or(now, |(first, _)| first);
        self.woken = Some((first, now));
    }

    /// The wake-ups so far are answered by a read that begins now.
    pub(super) fn read_log(&mut self) -> bool {
        if self.log {
            (self.woken, self.last_read) = (None, Some(Instant::now()));
        }
        std::mem::take(&mut self.log)
    }

    fn reads_in(&self, now: Instant) -> Option<Duration> {
        let (first, last) = self.woken?;
        let quiet = (first + LONGEST_WAIT).min(last + QUIET);
        let spaced = self.last_read.map_or(quiet, |read| quiet.max(read + SPACING));
        Some(spaced.saturating_duration_since(now))
    }

    /// How long until something is due by the clock; zero if the next turn has something to look at already.
    pub(super) fn due_in(&self, now: Instant) -> Duration {
        if self.log {
            return Duration::ZERO;
        }
        let net = (self.last_net + self.net).saturating_duration_since(now);
        self.reads_in(now).map_or(net, |reads| reads.min(net))
    }

    /// Takes in the time. Returns whether everything has to be looked at.
    pub(super) fn is_net_due(&mut self, now: Instant) -> bool {
        self.log |= self.reads_in(now).is_some_and(|left| left.is_zero());
        let away = times_away();
        let is_due = now >= self.last_net + self.net || away != self.times_away;
        self.times_away = away;
        is_due
    }

    /// Everything is looked at in the next turn.
    pub(super) fn all(&mut self) {
        (self.log, self.ready, self.timers) = (true, true, true);
        (self.all_cancels, self.budgets, self.end) = (true, true, true);
        self.last_net = Instant::now();
    }

    /// An event was read: `is_live` if this engine works on its task, `holds_any` if ready tasks are held back.
    pub(super) fn heard(&mut self, effect: Effect, task: &TaskId, is_live: bool, holds_any: bool) {
        if self.is_deaf {
            return;
        }
        match effect {
            Effect::None => return,
            Effect::Ready => self.ready = true,
            Effect::Frees => self.ready |= holds_any,
            Effect::Waits => {
                self.timers = true;
                self.ready |= holds_any;
            }
            Effect::Asks if is_live => drop(self.cancels.insert(task.clone())),
            Effect::Asks => return,
            Effect::Any => self.all(),
        }
        self.budgets = true;
        self.end = true;
    }

    pub(super) fn is_deaf(&self) -> bool {
        self.is_deaf
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled() -> Due {
        Due {
            log: false,
            ready: false,
            timers: false,
            all_cancels: false,
            budgets: false,
            end: false,
            is_deaf: false,
            net: SAFETY_NET,
            ..Due::everything()
        }
    }

    #[test]
    fn wake_ups_close_together_are_one_read_and_none_waits_for_long() {
        let mut due = settled();
        let begun = Instant::now();
        let at = |millis| begun + Duration::from_millis(millis);
        due.woken(at(0));
        assert_eq!(due.due_in(at(0)), QUIET);
        due.woken(at(15));
        assert!(!due.is_net_due(at(30)) && !due.log, "the second wake-up came meanwhile");
        for millis in (30..100).step_by(10) {
            due.woken(at(millis));
        }
        due.is_net_due(at(99));
        assert!(!due.log);
        due.is_net_due(at(100));
        assert!(due.read_log() && !due.log && due.reads_in(at(101)).is_none());
    }

    #[test]
    fn an_event_leads_to_what_depends_on_it_and_to_nothing_else() {
        let task = TaskId::parse("t").unwrap();
        let after = |body: EventBody, is_live: bool, holds_any: bool| {
            let mut due = settled();
            due.heard(Effect::of(&body), &task, is_live, holds_any);
            (due.ready, due.timers, due.cancels.len(), due.end)
        };
        let noted = || EventBody::Noted { text: "x".into() };
        assert_eq!(after(noted(), true, true), (false, false, 0, false));
        assert_eq!(after(EventBody::Due, false, false), (true, false, 0, true));
        let done = || EventBody::Failed { why: "x".into() };
        assert_eq!(after(done(), false, false), (false, false, 0, true), "nothing waits for its place");
        assert_eq!(after(done(), false, true), (true, false, 0, true));
        let asked = || EventBody::CancelAsked { by: "me".into() };
        assert_eq!(after(asked(), true, false), (false, false, 1, true));
        assert_eq!(after(asked(), false, false), (false, false, 0, false), "another engine's task");
        let newer = EventBody::Unknown(serde_json::Map::new());
        assert_eq!(after(newer, false, false), (true, true, 0, true));
    }

    #[test]
    fn everything_is_looked_at_again_after_a_while() {
        let mut due = settled();
        let now = Instant::now();
        assert!(!due.is_net_due(now + SAFETY_NET / 2));
        assert!(due.is_net_due(now + SAFETY_NET * 2));
        due.all();
        assert!(due.log && due.ready && due.timers && due.all_cancels && due.budgets && due.end);
    }
}
