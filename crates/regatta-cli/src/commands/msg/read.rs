//! `regatta msg read`: shows messages again, and marks them as read.

use super::show::all;
use crate::cli::Global;
use crate::crew::{As, open};
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Show messages of your inbox by number, and mark them as read.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Message numbers.
    #[arg(value_name = "N", required = true)]
    pub(crate) messages: Vec<u64>,
    #[command(flatten)]
    pub(crate) who: As,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let letters = open(global).await?.read(&args.who.speaker(), &args.messages).await?;
    all(&letters.messages, ui);
    letters.shown().await?;
    Ok(Exit::Ok)
}
