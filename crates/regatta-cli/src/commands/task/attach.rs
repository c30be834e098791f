//! `regatta task attach`: how to continue a task's conversation by hand, in any registered repository.

use serde_json::json;

use crate::cli::Global;
use crate::commands::attach::document;
use crate::exit::Exit;
use crate::parallel::registry::Registry;
use crate::parallel::{Repositories, session_name};
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Show the command that continues a task's conversation, as `regatta attach --restore` does. Prints JSON.
///
/// A conversation belongs to its directory: a worktree that is gone is made again, with the task's last commit in it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task.
    #[arg(long, value_name = "ID")]
    task_id: String,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let registry = Registry::load(global)?;
    let repositories = Repositories::open(&registry, global).await?;
    let found = repositories.find(&registry, &args.task_id).await?;
    if found.status(&registry) == "destroyed" {
        return Err(Refusal::not_found(format!("No active task: {}", found.task.spec.id))
            .hinted("it was destroyed; `regatta salvage list` shows its saved work"));
    }
    let project = &found.repository.project;
    let attach = document(project, found.store.clone(), &found.task, true).await?;
    let mut object = serde_json::to_value(&attach).expect("our own values serialise");
    object["session_name"] = json!(session_name(&found.task));
    ui.document(&object);
    Ok(Exit::Ok)
}
