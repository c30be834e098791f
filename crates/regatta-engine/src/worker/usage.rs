//! What an attempt uses: its model, its tokens, its dollars.

use std::path::PathBuf;

use regatta_core::attempt::Evidence;
use regatta_core::budget::Spent;
use regatta_core::config::AgentKind;
use regatta_core::tier::{self, Tier};
use regatta_core::time::Timestamp;

use super::Worker;
use crate::agents::{AgentEvent, Ending};
use crate::clock;
use crate::meter::{Tokens, priced};
use crate::profiles::{Notebook, with_profile};

impl Worker {
    /// The model for this attempt.
    pub(super) fn tier(&self, rounds: u32) -> Tier {
        let Some(agent) = self.ctx.settings.config.agents.get(&self.claim.spec.agent) else {
            return Tier::default();
        };
        let bounced = |evidence: &Evidence| matches!(evidence, Evidence::Bounced { .. });
        let bounces = self.history.iter().filter(|attempt| attempt.evidence.iter().any(bounced)).count();
        let failures = self
            .claim
            .charged
            .saturating_add(u32::try_from(bounces).unwrap_or(u32::MAX))
            .saturating_add(rounds);
        tier::choose(&self.claim.spec, agent, &self.ctx.settings.config.models, failures)
    }

    /// Takes in the agent's reported usage, for the engine to add up.
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
            AgentEvent::Usage { tokens_in, tokens_out, cached, cost_usd }
            | AgentEvent::Result { tokens_in, tokens_out, cached, cost_usd, .. } => {
                let said = Tokens { read: *tokens_in, cached: *cached, written: *tokens_out };
                let used = self.of_this_attempt(said, self.record.session.as_ref());
                let before = self.meter.used();
                let usd = cost_usd.or_else(|| self.price(used)).unwrap_or(before.usd);
                self.meter.set(Spent { usd, tokens: used.sum().max(before.tokens) });
            }
            _ => {}
        }
    }

    /// Reads the usage that codex and gemini write to their conversation file, and print only at the end.
    pub(super) fn look_up(&mut self, kind: AgentKind, notebook: &mut Option<Notebook>) {
        let session = self.record.session.clone();
        if notebook.as_ref().map(Notebook::session) != session.as_deref() {
            let place = self.notebook_place(kind);
            let of =
                |session: String| place.and_then(|(dir, since)| Notebook::of(kind, dir, &session, since));
            *notebook = session.and_then(of);
        }
        let Some(used) = notebook.as_mut().map(Notebook::look).filter(|used| used.sum() > 0) else { return };
        self.count(&AgentEvent::Usage {
            tokens_in: used.read,
            tokens_out: used.written,
            cached: used.cached,
            cost_usd: None,
        });
    }

    /// Where the agent stores its conversations, and from when on they belong to this attempt.
    pub(super) fn notebook_place(&self, kind: AgentKind) -> Option<(PathBuf, Timestamp)> {
        let plain = self.ctx.settings.agent(&self.claim.spec.agent).ok()?;
        let profile = self.record.profile.as_deref().and_then(|name| self.ctx.settings.profile(name));
        let agent = with_profile(plain, profile);
        let dir =
            |variable, usual| self.ctx.settings.agent_dir(&agent, &self.claim.spec.env, variable, usual);
        let dir = match kind {
            AgentKind::Codex => dir("CODEX_HOME", ".codex"),
            AgentKind::Gemini => dir("GEMINI_CLI_HOME", "").join(".gemini"),
            _ => return None,
        };
        Some((dir, self.record.started_at.unwrap_or_else(clock::now)))
    }

    /// The agent's time zone, if one is set.
    pub(super) fn zone(&self) -> Option<String> {
        let plain = self.ctx.settings.agent(&self.claim.spec.agent).ok()?;
        let profile = self.record.profile.as_deref().and_then(|name| self.ctx.settings.profile(name));
        let set = profile.and_then(|profile| profile.env.get("TZ")).or_else(|| plain.env.get("TZ"));
        self.claim.spec.env.get("TZ").or(set).cloned()
    }

    /// Puts the agent's total usage into the record, and reports it to the engine.
    pub(super) fn settle_usage(&mut self, ending: &Ending) {
        let said = Tokens { read: ending.tokens_in, cached: ending.cached, written: ending.tokens_out };
        let used = self.of_this_attempt(said, ending.session.as_ref());
        (self.record.tokens_in, self.record.tokens_out) = (used.read, used.written);
        self.record.tokens_cached = used.cached;
        let reckoned = if ending.cost_usd.is_none() { self.price(used) } else { None };
        self.record.priced = reckoned.is_some();
        self.record.cost_usd = ending.cost_usd.or(reckoned);
        let usd = self.record.cost_usd.unwrap_or_default();
        self.meter.set(Spent { usd, tokens: used.sum() });
        for text in &ending.doubts {
            let told =
                |evidence: &Evidence| matches!(evidence, Evidence::Note { text: known } if known == text);
            if !self.record.evidence.iter().any(told) {
                self.record.evidence.push(Evidence::Note { text: text.clone() });
            }
        }
    }

    /// Dollars for tokens, if the user has set prices.
    fn price(&self, used: Tokens) -> Option<f64> {
        let names = [self.record.model.as_deref(), self.record.model_asked.as_deref()];
        priced(&self.ctx.settings.config.models, names, used)
    }

    /// Tokens of this attempt alone: codex counts those of the whole conversation. Claude's decoder reports what its
    /// process has used, even in a resumed conversation.
    fn of_this_attempt(&self, tokens: Tokens, session: Option<&String>) -> Tokens {
        let is_codex = self
            .ctx
            .settings
            .agent(&self.claim.spec.agent)
            .is_ok_and(|profile| profile.kind == AgentKind::Codex);
        if !is_codex {
            return tokens;
        }
        let before = self.history.iter().filter(|attempt| attempt.session.as_ref() == session);
        before.fold(tokens, |rest, attempt| {
            let (read, written) = (attempt.tokens_in, attempt.tokens_out);
            rest.beyond(Tokens { read, cached: attempt.tokens_cached, written })
        })
    }
}
