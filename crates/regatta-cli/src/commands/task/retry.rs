//! `regatta task retry`: gives a failed or blocked task back to the board.

use super::held::tell;
use crate::cli::Global;
use crate::crew::{As, open};
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Give a failed or blocked task back to the board. Refused once it has failed as often as it may; `regatta requeue ID`
/// resets its failures.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task, or the beginning of its id.
    #[arg(value_name = "ID")]
    pub(crate) task: String,
    #[command(flatten)]
    pub(crate) who: As,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let task = open(global).await?.give_back(&args.task, &args.who.speaker()).await?;
    Ok(tell(&task, "is pending again", ui))
}
