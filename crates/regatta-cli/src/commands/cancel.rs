//! `regatta cancel ID`: cancels tasks.

use regatta_ops::tasks::CancelRequest;

use crate::cli::Global;
use crate::exit::Exit;
use crate::queue::{Which, finish, operator};
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Cancel tasks. Running agents are stopped, and their work stays in their lanes.
///
/// Everything an agent started is stopped with it. Tasks that depend on a cancelled task are skipped. --all is every
/// task that has not ended, including blocked ones.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// Do not wait until running agents have stopped.
    #[arg(long)]
    no_wait: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let operator = operator(global).await?;
    let request = CancelRequest { tasks: args.which.selection(), wait: !args.no_wait };
    finish(operator.cancel(&request).await?, &operator, false, ui)
}
