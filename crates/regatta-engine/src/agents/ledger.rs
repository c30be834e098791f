//! The running account of an attempt: everything an [`Ending`] needs, folded from the normal form.
//!
//! An agent's usage figures are claims. Programs that it starts can write into its output too, so implausible numbers
//! are not accepted: see [`Ledger::note_all`].

use std::collections::BTreeSet;

use super::decoder::{AgentEnd, Ending};
use super::event::AgentEvent;
use regatta_core::budget::{MOST_TOKENS, is_plausible_usd};
use regatta_core::time::Timestamp;

/// Maximum number of tracked tool calls; an agent that opens more without closing any does not deserve more memory.
const MAX_OPEN: usize = 256;
/// Maximum number of rejected claims reported for one attempt.
const MAX_DOUBTS: usize = 5;

/// Failures that no retry can fix.
const FUTILE: [&str; 3] = ["authentication_failed", "oauth_org_not_allowed", "billing_error"];
/// The first retry may use a renewed login; an agent that announces this one has already tried that.
const FUTILE_RETRY: u32 = 2;

/// The totals of the events so far. Bounded, whatever the agent prints.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) session: Option<String>,
    pub(super) model: Option<String>,
    cost_usd: Option<f64>,
    tokens_in: u64,
    tokens_out: u64,
    cached: u64,
    turns: Option<u32>,
    denials: Vec<String>,
    open: BTreeSet<String>,
    /// The last result: whether it was a success, and its text.
    pub(super) result: Option<(bool, String)>,
    /// The last error, as (kind, message).
    pub(super) error: Option<(String, String)>,
    /// The kind of the retry in progress.
    pub(super) retrying: Option<String>,
    /// Whether that retry is futile.
    pub(super) retries_in_vain: bool,
    /// The account was rejected; with the time at which the limit ends, if known.
    pub(super) rejected: Option<Option<Timestamp>>,
    /// Claims that were not accepted.
    doubts: Vec<String>,
    /// How many of them have been added to the events.
    told: usize,
}

impl Ledger {
    /// Takes in the events from position `first` on. Implausible counts are replaced by the last accepted ones, and
    /// each rejected claim is reported as a warning behind them. Accepted counts never shrink.
    pub(super) fn note_all(&mut self, events: &mut Vec<AgentEvent>, first: usize) {
        for event in &mut events[first..] {
            self.note(event);
        }
        let news = self.doubts[self.told..].to_vec();
        self.told = self.doubts.len();
        for message in news {
            events.push(AgentEvent::Error { kind: "warning".to_owned(), message });
        }
    }

    /// Records a claim that is not accepted. Reported once the events it came with are noted.
    pub(super) fn doubt(&mut self, what: String) {
        if self.doubts.len() < MAX_DOUBTS && !self.doubts.contains(&what) {
            self.doubts.push(what);
        }
    }

    /// The same for dollars.
    pub(super) fn doubt_cost(&mut self, claimed: f64) {
        let said = if claimed.abs() < 1e9 { claimed.to_string() } else { format!("{claimed:e}") };
        self.doubt(format!("the agent reported an implausible cost ({said}); it is ignored"));
    }

    fn note(&mut self, event: &mut AgentEvent) {
        match event {
            AgentEvent::Started { session, model } => {
                self.session = session.clone().or(self.session.take());
                self.model = model.clone().or(self.model.take());
                // A new turn: the result of the last one is no longer final.
                self.result = None;
                self.error = None;
                self.answered();
            }
            AgentEvent::Text { .. } => self.answered(),
            AgentEvent::ToolStarted { id, .. } => {
                self.answered();
                if self.open.len() < MAX_OPEN {
                    self.open.insert(id.clone());
                }
            }
            AgentEvent::ToolEnded { id, .. } => {
                self.open.remove(id);
            }
            AgentEvent::Usage { tokens_in, tokens_out, cached, cost_usd } => {
                self.count([tokens_in, tokens_out, cached], cost_usd);
            }
            AgentEvent::Retrying { kind, attempt, .. } => {
                self.retrying = Some(kind.clone());
                self.retries_in_vain = *attempt >= FUTILE_RETRY && FUTILE.contains(&kind.as_str());
            }
            AgentEvent::Limit { status, resets_at, .. } => {
                self.rejected = (status == "rejected").then_some(*resets_at);
            }
            AgentEvent::Error { kind, message } => self.error = Some((kind.clone(), message.clone())),
            AgentEvent::Result { ok, text, turns, cost_usd, tokens_in, tokens_out, cached, denials } => {
                self.count([tokens_in, tokens_out, cached], cost_usd);
                self.turns = turns.or(self.turns);
                self.denials.clone_from(denials);
                self.result = Some((*ok, text.clone()));
                // An attempt interrupted in the middle of a retry has a result too; the reason for the retry still
                // counts.
                if *ok {
                    self.answered();
                }
                self.open.clear();
            }
            AgentEvent::File { .. } | AgentEvent::Denied { .. } | AgentEvent::Unknown { .. } => {}
        }
    }

