//! `regatta msg send`: a message to one.

use regatta_core::crew::MemberName;
use regatta_ops::crew::PostRequest;
use regatta_store::{MessageKind, Recipients};

use super::post::{tell, text};
use crate::cli::Global;
use crate::crew::{As, member_name, open};
use crate::error::CliError;
use crate::exit::Exit;
use crate::ui::Ui;

/// Send a message to a member, or to the agent of a task.
///
/// It is kept until it is read: one who has left finds it on coming back, and an agent is told when its next attempt
/// begins.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The member's name, or the task's id.
    #[arg(value_name = "NAME", value_parser = member_name)]
    pub(crate) to: MemberName,
    /// What to say; `-` reads it from standard input.
    #[arg(value_name = "TEXT")]
    pub(crate) text: String,
    #[command(flatten)]
    pub(crate) who: As,
    /// The message it answers.
    #[arg(long, value_name = "N")]
    pub(crate) reply_to: Option<u64>,
    /// To the agent of a task: it is its next prompt. One that has ended is started again for it, and goes on with its
    /// conversation; see `regatta send`.
    #[arg(long)]
    pub(crate) wake: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let text = text(&args.text)?;
    let (crew, from, reply_to) = (open(global).await?, args.who.speaker(), args.reply_to);
    let posted = match args.wake {
        true => crew.post_awake(from, args.to, text, reply_to).await?,
        false => {
            let (to, kind) = (Recipients::One(args.to), MessageKind::Direct);
            crew.post(PostRequest { from, to, kind, text, reply_to }).await?
        }
    };
    Ok(tell(&posted, ui))
}
