//! `regatta retry ID…`: tries again where the last attempt stopped.

use regatta_ops::tasks::{Conversation, RetryRequest};

use crate::cli::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::queue::{Which, finish, operator};
use crate::ui::Ui;

/// Try blocked, failed, cancelled, skipped or parked tasks again, in their lanes and with what went wrong as guidance.
///
/// Charged attempts are forgotten; a parked task only stops waiting. Work that conflicted with what landed meanwhile
/// gets a fresh lane, and is saved first. --all is every task that is blocked, failed or skipped. To start over from
/// nothing, see `regatta requeue`. With --fresh the agent keeps the lane and what is in it, but starts a new
/// conversation: the way out where the old one has grown too long or has gone astray.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// Start a new conversation in the same lane instead of resuming the last one.
    #[arg(long)]
    fresh: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let operator = operator(global).await?;
    let conversation = if args.fresh { Conversation::Fresh } else { Conversation::Resume };
    let request = RetryRequest { tasks: args.which.selection(), conversation };
    finish(operator.retry(&request).await?, &operator, true, ui)
}
