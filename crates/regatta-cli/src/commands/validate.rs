//! `regatta validate FILE…`: reports every mistake at once and changes nothing.

use std::path::PathBuf;

use regatta_core::time::counted;
use regatta_ops::Refusal;
use regatta_ops::documents::by_name;
use regatta_ops::taskfiles::validate;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;

/// Check plan and task files, and list every mistake with file, line and column.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Plan files or task files.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Also refuse overlapping writes of tasks that could run at once.
    #[arg(long)]
    pub(crate) strict: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::open_for(&global.options(), &args.files)?;
    let valid = validate(&project, args.files, args.strict)?;
    if ui.json {
        ui.document(&by_name(&valid));
        return Ok(Exit::Ok);
    }
    for warning in project.warnings.iter().chain(&valid.diagnostics) {
        ui.note(warning.to_string());
    }
    ui.line(format!("ok: {}", counted(valid.tasks.len(), "task")));
    Ok(Exit::Ok)
}
