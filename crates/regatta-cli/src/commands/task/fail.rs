//! `regatta task fail`: reports that a task failed.

use regatta_ops::crew::ReasonRequest;

use super::held::{Held, tell};
use crate::cli::Global;
use crate::crew::open;
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Report that a task you hold failed. One attempt is charged. `regatta task retry ID` gives it back to the board while
/// it has attempts left; until then tasks that depend on it are skipped.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) held: Held,
    /// What went wrong.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let request = ReasonRequest { held: args.held.into(), reason: args.reason };
    let task = open(global).await?.fail(&request).await?;
    Ok(tell(&task, "has failed", ui))
}
