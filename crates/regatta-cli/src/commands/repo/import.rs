//! `regatta repo import`.

use regatta_ops::Refusal;
use regatta_ops::repos::ImportRequest;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::{Project, shown};
use crate::ui::Ui;

/// Add the repositories of parallel-agents' registry to `repos` in regatta.yaml.
///
/// The registry stays as it is; --root names another one. Repositories that the project has already are skipped.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:\n  regatta repo import")]
pub(crate) struct Args {}

pub(super) async fn run(_: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::open(&global.options())?;
    let request = ImportRequest { registry: global.parallel() };
    let added = project.import_repos(&request, &global.options()).await?;
    if ui.json {
        ui.document(&added);
        return Ok(Exit::Ok);
    }
    if !ui.quiet {
        for repo in &added.added {
            ui.line(format!("added {} ({}) to {}", repo.name, repo.path.display(), shown(&added.file)));
        }
    }
    for skipped in &added.skipped {
        ui.note(format!("warning: skipped {}: {}", skipped.name, skipped.why));
    }
    Ok(Exit::Ok)
}
