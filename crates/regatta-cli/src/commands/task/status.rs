//! `regatta task status`: one task, and the last lines of its log.

use regatta_ops::Refusal;

use crate::cli::Global;
use crate::exit::Exit;
use crate::ui::Ui;

/// Show one task of a registered repository, and the last lines of its log. Prints JSON.
///
/// Waiting prompts are delivered by the task's daemon. If the daemon is gone while there is work for it, it is started
/// again, and `reaped` or `drained` say so. `regatta status` shows more.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task.
    #[arg(long, value_name = "ID")]
    task_id: String,
    /// How many lines of its log to show.
    #[arg(long, value_name = "N", default_value_t = 20)]
    tail: usize,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    ui.document(&global.parallel().status(&args.task_id, args.tail).await?);
    Ok(Exit::Ok)
}
