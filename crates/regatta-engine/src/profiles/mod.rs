//! Accounts: which profile an attempt uses, the limits of each, and conversations that move between them.
//!
//! Invariant: facts about an account are in the store before a decision depends on them, so that every process, also a
//! later one, decides alike. The decision itself is `regatta_core::profiles::choose`.

mod carry;
mod notebook;

use std::path::Path;
use std::time::Duration;

use regatta_core::attempt::Attempt;
use regatta_core::config::Profile;
use regatta_core::profiles::{AccountStanding, Choice, Cooling, Limited, choose};
use regatta_core::spec::TaskSpec;
use regatta_core::time::Timestamp;
use regatta_store::{AccountKey, AccountRecord, StoreError};

use crate::agents::AgentProfile;
use crate::clock;
use crate::context::{Context, Settings};
use crate::environment::Environment;
use crate::persist::until_answered;
pub(crate) use carry::{Carried, carry};
pub(crate) use notebook::Notebook;

/// When to retry a quota whose end was not stated.
const QUOTA_RETRY: Duration = Duration::from_secs(30 * 60);
/// Extra time for a limit whose stated end has passed, or is now: its clock and ours differ.
const SHORTEST_QUOTA: Duration = Duration::from_secs(60);

/// The configured profiles with `~` in their values expanded.
pub(crate) fn resolved(profiles: &[Profile], environment: &Environment) -> Vec<Profile> {
    let home = environment.value("HOME").and_then(|home| home.to_str());
    let mut profiles = profiles.to_vec();
    for value in profiles.iter_mut().flat_map(|profile| profile.env.values_mut()) {
        *value = with_home(value, home);
    }
    profiles
}

/// `value` with `~` at its beginning expanded.
pub fn with_home(value: &str, home: Option<&str>) -> String {
    match (value, home) {
        ("~", Some(home)) => home.to_owned(),
        (_, Some(home)) => value.strip_prefix("~/").map_or_else(
            || value.to_owned(),
            |rest| Path::new(home).join(rest).to_string_lossy().into_owned(),
        ),
        (_, None) => value.to_owned(),
    }
}

/// Why a ready task is not started for lack of an account.
pub(crate) struct NoAccount {
    /// The reason for display.
    pub(crate) why: String,
    /// When that ends, if it ends by itself.
    pub(crate) until: Option<Timestamp>,
}

/// The current state of all accounts.
pub(crate) struct Rota(Vec<AccountRecord>);

impl Rota {
    /// Reads it from the store, unless no profile is configured.
    pub(crate) async fn load(ctx: &Context) -> Result<Option<Self>, StoreError> {
        if ctx.settings.profiles.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self(until_answered(|| ctx.services.store.accounts()).await?)))
    }

    /// What the task's next attempt would run with. `holder` has its conversation.
    pub(crate) fn choose(
        &self,
        ctx: &Context,
        spec: &TaskSpec,
        holder: Option<&str>,
        now: Timestamp,
    ) -> Choice {
        let agent = ctx.settings.config.agents.get(&spec.agent).map_or("", |agent| agent.kind.as_str());
        let standing = |profile: &Profile| {
            let known = self
                .0
                .iter()
                .find(|account| account.key.profile == profile.name && account.key.agent == agent);
            known.map_or_else(|| AccountStanding::fresh(&profile.name), AccountRecord::standing)
        };
        let standings: Vec<AccountStanding> = ctx.settings.profiles_for(spec).map(standing).collect();
        choose(&standings, &spec.id, holder, now)
    }

    /// Why the task cannot be started now, if so.
    pub(crate) fn hold(&self, ctx: &Context, spec: &TaskSpec, now: Timestamp) -> Option<NoAccount> {
        let choice = self.choose(ctx, spec, None, now);
        let until = match &choice {
            Choice::Unbound | Choice::Use(_) => return None,
            Choice::Wait { until, .. } => Some(*until),
            Choice::SetAside { .. } => None,
        };
        Some(NoAccount { why: ctx.settings.redact(&describe(&choice, &spec.agent)), until })
    }
}

