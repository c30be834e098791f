//! `regatta msg broadcast`: a message to the whole crew.

use regatta_core::crew::Role;
use regatta_ops::crew::PostRequest;
use regatta_ops::door::{SentPost, Tool};
use regatta_store::{MessageKind, Recipients};

use super::post::{masked, tell, text};
use crate::cli::Global;
use crate::commands::crew::register::role;
use crate::crew::{As, open};
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Send a message to every member and every running agent.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The message; `-` reads it from standard input.
    #[arg(value_name = "TEXT")]
    pub(crate) text: String,
    #[command(flatten)]
    pub(crate) who: As,
    /// Only to members with this role; `agent` is every running agent.
    #[arg(long, value_name = "ROLE", value_parser = role)]
    pub(crate) role: Option<Role>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let text = text(&args.text)?;
    if let Some(door) = args.who.door()? {
        let content = masked(&text);
        let tool = Tool::SendMessage { to: None, role: args.role, content, reply_to: None };
        return Ok(tell(&door.ask::<SentPost>(tool)?.into(), ui));
    }
    let (crew, from, kind) = (open(global).await?, args.who.speaker(), MessageKind::Broadcast);
    let to = args.role.map_or(Recipients::Everybody, Recipients::Role);
    let posted = crew.post(PostRequest { from, to, kind, text, reply_to: None }).await?;
    Ok(tell(&posted, ui))
}
