//! `regatta msg inbox`: your messages.

use regatta_ops::crew::InboxRequest;
use regatta_ops::door::{SentMessage, Tool};
use regatta_store::Message;

use super::show::all;
use crate::cli::Global;
use crate::crew::{As, open};
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Show new messages, each once. With --all, also those that were shown and not dismissed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) who: As,
    /// Include messages that were shown before.
    #[arg(long)]
    pub(crate) all: bool,
    /// Do not mark new messages as shown.
    #[arg(long)]
    pub(crate) peek: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    if let Some(door) = args.who.door()? {
        let found: Vec<SentMessage> = door.ask(Tool::PollMessages { all: args.all, peek: args.peek })?;
        show(&found.into_iter().map(Message::from).collect::<Vec<_>>(), &args, ui);
        return Ok(Exit::Ok);
    }
    let crew = open(global).await?;
    let reader = crew.reader(&args.who.speaker()).await?;
    let letters = crew.inbox(&InboxRequest { all: args.all, ..InboxRequest::new(reader) }).await?;
    show(&letters.messages, &args, ui);
    if !args.peek {
        letters.shown().await?;
    }
    Ok(Exit::Ok)
}

fn show(messages: &[Message], args: &Args, ui: &Ui) {
    all(messages, ui);
    if messages.is_empty() && !ui.json && !ui.quiet {
        ui.note(if args.all { "no messages" } else { "no new messages; --all shows old ones" });
    }
}
