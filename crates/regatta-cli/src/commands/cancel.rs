//! `regatta cancel ID`: calls a task off.

use regatta_ops::tasks::CancelRequest;

use crate::cli::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::queue::{Which, finish, operator};
use crate::ui::Ui;

/// Call tasks off. A running agent is ended with everything it started, and its work is kept in its lane.
///
/// What depends on a cancelled task is skipped. --all is every task that has not ended, blocked ones among them.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// Ask running agents' owners and do not wait until they have ended.
    #[arg(long)]
    no_wait: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let operator = operator(global).await?;
    let request = CancelRequest { tasks: args.which.selection(), wait: !args.no_wait };
    finish(operator.cancel(&request).await?, &operator, false, ui)
}
