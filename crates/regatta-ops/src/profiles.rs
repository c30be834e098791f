//! The accounts of agents: their states, and making one available again by hand.

use std::collections::BTreeMap;
use std::time::Duration;

use regatta_core::attempt::Attempt;
use regatta_core::config::{AgentKind, Profile};
use regatta_core::profiles::{AccountStanding, Readiness};
use regatta_core::state::{ParkReason, StateName, TaskState};
use regatta_core::time::Timestamp;
use regatta_engine::clock;
use regatta_engine::profiles::with_home;
use regatta_store::{AccountRecord, Store, TaskQuery};

use crate::documents::{AccountDocument, ProfileDocument, WarmDocument};
use crate::logins::is_signed_in;
use crate::project::Project;
use crate::refusal::Refusal;
use crate::secrets::redactor;

/// Variables whose values are paths and not secrets.
const PLACES: [&str; 6] = [
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "GEMINI_CLI_HOME",
    "OPENCODE_CONFIG",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];
/// The time that counts as recent.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// In how many of the most recently changed tasks to look for the attempts of the last day.
const LOOKED_AT: usize = 2000;

/// Makes profiles available again at once, whatever limits or errors they have run into.
pub async fn warm(project: &Project, names: &[String]) -> Result<WarmDocument, Refusal> {
    let configured: Vec<&str> = project.config.profiles.iter().map(|profile| profile.name.as_str()).collect();
    for name in names {
        if !configured.contains(&name.as_str()) {
            let known = if configured.is_empty() {
                "there are none; add them under `profiles` in regatta.yaml".to_owned()
            } else {
                format!("there are {}", configured.join(", "))
            };
            return Err(Refusal::not_found(format!("there is no profile {name:?}")).hinted(known));
        }
    }
    let store = project.store_to_follow().await?;
    for name in names {
        store.warm(name).await?;
    }
    let query = TaskQuery { states: vec![StateName::Parked], ..TaskQuery::default() };
    let parked = store.briefs(&query).await?;
    let limited = |state: &TaskState| matches!(state, TaskState::Parked { why: ParkReason::RateLimited, .. });
    let parked = parked.into_iter().filter(|brief| limited(&brief.state)).map(|brief| brief.id).collect();
    Ok(WarmDocument { parked, warm: names.to_vec() })
}

/// The configured profiles, with the state and the recent use of their accounts.
pub async fn list(project: &Project) -> Result<Vec<ProfileDocument>, Refusal> {
    let now = clock::now();
    let mut accounts = Vec::new();
    let mut attempts = Vec::new();
    if project.has_store() {
        let store = project.store().await?;
        accounts = store.accounts().await?;
        attempts = recent(store.as_ref(), now).await?;
    }
    let profiles = project.config.profiles.iter();
    Ok(profiles.map(|profile| document(project, profile, &accounts, &attempts, now)).collect())
}

/// The last attempts of tasks that changed within the last day.
async fn recent(store: &dyn Store, now: Timestamp) -> Result<Vec<Attempt>, Refusal> {
    let query = TaskQuery { latest: true, limit: LOOKED_AT, ..TaskQuery::default() };
    let mut found = Vec::new();
    for brief in store.briefs(&query).await? {
        if brief.attempts > 0 && now.since(brief.updated_at) < DAY {
            found.extend(store.attempts(&brief.id).await?);
        }
    }
    found.retain(|attempt| {
        attempt.profile.is_some() && attempt.started_at.is_some_and(|at| now.since(at) < DAY)
    });
    Ok(found)
}

fn document(
    project: &Project,
    profile: &Profile,
    accounts: &[AccountRecord],
    attempts: &[Attempt],
    now: Timestamp,
) -> ProfileDocument {
    let config = &project.config;
    let home = std::env::var("HOME").ok();
    let env: BTreeMap<String, String> =
        profile.env.iter().map(|(name, value)| (name.clone(), with_home(value, home.as_deref()))).collect();
    let ours = |attempt: &&Attempt| attempt.profile.as_deref() == Some(&*profile.name);
    let redactor = redactor(config);
    // Agents of one kind share the account.
    let mut kinds = Vec::new();
    for (name, agent) in config.agents.iter().filter(|(name, agent)| profile.is_for(name, agent.kind)) {
        let is_used = accounts
            .iter()
            .any(|account| account.key.profile == profile.name && account.key.agent == agent.kind.as_str());
        // A profile for all agents is shown only with those that matter.
        let is_meant = is_used || !profile.agents.is_empty() || *name == config.default_agent;
        let is_narrow = !profile.is_for("", AgentKind::Sim);
        if (is_meant || is_narrow) && !kinds.iter().any(|(kind, _)| *kind == agent.kind) {
            kinds.push((agent.kind, agent));
        }
    }
    let accounts = kinds.into_iter().map(|(kind, agent)| {
        let known = accounts
            .iter()
            .find(|account| account.key.profile == profile.name && account.key.agent == kind.as_str());
        let standing = known.map_or_else(|| AccountStanding::fresh(&profile.name), AccountRecord::standing);
        let of_kind = |attempt: &&Attempt| {
            ours(attempt) && config.agents.get(&attempt.agent).is_some_and(|agent| agent.kind == kind)
        };
        let (state, cooling, until) = match standing.readiness(now) {
            Readiness::Ready => ("ready", None, None),
            Readiness::Strained(cooling, until) => ("strained", Some(cooling), Some(until)),
            Readiness::Cooling(cooling, until) => ("cooling", Some(cooling), Some(until)),
            Readiness::SetAside(cooling) => ("set-aside", Some(cooling), None),
        };
        let mut with_profile = agent.clone();
        with_profile.env.extend(env.clone());
        AccountDocument {
            agent: kind.as_str(),
            state,
            limit: cooling.map(|cooling| cooling.limit.clone()),
            until,
            why: cooling.map(|cooling| redactor.redact(&cooling.why).into_owned()),
            since: cooling.map(|cooling| cooling.since),
            in_use: attempts.iter().filter(of_kind).filter(|attempt| attempt.ended_at.is_none()).count(),
            attempts_24h: attempts.iter().filter(of_kind).count(),
            cost_usd_24h: attempts.iter().filter(of_kind).filter_map(|attempt| attempt.cost_usd).sum::<f64>()
                + 0.0,
            signed_in: is_signed_in(&with_profile),
        }
    });
    let shown = |(name, value): (&String, &String)| {
        (name.clone(), PLACES.contains(&name.as_str()).then(|| value.clone()))
    };
    ProfileDocument {
        name: profile.name.clone(),
        accounts: accounts.collect(),
        variables: env.iter().map(shown).collect(),
    }
}
