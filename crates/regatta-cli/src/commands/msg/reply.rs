//! `regatta msg reply`: answers a message.

use regatta_ops::crew::ReplyRequest;
use regatta_ops::door::{SentPost, Tool};

use super::post::{masked, tell, text};
use crate::cli::Global;
use crate::crew::{As, open};
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Answer a message of your inbox.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The message's number.
    #[arg(value_name = "N")]
    pub(crate) message: u64,
    /// The answer; `-` reads it from standard input.
    #[arg(value_name = "TEXT")]
    pub(crate) text: String,
    #[command(flatten)]
    pub(crate) who: As,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    if let Some(door) = args.who.door()? {
        let tool = Tool::Reply { message: args.message, content: masked(&text(&args.text)?) };
        return Ok(tell(&door.ask::<SentPost>(tool)?.into(), ui));
    }
    let request = ReplyRequest { text: text(&args.text)?, from: args.who.speaker(), message: args.message };
    let posted = open(global).await?.reply(request).await?;
    Ok(tell(&posted, ui))
}
