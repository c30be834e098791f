//! `regatta retry ID…`: continues where the last attempt stopped.

use regatta_ops::tasks::{Conversation, RetryRequest};

use crate::cli::Global;
use crate::exit::Exit;
use crate::queue::{Which, finish, operator};
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Try tasks again in their lanes, with the last failure as guidance.
///
/// Works for blocked, failed, cancelled, skipped and parked tasks. Earlier attempts no longer count; a parked task
/// only stops waiting. Work that conflicts with what landed since gets a fresh lane, and is saved first. --all is
/// every task that is blocked, failed or skipped. With --fresh the agent keeps the lane and its content but starts a
/// new conversation, for example after the old one grew too long. To start over from nothing, use `regatta requeue`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// Start a new conversation in the same lane instead of resuming the last one.
    #[arg(long)]
    fresh: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let operator = operator(global).await?;
    let conversation = if args.fresh { Conversation::Fresh } else { Conversation::Resume };
    let request = RetryRequest { tasks: args.which.selection(), conversation };
    finish(operator.retry(&request).await?, &operator, true, ui)
}
