//! `regatta store dump`: everything in the store, as lines.

use regatta_ops::Refusal;

use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;

/// Print everything in the store as JSON lines, for a backup or another program.
///
/// The lines are of one moment; daemons and runs may go on. The last line has the number and the hash of all records, so
/// that `regatta store load` notices what was lost or changed. The dump contains your prompts and what agents reported.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {}

pub(super) async fn run(project: &Project, _: Args, ui: &Ui) -> Result<Exit, Refusal> {
    let mut out = std::io::BufWriter::with_capacity(1 << 20, std::io::stdout());
    let records = project.dump_store(&mut out).await?;
    if !ui.quiet && !ui.json {
        ui.note(format!("dumped {}", super::counted(&records)));
    }
    Ok(Exit::Ok)
}