/// Why no profile can be used, for display.
pub(crate) fn describe(choice: &Choice, agent: &str) -> String {
    match choice {
        Choice::Unbound => format!("no profile is for {agent}"),
        Choice::Use(profile) => format!("profile {profile} can be used"),
        Choice::Wait { profile, until, why } => {
            format!(
                "all profiles for {agent} are cooling down; {profile} is ready at {}: {why}",
                until.in_utc()
            )
        }
        Choice::SetAside { profile, why } => format!(
            "all profiles for {agent} are set aside; {profile}: {why}; \
             fix the account, then `regatta profiles warm {profile}`"
        ),
    }
}

impl Settings {
    /// The profiles that a task's attempts may use, in the user's order. A profile whose variables the task sets itself
    /// is left out: the task has chosen its account.
    pub(crate) fn profiles_for<'a>(&'a self, spec: &'a TaskSpec) -> impl Iterator<Item = &'a Profile> {
        let kind = self.config.agents.get(&spec.agent).map(|agent| agent.kind);
        self.profiles.iter().filter(move |profile| {
            kind.is_some_and(|kind| profile.is_for(&spec.agent, kind))
                && !profile.env.keys().any(|name| spec.env.contains_key(name))
        })
    }

    /// The profile with this name.
    pub(crate) fn profile(&self, name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.name == name)
    }

    fn account(&self, profile: &str, spec: &TaskSpec) -> AccountKey {
        let agent = self.config.agents.get(&spec.agent).map_or("", |agent| agent.kind.as_str());
        AccountKey { profile: profile.to_owned(), agent: agent.to_owned() }
    }
}

impl Context {
    /// Chooses for an attempt that is about to start, and counts its turn: attempts that start at once take different
    /// profiles.
    pub(crate) async fn take_account(
        &self,
        spec: &TaskSpec,
        holder: Option<&str>,
    ) -> Result<Choice, StoreError> {
        let _one_at_a_time = self.memory.choosing.lock().await;
        let Some(rota) = Rota::load(self).await? else { return Ok(Choice::Unbound) };
        let choice = rota.choose(self, spec, holder, clock::now());
        if let Choice::Use(profile) = &choice {
            let account = self.settings.account(profile, spec);
            until_answered(|| self.services.store.take_turn(&account)).await?;
        }
        Ok(choice)
    }

    /// What is left for a task after its account reached a limit.
    pub(crate) async fn next_account(&self, spec: &TaskSpec) -> Result<Choice, StoreError> {
        let rota = Rota::load(self).await?;
        Ok(rota.map_or(Choice::Unbound, |rota| rota.choose(self, spec, None, clock::now())))
    }

    /// Records a limit that an account has reached.
    pub(crate) async fn cool(
        &self,
        profile: &str,
        spec: &TaskSpec,
        limit: &str,
        state: Limited,
        why: &str,
    ) -> Result<(), StoreError> {
        let (account, limit) = (self.settings.account(profile, spec), limit.to_owned());
        let cooling = Cooling { limit, state, why: why.to_owned(), since: clock::now() };
        until_answered(|| self.services.store.cool(&account, &cooling)).await
    }
}

/// Until when a spent quota is not tried again.
pub(crate) fn end_of_quota(stated: Option<Timestamp>, now: Timestamp) -> Timestamp {
    stated.map_or_else(|| now.plus(QUOTA_RETRY), |until| until.max(now.plus(SHORTEST_QUOTA)))
}

/// The attempt whose conversation the next attempt of `agent` would resume.
pub(crate) fn last_begun<'a>(history: &'a [Attempt], agent: &str) -> Option<&'a Attempt> {
    // An attempt that never started has not changed the conversation.
    let ran = |attempt: &&Attempt| attempt.started_at.is_some() || attempt.exit.is_some();
    history.iter().rev().filter(ran).find(|attempt| attempt.agent == agent)
}

/// An agent with the variables of a profile over its own.
pub(crate) fn with_profile(agent: &AgentProfile, profile: Option<&Profile>) -> AgentProfile {
    let mut agent = agent.clone();
    agent.env.extend(profile.into_iter().flat_map(|profile| profile.env.clone()));
    agent
}
