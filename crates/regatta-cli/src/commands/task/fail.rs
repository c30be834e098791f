//! `regatta task fail`: gives a task up.

use regatta_core::failure::FailureClass;
use regatta_core::verdict::Verdict;
use regatta_store::{Outcome, Word};

use super::held::{Held, believe, held, record, settle, tell};
use crate::cli::Global;
use crate::crew::open;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ui::Ui;

/// Say that a task you hold failed. One attempt is charged; `regatta task retry ID` gives it back to the board, as often as
/// attempts are left. What depends on it is skipped until then.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) held: Held,
    /// What went wrong.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let (_, store) = open(global).await?;
    let store = store.as_ref();
    let member = args.held.who.member(store).await?;
    let (task, claim) = held(store, &member, &args.held.task).await?;
    let word = Word::Progress { label: format!("failed: {}", args.reason), detail: None, phase: None };
    believe(store, &claim, args.held.token.as_deref(), word).await?;
    let mut attempt = record(store, &claim).await?;
    attempt.summary.clone_from(&args.reason);
    attempt.verdict = Some(Verdict::Block);
    attempt.class = Some(FailureClass::Work);
    attempt.charged = true;
    settle(store, &member, &claim, attempt, Outcome::Fail { why: args.reason }).await?;
    tell(store, &task.spec.id, "has failed", ui).await
}
