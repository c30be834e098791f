//! What an attempt uses: its model, its tokens, its dollars.

use regatta_core::attempt::Evidence;
use regatta_core::budget::Spent;
use regatta_core::tier::{self, Tier};

use super::Worker;
use crate::agents::{AgentEvent, Ending, Kind};
use crate::meter::priced;

impl Worker {
    /// The model this attempt is started with.
    pub(super) fn tier(&self, rounds: u32) -> Tier {
        let Some(agent) = self.ctx.config.agents.get(&self.claim.spec.agent) else { return Tier::default() };
        let bounced = |evidence: &Evidence| matches!(evidence, Evidence::Bounced { .. });
        let bounces = self.history.iter().filter(|attempt| attempt.evidence.iter().any(bounced)).count();
        let failures = self
            .claim
            .charged
            .saturating_add(u32::try_from(bounces).unwrap_or(u32::MAX))
            .saturating_add(rounds);
        tier::choose(&self.claim.spec, agent, &self.ctx.config.models, failures)
    }

    /// Takes in what the agent said of its use, for the engine to add up.
    pub(super) fn count(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Started { session, model } => {
                if model.is_some() {
                    self.record.model.clone_from(model);
                }
                if session.is_some() {
                    self.record.session.clone_from(session);
                }
            }
            AgentEvent::Usage { tokens_in, tokens_out, cost_usd }
            | AgentEvent::Result { tokens_in, tokens_out, cost_usd, .. } => {
                let (read, written) =
                    self.of_this_attempt((*tokens_in, *tokens_out), self.record.session.as_ref());
                let before = self.meter.used();
                let usd = cost_usd.or_else(|| self.price(read, written)).unwrap_or(before.usd);
                let tokens = read.saturating_add(written).max(before.tokens);
                self.meter.set(Spent { usd, tokens });
            }
            _ => {}
        }
    }

    /// What the agent used in all goes into the record, and to the engine.
    pub(super) fn settle_usage(&mut self, ending: &Ending) {
        let tokens = (ending.tokens_in, ending.tokens_out);
        let (read, written) = self.of_this_attempt(tokens, ending.session.as_ref());
        (self.record.tokens_in, self.record.tokens_out) = (read, written);
        let reckoned = if ending.cost_usd.is_none() { self.price(read, written) } else { None };
        self.record.priced = reckoned.is_some();
        self.record.cost_usd = ending.cost_usd.or(reckoned);
        let usd = self.record.cost_usd.unwrap_or_default();
        self.meter.set(Spent { usd, tokens: read.saturating_add(written) });
    }

    /// Dollars for tokens, where the user says what they cost.
    fn price(&self, tokens_in: u64, tokens_out: u64) -> Option<f64> {
        let names = [self.record.model.as_deref(), self.record.model_asked.as_deref()];
        priced(&self.ctx.config.models, names, tokens_in, tokens_out)
    }

    /// Tokens of this attempt alone: codex counts those of the whole conversation. Claude's dollars and tokens are those
    /// of its process, also where it goes on with a conversation.
    fn of_this_attempt(&self, tokens: (u64, u64), session: Option<&String>) -> (u64, u64) {
        let is_codex =
            self.ctx.agent(&self.claim.spec.agent).is_ok_and(|profile| profile.kind == Kind::Codex);
        if !is_codex {
            return tokens;
        }
        let before = self.history.iter().filter(|attempt| attempt.session.as_ref() == session);
        before.fold(tokens, |(read, written), attempt| {
            (read.saturating_sub(attempt.tokens_in), written.saturating_sub(attempt.tokens_out))
        })
    }
}
