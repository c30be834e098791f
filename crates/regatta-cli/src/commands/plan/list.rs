//! `regatta plan list`.

use regatta_core::time::counted;
use regatta_ops::plans::first_line;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// List proposals, the oldest first: planning, proposed, approved, rejected or failed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {}

pub(super) async fn run(_args: &Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::look(&global.options())?;
    let documents = project.proposals().await?;
    if ui.json {
        ui.document(&documents);
        return Ok(Exit::Ok);
    }
    for document in &documents {
        let tasks = counted(document.tasks.len(), "task");
        ui.line(format!("{}  {:8}  {tasks:>8}  {}", document.id, document.state, first_line(&document.goal)));
    }
    if documents.is_empty() && !ui.quiet {
        ui.note("there are no proposals; `regatta plan \"GOAL\"` makes one");
    }
    Ok(Exit::Ok)
}
