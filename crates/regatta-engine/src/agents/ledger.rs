//! The running account of an attempt: everything an [`Ending`] needs, folded from the normal form.

use std::collections::BTreeSet;

use super::decoder::{AgentEnd, Ending};
use super::event::AgentEvent;
use regatta_core::time::Timestamp;

/// Tool calls tracked at once; an agent that opens more without closing any is not worth more memory.
const MAX_OPEN: usize = 256;

/// Failures that no repetition mends.
const FUTILE: [&str; 3] = ["authentication_failed", "oauth_org_not_allowed", "billing_error"];
/// The first repetition may come with a login that was renewed in between; who announces this one has tried that.
const FUTILE_RETRY: u32 = 2;

/// What the events so far add up to. Bounded, whatever comes.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) session: Option<String>,
    pub(super) model: Option<String>,
    cost_usd: Option<f64>,
    tokens_in: u64,
    tokens_out: u64,
    turns: Option<u32>,
    denials: Vec<String>,
    open: BTreeSet<String>,
    /// The last result: whether it was good, and its words.
    pub(super) result: Option<(bool, String)>,
    /// The last error, as (kind, message).
    pub(super) error: Option<(String, String)>,
    /// The kind of the retry that the agent is in the middle of.
    pub(super) retrying: Option<String>,
    /// That retry cannot help.
    pub(super) retries_in_vain: bool,
    /// The account was turned away; with the time from which it is not.
    pub(super) rejected: Option<Option<Timestamp>>,
}

impl Ledger {
    pub(super) fn note_all(&mut self, events: &[AgentEvent]) {
        events.iter().for_each(|event| self.note(event));
    }

    pub(super) fn note(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Started { session, model } => {
                self.session = session.clone().or(self.session.take());
                self.model = model.clone().or(self.model.take());
                // A new turn: whatever the last one ended with is no longer the last word.
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
            AgentEvent::Usage { tokens_in, tokens_out, cost_usd } => {
                self.tokens_in = self.tokens_in.max(*tokens_in);
                self.tokens_out = self.tokens_out.max(*tokens_out);
                self.cost_usd = cost_usd.or(self.cost_usd);
            }
            AgentEvent::Retrying { kind, attempt, .. } => {
                self.retrying = Some(kind.clone());
                self.retries_in_vain = *attempt >= FUTILE_RETRY && FUTILE.contains(&kind.as_str());
            }
            AgentEvent::Limit { status, resets_at, .. } => {
                self.rejected = (status == "rejected").then_some(*resets_at);
            }
            AgentEvent::Error { kind, message } => self.error = Some((kind.clone(), message.clone())),
            AgentEvent::Result { ok, text, turns, cost_usd, tokens_in, tokens_out, denials } => {
                // The agent's own sum replaces what was counted on the way.
                if *tokens_in + *tokens_out > 0 {
                    (self.tokens_in, self.tokens_out) = (*tokens_in, *tokens_out);
                }
                self.cost_usd = cost_usd.or(self.cost_usd);
                self.turns = turns.or(self.turns);
                self.denials.clone_from(denials);
                self.result = Some((*ok, text.clone()));
                // One that was broken off in the middle of a retry has a result too; why it retried still counts.
                if *ok {
                    self.answered();
                }
                self.open.clear();
            }
            AgentEvent::File { .. } | AgentEvent::Denied { .. } | AgentEvent::Unknown { .. } => {}
        }
    }

    fn answered(&mut self) {
        self.retrying = None;
        self.retries_in_vain = false;
    }

    pub(super) fn tokens(&self) -> (u64, u64) {
        (self.tokens_in, self.tokens_out)
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
            turns: self.turns,
            result_text: self.result.as_ref().map(|(_, text)| text.clone()).filter(|text| !text.is_empty()),
            denials: self.denials.clone(),
        }
    }
}
