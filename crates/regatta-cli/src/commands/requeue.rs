//! `regatta requeue ID…`: starts tasks over.

use crate::cli::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::queue::{Which, finish, operator};
use crate::ui::Ui;

/// Start tasks over: blocked, failed, cancelled, skipped, done or landed ones are pending again.
///
/// Charged attempts are forgotten, and the next attempt gets a fresh lane: work that is still in the old one is saved
/// first (`regatta salvage list`). Tasks that were skipped because of one come back with it. A task of a run that is
/// over goes to the daemon's queue. --all is every task that is blocked, failed or skipped. To go on in the same lane
/// instead, see `regatta retry`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let operator = operator(global).await?;
    finish(operator.requeue(&args.which.selection()).await?, &operator, true, ui)
}
