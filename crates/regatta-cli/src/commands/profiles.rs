//! `regatta profiles`: the accounts and their states, and making one available again by hand.

use std::collections::BTreeMap;
use std::time::Duration;

use regatta_core::attempt::Attempt;
use regatta_core::config::Profile;
use regatta_core::profiles::{Readiness, Standing};
use regatta_core::state::{ParkReason, StateName, TaskState};
use regatta_core::time::Timestamp;
use regatta_engine::clock;
use regatta_engine::profiles::with_home;
use regatta_ops::documents::{AccountDocument, ProfileDocument};
use regatta_store::{AccountRecord, Store, TaskQuery};
use serde_json::json;

use super::doctor::is_signed_in;
use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::render::shown::{clean_line, redactor};
use crate::render::text::table;
use crate::ui::Ui;
use regatta_ops::Refusal;

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

/// Show the accounts that agents use, and which of them are cooling down.
///
/// Accounts are configured under `profiles` in regatta.yaml. An account whose quota is used up returns by itself; an
/// account that its provider refused is set aside until `regatta profiles warm NAME`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Action>,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Action {
    /// Use these again at once, whatever limits or errors they have run into.
    Warm {
        /// Names of profiles.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::look(&global.options())?;
    match args.command {
        None => list(&project, ui).await,
        Some(Action::Warm { names }) => warm(&project, &names, ui).await,
    }
}

async fn warm(project: &Project, names: &[String], ui: &Ui) -> Result<Exit, Refusal> {
    let configured: Vec<&str> = project.config.profiles.iter().map(|profile| profile.name.as_str()).collect();
    for name in names {
        if !configured.contains(&name.as_str()) {
            let known = match configured.is_empty() {
                true => "there are none; add them under `profiles` in regatta.yaml".to_owned(),
                false => format!("there are {}", configured.join(", ")),
            };
            return Err(Refusal::not_found(format!("there is no profile {name:?}")).hinted(known));
        }
    }
    let store = project.create_store().await?;
    for name in names {
        store.warm(name).await?;
    }
    let query = TaskQuery { states: vec![StateName::Parked], ..TaskQuery::default() };
    let parked = store.briefs(&query).await?;
    let limited = |state: &TaskState| matches!(state, TaskState::Parked { why: ParkReason::RateLimited, .. });
    let parked: Vec<&str> =
        parked.iter().filter(|brief| limited(&brief.state)).map(|brief| brief.id.as_str()).collect();
    match ui.json {
        true => ui.document(&json!({ "warm": names, "parked": parked })),
        false => ui.line(format!("{} can be used again", names.join(", "))),
    }
    if !parked.is_empty() && !ui.json && !ui.quiet {
        ui.note(format!(
            "parked until a limit ends: {}; `regatta unpark ID…` lets them start now",
            parked.join(", ")
        ));
    }
    Ok(Exit::Ok)
}

async fn list(project: &Project, ui: &Ui) -> Result<Exit, Refusal> {
    let now = clock::now();
    let (accounts, attempts) = match project.has_store() {
        false => (Vec::new(), Vec::new()),
        true => {
            let store = project.store().await?;
            (store.accounts().await?, recent(store.as_ref(), now).await?)
        }
    };
    let profiles = &project.config.profiles;
    let documents: Vec<ProfileDocument> =
        profiles.iter().map(|profile| document(project, profile, &accounts, &attempts, now)).collect();
    if ui.json {
        ui.document(&documents);
        return Ok(Exit::Ok);
    }
    if documents.is_empty() {
        if !ui.quiet {
            ui.note("no profiles are configured: agents use the account they find; see `profiles` in regatta.yaml");
        }
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<String>> = documents.iter().flat_map(rows).collect();
    ui.out(&table(&["PROFILE", "AGENT", "STATE", "USED", "COST", "WHERE"], &rows));
    Ok(Exit::Ok)
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
        let is_narrow = !profile.is_for("", regatta_core::config::AgentKind::Sim);
        if (is_meant || is_narrow) && !kinds.iter().any(|(kind, _)| *kind == agent.kind) {
            kinds.push((agent.kind, agent));
        }
    }
    let accounts = kinds.into_iter().map(|(kind, agent)| {
        let known = accounts
            .iter()
            .find(|account| account.key.profile == profile.name && account.key.agent == kind.as_str());
        let standing = known.map_or_else(|| Standing::fresh(&profile.name), AccountRecord::standing);
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
            cost_usd_24h: attempts.iter().filter(of_kind).filter_map(|attempt| attempt.cost_usd).sum(),
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

fn rows(profile: &ProfileDocument) -> Vec<Vec<String>> {
    let places: Vec<String> = profile
        .variables
        .iter()
        .map(|(name, value)| match value {
            Some(value) => format!("{name}={value}"),
            None => name.clone(),
        })
        .collect();
    let row = |account: &AccountDocument| {
        vec![
            clean_line(&profile.name),
            account.agent.to_owned(),
            clean_line(&standing(account)),
            account.attempts_24h.to_string(),
            format!("${:.2}", account.cost_usd_24h),
            clean_line(&places.join(" ")),
        ]
    };
    profile.accounts.iter().map(row).collect()
}

/// An account's state, in a few words.
fn standing(account: &AccountDocument) -> String {
    let why = account.why.as_deref().unwrap_or_default();
    let until = account.until.map(crate::render::when::moment).unwrap_or_default();
    let word = match account.state {
        "strained" => format!("strained until {until}: {why}"),
        "cooling" => format!("cooling until {until}: {why}"),
        "set-aside" => format!("set aside: {why}"),
        _ if account.signed_in == Some(false) => "ready, no login was found".to_owned(),
        state => state.to_owned(),
    };
    match account.in_use {
        0 => word,
        n => format!("{word} (in use by {n})"),
    }
}
