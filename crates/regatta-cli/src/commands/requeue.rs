//! `regatta requeue ID…`: starts tasks over.

use crate::cli::Global;
use crate::exit::Exit;
use crate::queue::{Which, finish, operator};
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Start tasks over in a fresh lane.
///
/// Works for blocked, failed, cancelled, skipped, done and landed tasks. Earlier attempts no longer count. Work left
/// in the old lane is saved first (`regatta salvage list`). Tasks that were skipped because of this one return with
/// it. A task of a run that is over goes to the daemon's queue. --all is every task that is blocked, failed or
/// skipped. To continue in the same lane, use `regatta retry`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let operator = operator(global).await?;
    finish(operator.requeue(&args.which.selection()).await?, &operator, true, ui)
}
