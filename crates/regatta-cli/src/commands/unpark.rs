//! `regatta unpark ID…`: lets parked tasks start.

use crate::cli::Global;
use crate::exit::Exit;
use crate::queue::{Which, finish, operator};
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Let parked tasks start.
///
/// A pending task that waits after a failure can start at once too. --all is every task that is parked.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let operator = operator(global).await?;
    finish(operator.unpark(&args.which.selection()).await?, &operator, true, ui)
}
