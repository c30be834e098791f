//! The time limits that a worker enforces on its agent: its silence, its life after its last message, and how long its
//! supervisor may take to end it.

use std::path::Path;
use std::time::Duration;

use regatta_core::config::AgentKind;
use regatta_core::exit::Limit;
use tokio::time::Instant;

use crate::agents::AgentEvent;
use crate::process::{OVERDUE, Shim, StopRequest, tree};

/// From the last message of an agent that has reported to its end.
const REPORTED: Duration = Duration::from_secs(5);
/// The same for an agent that has not reported.
const UNREPORTED: Duration = Duration::from_secs(10);
/// opencode has no event for its end: what looks like one may only be the end of a step.
const STEPWISE: Duration = Duration::from_secs(60);
/// Time for the last message of an agent that has reported and exceeded its budget.
const SPARED: Duration = Duration::from_secs(30);
/// Tolerance between the times of a process's output and of the processes it starts.
const LEEWAY: Duration = Duration::from_secs(1);

/// Whether the agent has sent its last message, and what follows if it stays alive: the work is done, and what remains
/// is a task it left in the background, or a hanging process.
pub(super) struct LastWord {
    /// How long it may live after a last message without a report; unlimited if the message alone proves nothing.
    patience: Option<Duration>,
    said: Option<Instant>,
    next_look: Instant,
    is_over: bool,
    pub(super) spared: Option<Instant>,
}

impl LastWord {
    pub(super) fn new(kind: AgentKind) -> Self {
        let patience = match kind {
            // Any program it starts can print the line that ends its turn.
            AgentKind::Codex => None,
            AgentKind::Opencode => Some(STEPWISE),
            _ => Some(UNREPORTED),
        };
        Self { patience, said: None, next_look: Instant::now(), is_over: false, spared: None }
    }

    pub(super) fn heard(&mut self, events: &[AgentEvent]) {
        for event in events {
            match event {
                AgentEvent::Result { .. } => {
                    self.said = Some(Instant::now());
                    self.next_look = Instant::now() + REPORTED;
                }
                // Another turn.
                AgentEvent::Started { .. } | AgentEvent::Text { .. } | AgentEvent::ToolStarted { .. } => {
                    self.said = None;
                }
                AgentEvent::ToolEnded { .. } if self.patience.is_none() => self.said = None,
                _ => {}
            }
        }
    }

    pub(super) fn is_said(&self) -> bool {
        self.said.is_some()
    }

    /// Lets it send its last message although its budget is spent.
    pub(super) fn spare(&mut self) {
        self.spared = Some(Instant::now() + SPARED);
    }

    pub(super) fn is_spared(&self) -> bool {
        self.spared.is_some_and(|until| until > Instant::now())
    }

    /// Resolves when that time is over; never if it does not matter.
    pub(super) async fn no_longer_spared(&self) {
        match self.spared.filter(|_| !self.is_said()) {
            Some(until) if until > Instant::now() => tokio::time::sleep_until(until).await,
            _ => std::future::pending().await,
        }
    }

