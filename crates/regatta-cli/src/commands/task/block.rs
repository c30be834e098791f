//! `regatta task block`: says that a task waits for somebody.

use regatta_core::state::BlockReason;
use regatta_store::{Outcome, Word};

use super::held::{Held, believe, held, record, settle, tell};
use crate::cli::Global;
use crate::crew::open;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ui::Ui;

/// Say that a task you hold cannot go on without somebody's help. Nothing is charged. `regatta task complete` goes on with
/// it, `regatta task claim ID` takes it up again, `regatta task retry ID` gives it back to the board.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) held: Held,
    /// What it waits for.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let (_, store) = open(global).await?;
    let store = store.as_ref();
    let member = args.held.who.member(store).await?;
    let (task, claim) = held(store, &member, &args.held.task).await?;
    believe(store, &claim, args.held.token.as_deref(), Word::Stuck(args.reason.clone())).await?;
    let mut attempt = record(store, &claim).await?;
    attempt.summary.clone_from(&args.reason);
    let outcome = Outcome::Block { reason: BlockReason::NeedsInput, detail: args.reason };
    settle(store, &member, &claim, attempt, outcome).await?;
    tell(store, &task.spec.id, "is blocked", ui).await
}
