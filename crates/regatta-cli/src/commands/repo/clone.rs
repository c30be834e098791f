//! `regatta repo clone`.

use regatta_core::plain::clean_line;
use regatta_ops::Refusal;
use regatta_ops::documents::{CloneResult, RepoClonedDocument};
use regatta_ops::repos::ProjectRepos;

use crate::exit::Exit;
use crate::ui::Ui;

/// Clone repositories of the project that this machine does not have.
///
/// Each comes from `remote` of its row and gets the place that `path` names. An OWNER/NAME is on the host of the
/// project's own remote, or on github.com. Nothing that exists is changed; where a clone fails, the exit code is 6.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:\n  regatta repo clone --all")]
pub(crate) struct Args {
    /// These repositories.
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,
    /// All repositories that are missing.
    #[arg(long, conflicts_with = "names")]
    all: bool,
}

pub(super) async fn run(args: Args, repos: &ProjectRepos, ui: &Ui) -> Result<Exit, Refusal> {
    let cloned = repos.clone_missing(&args.names).await?;
    if ui.json {
        ui.document(&cloned);
    } else {
        for repo in &cloned {
            show(repo, ui);
        }
    }
    let is_held = cloned.iter().any(|repo| repo.result == CloneResult::Held);
    Ok(if is_held { Exit::Refused } else { Exit::Ok })
}

fn show(repo: &RepoClonedDocument, ui: &Ui) {
    let place = super::place(&repo.path);
    match repo.result {
        CloneResult::There if ui.quiet => {}
        CloneResult::There => ui.line(format!("{}: is at {place} already", repo.name)),
        CloneResult::Cloned => {
            let remote = clean_line(repo.remote.as_deref().unwrap_or_default());
            ui.line(format!("{}: cloned {remote} to {place}", repo.name));
        }
        CloneResult::Held => {
            let why = clean_line(repo.why.as_deref().unwrap_or_default());
            ui.note(format!("{}: not cloned: {why}", repo.name));
        }
    }
}
