//! `regatta repo pull`.

use regatta_core::plain::clean_line;
use regatta_ops::Refusal;
use regatta_ops::documents::{PullResult, RepoPulledDocument};
use regatta_ops::repos::ProjectRepos;

use crate::exit::Exit;
use crate::ui::Ui;

/// Bring the target of each repository to what its remote has.
///
/// A branch moves only forwards, and its checkouts follow. Where something of yours is in the way (uncommitted changes
/// in the same files, a merge, commits that the remote does not have), nothing is changed, and the exit code is 6.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:\n  regatta repo pull shared")]
pub(crate) struct Args {
    /// Only these repositories.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

pub(super) async fn run(args: Args, repos: &ProjectRepos, ui: &Ui) -> Result<Exit, Refusal> {
    let pulled = repos.pull(&args.names).await?;
    if ui.json {
        ui.document(&pulled);
    } else {
        for repo in &pulled {
            show(repo, ui);
        }
    }
    let is_held = pulled.iter().any(|repo| repo.result == PullResult::Held);
    Ok(if is_held { Exit::Refused } else { Exit::Ok })
}

fn show(repo: &RepoPulledDocument, ui: &Ui) {
    let target = repo.target.as_deref().unwrap_or("its target");
    match repo.result {
        PullResult::Even if ui.quiet => {}
        PullResult::Even => ui.line(format!("{}: {target} has everything that its remote has", repo.name)),
        PullResult::Moved => {
            let (from, to) = (super::short(repo.from.as_ref()), super::short(repo.to.as_ref()));
            ui.line(format!("{}: {target} moved from {from} to {to}", repo.name));
            for file in &repo.kept {
                let file = clean_line(&file.display().to_string());
                ui.note(format!("{}: {file} changed at the last moment; your version is kept", repo.name));
            }
        }
        PullResult::Held => {
            let why = clean_line(repo.why.as_deref().unwrap_or_default());
            ui.note(format!("{}: not pulled: {why}", repo.name));
        }
    }
}
