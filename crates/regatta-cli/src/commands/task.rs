//! `regatta task`: the board, for people and agents who take tasks by hand.

mod attach;
pub(crate) mod block;
pub(crate) mod claim;
pub(crate) mod complete;
mod create;
mod destroy;
pub(crate) mod fail;
pub(crate) mod held;
pub(crate) mod list;
mod pull_request;
pub(crate) mod push;
pub(crate) mod retry;
mod send;
mod start;
mod status;
mod wait;
pub(crate) mod watch;

use crate::cli::Global;
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// The board: add tasks for the crew, take them, and hand them in.
///
/// They are the same tasks as everywhere else, but no daemon takes them.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum TaskCommand {
    Push(push::Args),
    Claim(claim::Args),
    Complete(complete::Args),
    Block(block::Args),
    Fail(fail::Args),
    Retry(retry::Args),
    #[command(visible_alias = "ls")]
    List(list::Args),
    Watch(watch::Args),
    Create(create::Args),
    Start(start::Args),
    Send(send::Args),
    Broadcast(send::BroadcastArgs),
    Status(status::Args),
    Attach(attach::Args),
    Wait(wait::Args),
    PrCheck(pull_request::Args),
    Destroy(destroy::Args),
    Cleanup(destroy::CleanupArgs),
}

pub(crate) async fn run(command: TaskCommand, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    match command {
        TaskCommand::Push(args) => push::run(args, global, ui).await,
        TaskCommand::Claim(args) => claim::run(args, global, ui).await,
        TaskCommand::Complete(args) => complete::run(args, global, ui).await,
        TaskCommand::Block(args) => block::run(args, global, ui).await,
        TaskCommand::Fail(args) => fail::run(args, global, ui).await,
        TaskCommand::Retry(args) => retry::run(args, global, ui).await,
        TaskCommand::List(args) => list::run(args, global, ui).await,
        TaskCommand::Watch(args) => watch::run(args, global, ui).await,
        TaskCommand::Create(args) => create::run(args, global, ui).await,
        TaskCommand::Start(args) => start::run(args, global, ui).await,
        TaskCommand::Send(args) => send::run(args, global, ui).await,
        TaskCommand::Broadcast(args) => send::broadcast(args, global, ui).await,
        TaskCommand::Status(args) => status::run(args, global, ui).await,
        TaskCommand::Attach(args) => attach::run(args, global, ui).await,
        TaskCommand::Wait(args) => wait::run(args, global, ui).await,
        TaskCommand::PrCheck(args) => pull_request::run(args, global, ui).await,
        TaskCommand::Destroy(args) => destroy::run(args, global, ui).await,
        TaskCommand::Cleanup(args) => destroy::cleanup(args, global, ui).await,
    }
}
