//! `regatta msg`: messages between crew members.

pub(crate) mod ask;
pub(crate) mod broadcast;
pub(crate) mod dismiss;
pub(crate) mod inbox;
pub(crate) mod post;
mod read;
mod reply;
pub(crate) mod send;
pub(crate) mod show;
pub(crate) mod wait;

use crate::cli::Global;
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Send and read messages: to one member, to a task's agent, or to everybody.
///
/// Every member has an inbox. No message is lost, and none is shown as new twice.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum MsgCommand {
    Send(send::Args),
    Broadcast(broadcast::Args),
    Ask(ask::Args),
    Reply(reply::Args),
    Inbox(inbox::Args),
    Wait(wait::Args),
    Read(read::Args),
    Dismiss(dismiss::Args),
}

pub(crate) async fn run(command: MsgCommand, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    match command {
        MsgCommand::Send(args) => send::run(args, global, ui).await,
        MsgCommand::Broadcast(args) => broadcast::run(args, global, ui).await,
        MsgCommand::Ask(args) => ask::run(args, global, ui).await,
        MsgCommand::Reply(args) => reply::run(args, global, ui).await,
        MsgCommand::Inbox(args) => inbox::run(args, global, ui).await,
        MsgCommand::Wait(args) => wait::run(args, global, ui).await,
        MsgCommand::Read(args) => read::run(args, global, ui).await,
        MsgCommand::Dismiss(args) => dismiss::run(args, global, ui).await,
    }
}
