//! One file per command: its arguments, whose comments are its help, and what it does.

pub(crate) mod demo;
pub(crate) mod events;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod status;
pub(crate) mod summary;
pub(crate) mod validate;
pub(crate) mod worker;

use crate::cli::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ui::Ui;
use worker::ParcelCommand;

/// Everything `regatta` can be asked to do.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Demo(demo::Args),
    Report(report::Args),
    Run(run::Args),
    Validate(validate::Args),
    #[command(visible_alias = "ls")]
    List(list::Args),
    Status(status::Args),
    Summary(summary::Args),
    Logs(logs::Args),
    Events(events::Args),
    Done(worker::DoneArgs),
    Progress(worker::ProgressArgs),
    Stuck(worker::StuckArgs),
    #[command(subcommand)]
    Parcel(worker::ParcelCommand),
}

/// Runs one command.
pub(crate) async fn run(command: Command, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    match command {
        Command::Demo(args) => demo::run(args, global, ui).await,
        Command::Report(args) => report::run(args, global, ui).await,
        Command::Run(args) => run::run(args, global, ui).await,
        Command::Validate(args) => validate::run(args, global, ui).await,
        Command::List(args) => list::run(args, global, ui).await,
        Command::Status(args) => status::run(args, global, ui).await,
        Command::Summary(args) => summary::run(args, global, ui).await,
        Command::Logs(args) => logs::run(args, global, ui).await,
        Command::Events(args) => events::run(args, global, ui).await,
        Command::Done(args) | Command::Parcel(ParcelCommand::Done(args)) => worker::done(args, ui).await,
        Command::Progress(args) | Command::Parcel(ParcelCommand::Progress(args)) => {
            worker::progress(args, ui).await
        }
        Command::Stuck(args) => worker::stuck(args, ui).await,
        Command::Parcel(ParcelCommand::Validate(args)) => validate::run(args, global, ui).await,
    }
}
