//! `regatta msg inbox`: your messages.

use regatta_ops::crew::InboxRequest;

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
    let crew = open(global).await?;
    let reader = crew.reader(&args.who.speaker()).await?;
    let letters = crew.inbox(&InboxRequest { all: args.all, ..InboxRequest::new(reader) }).await?;
    all(&letters.messages, ui);
    if letters.messages.is_empty() && !ui.json && !ui.quiet {
        ui.note(if args.all { "no messages" } else { "no new messages; --all shows old ones" });
    }
    if !args.peek {
        letters.shown().await?;
    }
    Ok(Exit::Ok)
}
