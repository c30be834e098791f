//! The account of an attempt: chosen at its start, its limits recorded at its end.

use std::path::Path;

use regatta_core::attempt::Attempt;
use regatta_core::config::AgentKind;
use regatta_core::failure::RateLimit;
use regatta_core::profiles::{Choice, Limited, believed};
use regatta_core::time::Timestamp;
use regatta_store::Step;

use super::{Worker, WorkerError};
use crate::agents::AgentProfile;
use crate::clock;
use crate::judge::Judgement;
use crate::profiles::{Carried, carry, end_of_quota, last_begun, with_profile};
use crate::travel::is_elsewhere;

/// The limit's name for an account that its provider refuses.
const ACCOUNT: &str = "account";
/// The name of a quota that the agent does not name.
const QUOTA: &str = "quota";

/// What an attempt runs with.
pub(super) struct Account {
    /// The agent, with the variables of its profile.
    pub(super) agent: AgentProfile,
    /// Its conversation's id.
    pub(super) session: String,
    /// Whether that conversation already exists.
    pub(super) resume: bool,
    /// What to say about a conversation that could not be copied.
    pub(super) guidance: Option<String>,
}

impl Worker {
    /// Chooses the account for this attempt. The conversation stays where it is, or is copied if possible.
    pub(super) async fn take_account(&mut self, workdir: &Path) -> Result<Account, WorkerError> {
        let ctx = self.ctx.clone();
        let spec = self.claim.spec.clone();
        let plain = ctx.settings.agent(&spec.agent)?;
        // A conversation stays in the clone where it was held.
        let is_here = |attempt: &&Attempt| !is_elsewhere(attempt);
        let before = last_begun(&self.history, &plain.name)
            .filter(is_here)
            .filter(|attempt| attempt.session.is_some())
            .cloned();
        let (over, last) = match before {
            Some(attempt) if attempt.conversation_over => (Some(attempt), None),
            before => (None, before),
        };
        let holder = last.as_ref().and_then(|attempt| attempt.profile.as_deref());
        let choice = ctx.take_account(&spec, holder).await?;
        let profile = match &choice {
            Choice::Unbound => None,
            Choice::Use(name) => ctx.settings.profile(name),
            Choice::Wait { .. } | Choice::SetAside { .. } => {
                return Err(WorkerError::NoAccount { choice, agent: spec.agent.clone() });
            }
        };
        self.record.profile = profile.map(|profile| profile.name.clone());
        if profile.is_some() {
            // Before the agent starts: an engine that adopts it must know whose limits it reports.
            self.advance(Step::Update(self.record.clone())).await?;
        }
        let agent = with_profile(plain, profile);
        let moved = last.as_ref().filter(|last| last.profile != self.record.profile);
        let lost = match moved {
            Some(last) if self.bring_along(last, plain, &agent).await == Carried::Not => Some(last),
            _ => None,
        };
        let was_elsewhere = last_begun(&self.history, &plain.name).is_some_and(is_elsewhere);
        let history = if lost.is_some() || was_elsewhere { &[] } else { &self.history[..] };
        let (session, resume) = ctx.settings.conversation(&agent, workdir, history, &spec.env);
        let over = over.as_ref().map(|over| (over, "ended, and you start with a new conversation"));
        let lost =
            lost.map(|lost| (lost, "ran with another account, and its conversation could not be moved"));
        let guidance = lost.or(over).filter(|_| agent.kind != AgentKind::Command).map(what_was_there);
        Ok(Account { agent, session, resume, guidance })
    }

    /// Copies the conversation of `last` to where the agent now looks for it.
    async fn bring_along(&self, last: &Attempt, plain: &AgentProfile, agent: &AgentProfile) -> Carried {
        let (variable, usual) = match agent.kind {
            AgentKind::Claude => ("CLAUDE_CONFIG_DIR", ".claude"),
            AgentKind::Codex => ("CODEX_HOME", ".codex"),
            _ => return Carried::Not,
        };
        let Some(session) = last.session.clone() else { return Carried::Not };
        let before = last.profile.as_deref().and_then(|name| self.ctx.settings.profile(name));
        if last.profile.is_some() && before.is_none() {
            // The profile is no longer configured, so its directory is unknown.
            return Carried::Not;
        }
        let dir =
            |agent: &AgentProfile| self.ctx.settings.agent_dir(agent, &self.claim.spec.env, variable, usual);
        let (from, to) = (dir(&with_profile(plain, before)), dir(agent));
        if from == to {
            return Carried::There;
        }
        let kind = agent.kind;
        let carried = tokio::task::spawn_blocking(move || carry(kind, &from, &to, &session));
        carried.await.expect("copying does not panic")
    }

    /// Records the limit that the account has reached, and checks what else can be used.
    pub(super) async fn heard_of_account(
        &mut self,
        judgement: &Judgement,
        rejected: Option<&str>,
    ) -> Result<(), WorkerError> {
        let Some(profile) = self.record.profile.clone() else { return Ok(()) };
        let (limit, state, why) = match judgement {
            Judgement::RateLimited { until, limit: RateLimit::Quota, why } => {
                let until = end_of_quota(*until, clock::now());
                (rejected.unwrap_or(QUOTA), Limited::Spent { until }, why)
            }
            Judgement::AccountRefused(why) => (ACCOUNT, Limited::SetAside, why),
            _ => return Ok(()),
        };
        let (ctx, why) = (self.ctx.clone(), self.redact(why));
        ctx.cool(&profile, &self.claim.spec, limit, state, &why).await?;
        self.next = ctx.next_account(&self.claim.spec).await?;
        Ok(())
    }

    /// The account's quota is nearly spent: new work prefers others. Only a preference, so nothing waits for it.
    pub(super) fn strained(&self, limit: String, until: Timestamp) {
        let Some(profile) = self.record.profile.clone() else { return };
        let (until, _) = believed(until, clock::now());
        let (ctx, spec) = (self.ctx.clone(), self.claim.spec.clone());
        tokio::spawn(async move {
            let why = format!("{limit} is nearly spent");
            // Kept separate from the limit itself: this may be written after that is spent.
            let limit = format!("near {limit}");
            let _ = ctx.cool(&profile, &spec, &limit, Limited::Strained { until }, &why).await;
        });
    }
}

/// What the next conversation has to know about the one it replaces.
fn what_was_there((last, how): (&Attempt, &str)) -> String {
    let ended = if last.summary.is_empty() { String::new() } else { format!(" ({})", last.summary) };
    format!(
        "Attempt {} at this task{ended} {how}. Its work is still in this directory: look at it with \
         `git status`, `git diff` and `git log` first, keep what is good, and continue from there.\n",
        last.n
    )
}
