//! `regatta ctx`: values that the whole crew shares.

pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod set;
pub(crate) mod watch;

use crate::cli::Global;
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Read and write values that the whole crew shares, each with a version.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum CtxCommand {
    Set(set::Args),
    Get(get::Args),
    Delete(delete::Args),
    #[command(visible_alias = "ls")]
    List(list::Args),
    Watch(watch::Args),
}

pub(crate) async fn run(command: CtxCommand, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    match command {
        CtxCommand::Set(args) => set::run(args, global, ui).await,
        CtxCommand::Get(args) => get::run(args, global, ui).await,
        CtxCommand::Delete(args) => delete::run(args, global, ui).await,
        CtxCommand::List(args) => list::run(args, global, ui).await,
        CtxCommand::Watch(args) => watch::run(args, global, ui).await,
    }
}
