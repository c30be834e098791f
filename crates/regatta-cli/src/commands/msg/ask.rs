//! `regatta msg ask`: asks the whole crew.

use regatta_core::crew::Role;
use regatta_ops::crew::{AskRequest, InboxRequest};
use regatta_ops::door::{SentPost, Tool};
use regatta_store::{Posted, Recipients};

use super::post::{masked, tell, text};
use super::wait::{patience, through_door, until};
use crate::cli::Global;
use crate::commands::crew::register::role;
use crate::crew::{As, open};
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Ask the whole crew for help. Members answer with `regatta msg reply`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The question; `-` reads it from standard input.
    #[arg(value_name = "QUESTION")]
    pub(crate) question: String,
    /// Background needed to answer it.
    #[arg(long, value_name = "TEXT")]
    pub(crate) context: Option<String>,
    #[command(flatten)]
    pub(crate) who: As,
    /// Ask only members with this role.
    #[arg(long, value_name = "ROLE", value_parser = role)]
    pub(crate) role: Option<Role>,
    /// Wait for the first answer and print it.
    #[arg(long)]
    pub(crate) wait: bool,
    /// Wait at most this long: seconds, or 5m, 1h30m.
    #[arg(long, value_name = "S", requires = "wait")]
    pub(crate) timeout: Option<String>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let question = text(&args.question)?;
    let patience = patience(args.timeout.as_deref())?;
    if let Some(door) = args.who.door()? {
        let context = args.context.as_deref().map(masked);
        let tool = Tool::Ask { question: masked(&question), context, role: args.role };
        let posted = Posted::from(door.ask::<SentPost>(tool)?);
        if !args.wait {
            return Ok(tell(&posted, ui));
        }
        return through_door(&door, None, Some(posted.id), patience, false, ui);
    }
    let (crew, from) = (open(global).await?, args.who.speaker());
    // A sender that waits needs an inbox for the answer.
    let reader = if args.wait { Some(crew.reader(&from).await?) } else { None };
    let to = args.role.map_or(Recipients::Everybody, Recipients::Role);
    let posted = crew.ask(AskRequest { from, to, question, context: args.context }).await?;
    match reader {
        None => Ok(tell(&posted, ui)),
        Some(reader) => {
            let inbox = InboxRequest { reply_to: Some(posted.id), ..InboxRequest::new(reader) };
            until(&crew, inbox, patience, false, ui).await
        }
    }
}
