//! `regatta repo status`.

use regatta_core::plain::clean_line;
use regatta_core::repos::freshness::Freshness;
use regatta_ops::Refusal;
use regatta_ops::documents::RepoStatusDocument;
use regatta_ops::repos::ProjectRepos;

use crate::exit::Exit;
use crate::render::text::table;
use crate::ui::Ui;

/// Compare the target of each repository with the same branch at its remote.
///
/// States: `current`, `behind`, `ahead`, `diverged`, `missing` (no checkout, or no such branch), `unknown` (the remote
/// does not answer within 10 s, or has no such branch) and `no-remote`. Changes no branch.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:\n  regatta repo status api --fetch")]
pub(crate) struct Args {
    /// Only these repositories.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Fetch the commits of the remotes, to count them. Your branches stay as they are.
    #[arg(long)]
    fetch: bool,
}

pub(super) async fn run(args: Args, repos: &ProjectRepos, ui: &Ui) -> Result<Exit, Refusal> {
    let found = repos.status(&args.names, args.fetch).await?;
    if ui.json {
        ui.document(&found);
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<String>> = found.iter().map(row).collect();
    ui.out(&table(&["REPOSITORY", "STATE", "TARGET", "HERE", "REMOTE", "CHANGES"], &rows));
    for repo in &found {
        if let Some(why) = &repo.why {
            ui.note(format!("{}: {}", repo.name, clean_line(why)));
        }
    }
    Ok(Exit::Ok)
}

fn row(repo: &RepoStatusDocument) -> Vec<String> {
    let state = match (repo.state, repo.behind, repo.ahead) {
        (Freshness::Behind, Some(behind), _) => format!("behind by {behind}"),
        (Freshness::Ahead, _, Some(ahead)) => format!("ahead by {ahead}"),
        (Freshness::Diverged, Some(behind), Some(ahead)) => {
            format!("diverged: {behind} behind, {ahead} ahead")
        }
        (state, _, _) => state.to_string(),
    };
    let changes = match repo.dirty {
        Some(true) => "uncommitted",
        Some(false) | None => "-",
    };
    vec![
        repo.name.to_string(),
        state,
        repo.target.clone().unwrap_or_else(|| "-".to_owned()),
        super::short(repo.here.as_ref()),
        super::short(repo.there.as_ref()),
        changes.to_owned(),
    ]
}
