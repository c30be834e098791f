//! `regatta store`: a whole store, moved, checked, saved and migrated.

mod accept_loss;
mod check;
mod copy;
mod dump;
mod load;
mod migrate;

use regatta_ops::Refusal;
use regatta_ops::documents::RecordsDocument;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;

/// Move, check, save and migrate the store, which holds tasks, events and messages.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum StoreCommand {
    Copy(copy::Args),
    Check(check::Args),
    Dump(dump::Args),
    Load(load::Args),
    Migrate(migrate::Args),
    AcceptLoss(accept_loss::Args),
}

pub(crate) async fn run(command: StoreCommand, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = || Project::look(&global.options());
    match command {
        StoreCommand::Copy(args) => copy::run(args, global, ui).await,
        StoreCommand::Check(args) => check::run(&project()?, args, ui).await,
        StoreCommand::Dump(args) => dump::run(&project()?, args, ui).await,
        StoreCommand::Load(args) => load::run(&Project::open(&global.options())?, args, ui).await,
        StoreCommand::Migrate(args) => migrate::run(&Project::open(&global.options())?, args, ui).await,
        StoreCommand::AcceptLoss(args) => accept_loss::run(&project()?, args, ui).await,
    }
}

/// All records, and those that people count in.
fn counted(records: &[RecordsDocument]) -> String {
    let of = |kind: &str| records.iter().find(|found| found.kind == kind).map_or(0, |found| found.count);
    let all: u64 = records.iter().map(|found| found.count).sum();
    let number = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let (tasks, events) = (number(of("task"), "task"), number(of("event"), "event"));
    format!("{} ({tasks}, {events})", number(all, "record"))
}
