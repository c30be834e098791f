//! `regatta profiles`: the accounts and their states, and making one available again by hand.

use regatta_core::id::TaskId;
use regatta_ops::documents::{AccountDocument, ProfileDocument, WarmDocument};
use regatta_ops::{Refusal, profiles};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::render::shown::clean_line;
use crate::render::text::table;
use crate::ui::Ui;

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
    let WarmDocument { parked, warm } = profiles::warm(project, names).await?;
    if ui.json {
        ui.document(&WarmDocument { parked, warm });
        return Ok(Exit::Ok);
    }
    ui.line(format!("{} can be used again", warm.join(", ")));
    if !parked.is_empty() && !ui.quiet {
        let parked: Vec<&str> = parked.iter().map(TaskId::as_str).collect();
        ui.note(format!(
            "parked until a limit ends: {}; `regatta unpark ID…` lets them start now",
            parked.join(", ")
        ));
    }
    Ok(Exit::Ok)
}

async fn list(project: &Project, ui: &Ui) -> Result<Exit, Refusal> {
    let documents = profiles::list(project).await?;
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
