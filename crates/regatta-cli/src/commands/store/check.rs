//! `regatta store check`: verifies everything in the store.

use regatta_ops::Refusal;

use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;

/// Verify everything in the store, and list what must not be.
///
/// Every record is read; states are compared with dependencies, claims with sessions, cars with states, numbers with
/// their counters, and event numbers must have no gaps. Nothing is changed. Exits with 1 if something is wrong.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {}

pub(super) async fn run(project: &Project, _: Args, ui: &Ui) -> Result<Exit, Refusal> {
    let checked = project.check_store().await?;
    let exit = if checked.ok { Exit::Ok } else { Exit::TaskFailed };
    if ui.json {
        ui.document(&checked);
        return Ok(exit);
    }
    for found in &checked.violations {
        ui.line(format!("{}: {}", found.record, found.problem));
    }
    let records = super::counted(&checked.records);
    ui.note(match checked.count {
        0 => format!("no violation in {records}"),
        1 => format!("1 violation in {records}"),
        n => format!("{n} violations in {records}"),
    });
    Ok(exit)
}
