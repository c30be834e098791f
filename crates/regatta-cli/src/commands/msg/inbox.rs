//! `regatta msg inbox`: what was written to you.

use regatta_ops::documents::crew::MessageDocument;
use regatta_store::InboxQuery;

use super::show::{line, shown, turn};
use crate::cli::Global;
use crate::crew::{As, open};
use crate::error::CliError;
use crate::exit::Exit;
use crate::ui::Ui;

/// Show new messages, each once. With --all, also those that were shown and not dismissed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) who: As,
    /// Those that were shown before, too.
    #[arg(long)]
    pub(crate) all: bool,
    /// Leave new ones new.
    #[arg(long)]
    pub(crate) peek: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let (project, store) = open(global).await?;
    let reader = args.who.reader(store.as_ref()).await?;
    let _turn = turn(&project, &reader).await?;
    let query = InboxQuery { unread: !args.all, ..InboxQuery::default() };
    let messages = store.inbox(&reader, &query).await?;
    if ui.json {
        ui.document(&messages.iter().map(MessageDocument::from).collect::<Vec<_>>());
    } else {
        messages.iter().for_each(|message| line(message, ui));
        if messages.is_empty() && !ui.quiet {
            ui.note(if args.all { "no messages" } else { "no new messages; --all shows the others" });
        }
    }
    if !args.peek {
        shown(store.as_ref(), &reader, &messages).await?;
    }
    Ok(Exit::Ok)
}
