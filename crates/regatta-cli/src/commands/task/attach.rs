//! `regatta task attach`: how to continue a task's conversation by hand, in any registered repository.

use regatta_ops::Refusal;

use crate::cli::Global;
use crate::exit::Exit;
use crate::ui::Ui;

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
    ui.document(&global.parallel().attach(&args.task_id).await?);
    Ok(Exit::Ok)
}
