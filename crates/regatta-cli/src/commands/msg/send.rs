//! `regatta msg send`: a message to one member or agent.

use regatta_core::crew::MemberName;
use regatta_ops::crew::PostRequest;
use regatta_ops::door::{SentPost, Tool};
use regatta_store::{MessageKind, Recipients};

use super::post::{masked, tell, text};
use crate::cli::Global;
use crate::crew::{As, member_name, open};
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Send a message to a member, or to the agent of a task.
///
/// It is kept until it is read: a member who has left finds it on coming back, and an agent gets it when its next
/// attempt starts.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The member's name, or the task's id.
    #[arg(value_name = "NAME", value_parser = member_name)]
    pub(crate) to: MemberName,
    /// The message; `-` reads it from standard input.
    #[arg(value_name = "TEXT")]
    pub(crate) text: String,
    #[command(flatten)]
    pub(crate) who: As,
    /// The number of the message it answers.
    #[arg(long, value_name = "N")]
    pub(crate) reply_to: Option<u64>,
    /// For the agent of a task: make it the next prompt. An agent that has ended is started again and continues its
    /// conversation; see `regatta send`.
    #[arg(long)]
    pub(crate) wake: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let text = text(&args.text)?;
    if let Some(door) = args.who.door()? {
        if args.wake {
            return Err(Refusal::refused("the agent of a task cannot start another")
                .hinted("without --wake the message goes to its inbox"));
        }
        let (to, reply_to) = (Some(args.to), args.reply_to);
        let posted: SentPost =
            door.ask(Tool::SendMessage { to, role: None, content: masked(&text), reply_to })?;
        return Ok(tell(&posted.into(), ui));
    }
    let (crew, from, reply_to) = (open(global).await?, args.who.speaker(), args.reply_to);
    let posted = if args.wake {
        crew.post_awake(from, args.to, text, reply_to).await?
    } else {
        let (to, kind) = (Recipients::One(args.to), MessageKind::Direct);
        crew.post(PostRequest { from, to, kind, text, reply_to }).await?
    };
    Ok(tell(&posted, ui))
}
