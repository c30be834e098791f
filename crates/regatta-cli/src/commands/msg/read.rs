//! `regatta msg read`: shows messages again, and marks them as read.

use regatta_ops::door::{SentMessage, Tool};
use regatta_store::Message;

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
    if let Some(door) = args.who.door()? {
        let found: Vec<SentMessage> = door.ask(Tool::ReadMessages { messages: args.messages })?;
        all(&found.into_iter().map(Message::from).collect::<Vec<_>>(), ui);
        return Ok(Exit::Ok);
    }
    let letters = open(global).await?.read(&args.who.speaker(), &args.messages).await?;
    all(&letters.messages, ui);
    letters.shown().await?;
    Ok(Exit::Ok)
}
