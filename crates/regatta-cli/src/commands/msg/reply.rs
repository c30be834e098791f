//! `regatta msg reply`: an answer to whoever wrote.

use regatta_store::{InboxQuery, MessageKind, Recipients};

use super::post::{post, tell, text};
use crate::cli::Global;
use crate::crew::{As, open};
use crate::error::CliError;
use crate::exit::Exit;
use crate::ui::Ui;

/// Answer a message of your inbox.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The message's number.
    #[arg(value_name = "N")]
    pub(crate) message: u64,
    /// What to say; `-` reads it from standard input.
    #[arg(value_name = "TEXT")]
    pub(crate) text: String,
    #[command(flatten)]
    pub(crate) who: As,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let said = text(&args.text)?;
    let (_, store) = open(global).await?;
    let reader = args.who.reader(store.as_ref()).await?;
    let query = InboxQuery { after: args.message.saturating_sub(1), limit: 1, unread: false };
    let found = store.inbox(&reader, &query).await?;
    let Some(message) = found.into_iter().find(|message| message.id == args.message) else {
        return Err(CliError::not_found(format!(
            "there is no message {} in the inbox of {reader}",
            args.message
        ))
        .hinted("`regatta msg inbox --all` shows what there is"));
    };
    let (to, id) = (Recipients::One(message.from), Some(message.id));
    let posted = post(store.as_ref(), &args.who, to, MessageKind::Direct, &said, id).await?;
    Ok(tell(&posted, ui))
}
