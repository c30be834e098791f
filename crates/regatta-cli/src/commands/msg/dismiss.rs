//! `regatta msg dismiss`: removes messages from the inbox.

use regatta_ops::crew::{MarkRequest, Which};
use regatta_ops::documents::DismissedDocument;
use regatta_ops::door::Tool;
use regatta_store::Mark;

use crate::cli::Global;
use crate::crew::{As, open};
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Remove messages from your inbox.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Message numbers.
    #[arg(value_name = "N", required_unless_present = "read")]
    pub(crate) messages: Vec<u64>,
    /// Every message that has been shown.
    #[arg(long, conflicts_with = "messages")]
    pub(crate) read: bool,
    #[command(flatten)]
    pub(crate) who: As,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let ids: Vec<u64> = match args.who.door()? {
        Some(door) => {
            let messages = (!args.read).then_some(args.messages);
            door.ask(Tool::DismissMessages { messages })?
        }
        None => {
            let which = if args.read { Which::Shown } else { Which::Numbers(args.messages) };
            let request = MarkRequest { who: args.who.speaker(), which, mark: Mark::Dismissed };
            open(global).await?.mark(request).await?
        }
    };
    if ui.json {
        ui.document(&DismissedDocument { dismissed: ids });
    } else if !ui.quiet {
        ui.line(format!("{} dismissed", ids.len()));
    }
    Ok(Exit::Ok)
}
