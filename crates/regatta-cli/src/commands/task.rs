//! `regatta task`: the board, for people and agents who take tasks by hand.

pub(crate) mod block;
pub(crate) mod claim;
pub(crate) mod complete;
pub(crate) mod fail;
pub(crate) mod held;
mod lane;
pub(crate) mod list;
pub(crate) mod push;
pub(crate) mod retry;
pub(crate) mod watch;

use crate::cli::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ui::Ui;

/// The board: push tasks, take them, and say what became of them. They are the same tasks as everywhere else, but no
/// daemon takes them.
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
}

pub(crate) async fn run(command: TaskCommand, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    match command {
        TaskCommand::Push(args) => push::run(args, global, ui).await,
        TaskCommand::Claim(args) => claim::run(args, global, ui).await,
        TaskCommand::Complete(args) => complete::run(args, global, ui).await,
        TaskCommand::Block(args) => block::run(args, global, ui).await,
        TaskCommand::Fail(args) => fail::run(args, global, ui).await,
        TaskCommand::Retry(args) => retry::run(args, global, ui).await,
        TaskCommand::List(args) => list::run(args, global, ui).await,
        TaskCommand::Watch(args) => watch::run(args, global, ui).await,
    }
}