    /// Counts plausible claims, and replaces the others by the accepted counts.
    fn count(&mut self, tokens: [&mut u64; 3], cost_usd: &mut Option<f64>) {
        let [read, written, cached] = tokens;
        for (claimed, known) in
            [(read, &mut self.tokens_in), (written, &mut self.tokens_out), (cached, &mut self.cached)]
        {
            if *claimed > MOST_TOKENS {
                let what =
                    format!("the agent reported an implausible number of tokens ({claimed}); it is ignored");
                if self.doubts.len() < MAX_DOUBTS && !self.doubts.contains(&what) {
                    self.doubts.push(what);
                }
                *claimed = *known;
            }
            *known = (*known).max(*claimed);
            *claimed = *known;
        }
        self.cached = self.cached.min(self.tokens_in);
        if let Some(claimed) = *cost_usd {
            if is_plausible_usd(claimed, self.tokens_in.saturating_add(self.tokens_out)) {
                self.cost_usd = Some(self.cost_usd.unwrap_or(0.0).max(claimed));
            } else {
                self.doubt_cost(claimed);
            }
        }
        *cost_usd = self.cost_usd;
    }

    fn answered(&mut self) {
        self.retrying = None;
        self.retries_in_vain = false;
    }

    pub(super) fn tokens(&self) -> (u64, u64) {
        (self.tokens_in, self.tokens_out)
    }

    pub(super) fn cached(&self) -> u64 {
        self.cached
    }

    pub(super) fn is_open(&self, tool: &str) -> bool {
        self.open.contains(tool)
    }

    pub(super) fn open_tools(&self) -> usize {
        self.open.len()
    }

    pub(super) fn ending(&self, end: AgentEnd) -> Ending {
        Ending {
            end,
            session: self.session.clone(),
            model: self.model.clone(),
            cost_usd: self.cost_usd,
            tokens_in: self.tokens_in,
            tokens_out: self.tokens_out,
            cached: self.cached,
            turns: self.turns,
            result_text: self.result.as_ref().map(|(_, text)| text.clone()).filter(|text| !text.is_empty()),
            denials: self.denials.clone(),
            sandbox: None,
            doubts: self.doubts.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(tokens_in: u64, cost_usd: Option<f64>) -> AgentEvent {
        AgentEvent::Usage { tokens_in, tokens_out: 0, cached: 0, cost_usd }
    }

    #[test]
    fn what_cannot_be_is_not_counted_and_what_was_counted_stays() {
        let mut ledger = Ledger::default();
        let mut events = vec![usage(1000, Some(0.5))];
        ledger.note_all(&mut events, 0);
        assert_eq!(events.len(), 1);
        for (tokens, cost) in [(u64::MAX, -500.0), (0, f64::INFINITY), (0, 1e308), (0, 999.0), (0, 0.4)] {
            let mut events = vec![usage(tokens, Some(cost))];
            ledger.note_all(&mut events, 0);
            assert_eq!(events[0], usage(1000, Some(0.5)), "{tokens} {cost}");
            assert_eq!(events.len() > 1, cost != 0.4, "{events:?}");
        }
        let ending = ledger.ending(AgentEnd::Success);
        assert_eq!((ending.tokens_in, ending.cost_usd, ending.doubts.len()), (1000, Some(0.5), MAX_DOUBTS));
        assert_eq!(ending.doubts[1], "the agent reported an implausible cost (-500); it is ignored");
    }
}
