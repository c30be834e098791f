//! `regatta task block`: reports that a task needs help.

use regatta_ops::crew::ReasonRequest;

use super::held::{Held, tell};
use crate::cli::Global;
use crate::crew::open;
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Report that a task you hold cannot continue without help. Nothing is charged. `regatta task complete` hands it in
/// after all, `regatta task claim ID` takes it again, and `regatta task retry ID` gives it back to the board.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) held: Held,
    /// What it needs.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let request = ReasonRequest { held: args.held.into(), reason: args.reason };
    let task = open(global).await?.block(&request).await?;
    Ok(tell(&task, "is blocked", ui))
}