    /// Resolves when it is time to check whether it lingers.
    pub(super) async fn due(&self) {
        if self.said.is_none() || self.is_over {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep_until(self.next_look).await;
    }

    /// Whether to end what is left of it. A background task may wake an agent that has not reported.
    pub(super) fn is_the_end(&mut self, reported: bool, in_background: bool) -> bool {
        let lives_on = self.said.map_or(Duration::ZERO, |said| said.elapsed());
        let is_late = self.patience.is_some_and(|patience| lives_on >= patience);
        self.is_over = reported || is_late && !in_background;
        self.next_look = Instant::now() + REPORTED;
        self.is_over
    }
}

/// The two limits on silence: to the first output, and between outputs while no tool is open.
pub(super) struct Silence<'a> {
    first: Option<Duration>,
    idle: Option<Duration>,
    since: Instant,
    heard: bool,
    files: [&'a Path; 2],
    /// Their total size at the last check.
    size: u64,
    given_up: bool,
    /// The agent's process, if only the processes below it show whether a tool is running.
    pub(super) tree: Option<u32>,
}

impl<'a> Silence<'a> {
    pub(super) fn new(limits: &regatta_core::spec::TimeLimits, files: [&'a Path; 2]) -> Self {
        Self {
            first: limits.first_output,
            idle: limits.idle,
            since: Instant::now(),
            heard: false,
            files,
            size: 0,
            given_up: false,
            tree: None,
        }
    }

    pub(super) fn broken(&mut self) {
        self.heard = true;
        self.since = Instant::now();
        self.size = self.look().0;
    }

    /// The total size, and the time since the last output.
    fn look(&self) -> (u64, Duration) {
        let found = self.files.iter().filter_map(|file| file.metadata().ok());
        found.fold((0, Duration::MAX), |(size, ago), meta| {
            let written = meta.modified().map(|at| at.elapsed().unwrap_or_default());
            (size + meta.len(), ago.min(written.unwrap_or_default()))
        })
    }

    /// Resolves when one of the limits is exceeded; never while a tool is open, and never twice.
    pub(super) async fn run_out(&mut self, tool_is_open: bool) -> Limit {
        loop {
            let (limit, span) = match (self.heard, self.first, self.idle) {
                (false, Some(span), _) => (Limit::FirstOutput, span),
                (false, None, Some(span)) => (Limit::Idle, span),
                (true, _, Some(span)) if !tool_is_open || self.tree.is_some() => (Limit::Idle, span),
                _ => std::future::pending().await,
            };
            if self.given_up {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep_until(self.since + span).await;
            // Half a line, or one on stderr, is output too; only whole lines of stdout are followed.
            let (size, ago) = self.look();
            if size > self.size {
                self.size = size;
                self.heard = true;
                let last = Instant::now().checked_sub(ago).unwrap_or(self.since);
                self.since = self.since.max(last);
                continue;
            }
            // A process started after the last output is a tool; an older one is a server of the agent's.
            if self
                .tree
                .is_some_and(|agent| tool_is_open && tree::youngest(agent) < self.since.elapsed() + LEEWAY)
            {
                self.since = Instant::now();
                continue;
            }
            self.given_up = true;
            return limit;
        }
    }
}

/// What was requested of the shim, and when it should be done: a shim that is kept stopped does nothing.
pub(super) struct Ending {
    grace: Duration,
    asked: Option<StopRequest>,
    due: Option<Instant>,
}

impl Ending {
    /// Nothing was requested yet; the shim ends the tree by itself after `limit`.
    pub(super) fn new(grace: Duration, limit: Option<Duration>) -> Self {
        let patience = grace.saturating_add(OVERDUE);
        let due = limit.and_then(|limit| Instant::now().checked_add(limit.saturating_add(patience)));
        Self { grace, asked: None, due }
    }

    /// Requests the end. The first reason counts, as for the shim.
    pub(super) fn ask(&mut self, shim: &Shim, request: StopRequest, now: bool) {
        // A shim that is gone has nothing left to stop; `wait` returns the end.
        let _ = if now { shim.kill_now(&request) } else { shim.stop(&request) };
        let grace = if now { Duration::ZERO } else { self.grace };
        let due = Instant::now() + grace.saturating_add(OVERDUE);
        self.due =
            Some(if self.asked.is_some() { self.due.map_or(due, |first| first.min(due)) } else { due });
        self.asked.get_or_insert(request);
    }

    /// Resolves when the tree should have ended long ago.
    pub(super) async fn due(&self) {
        match self.due {
            Some(due) => tokio::time::sleep_until(due).await,
            None => std::future::pending().await,
        }
    }

    pub(super) fn take(&mut self) -> Option<StopRequest> {
        self.due = None;
        self.asked.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_last_word_of_codex_is_believed_only_with_a_report() {
        let result = AgentEvent::Result {
            ok: true,
            text: String::new(),
            turns: None,
            cost_usd: None,
            tokens_in: 0,
            tokens_out: 0,
            cached: 0,
            denials: Vec::new(),
        };
        for (kind, without_report) in [(AgentKind::Claude, true), (AgentKind::Codex, false)] {
            let mut word = LastWord::new(kind);
            word.heard(std::slice::from_ref(&result));
            word.due().await;
            assert!(!word.is_the_end(false, false), "{kind:?}");
            tokio::time::advance(Duration::from_secs(3600)).await;
            assert_eq!(word.is_the_end(false, false), without_report, "{kind:?}");
            assert!(word.is_the_end(true, false), "{kind:?}");
        }
    }
}
