//! `regatta msg read`: shows messages again, and marks them as read.

use regatta_ops::documents::crew::MessageDocument;
use regatta_store::InboxQuery;

use super::show::{line, shown};
use crate::cli::Global;
use crate::crew::{As, open};
use crate::error::CliError;
use crate::exit::Exit;
use crate::ui::Ui;

/// Show messages of your inbox by their numbers; they are not new any more afterwards.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Their numbers.
    #[arg(value_name = "N", required = true)]
    pub(crate) messages: Vec<u64>,
    #[command(flatten)]
    pub(crate) who: As,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let (_, store) = open(global).await?;
    let reader = args.who.reader(store.as_ref()).await?;
    let mut messages = store.inbox(&reader, &InboxQuery::default()).await?;
    if let Some(id) = args.messages.iter().find(|id| !messages.iter().any(|message| message.id == **id)) {
        return Err(CliError::not_found(format!("there is no message {id} in the inbox of {reader}"))
            .hinted("`regatta msg inbox --all` shows what there is"));
    }
    messages.retain(|message| args.messages.contains(&message.id));
    match ui.json {
        true => ui.document(&messages.iter().map(MessageDocument::from).collect::<Vec<_>>()),
        false => messages.iter().for_each(|message| line(message, ui)),
    }
    shown(store.as_ref(), &reader, &messages).await?;
    Ok(Exit::Ok)
}
