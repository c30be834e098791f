//! `regatta task block`: says that a task waits for somebody.

use regatta_ops::crew::ReasonRequest;

use super::held::{Held, tell};
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
    let request = ReasonRequest { held: args.held.into(), reason: args.reason };
    let task = open(global).await?.block(&request).await?;
    Ok(tell(&task, "is blocked", ui))
}
