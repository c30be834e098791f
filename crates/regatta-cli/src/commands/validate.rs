//! `regatta validate FILE…`: reports every mistake at once and changes nothing.

use std::path::PathBuf;

use regatta_core::diagnostic::has_errors;
use regatta_ops::taskfiles::parse_files;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;
use regatta_ops::{Refusal, RefusalKind};

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
    let mut files = Vec::new();
    for path in args.files {
        let bytes = std::fs::read(&path)
            .map_err(|error| Refusal { kind: RefusalKind::Usage, ..Refusal::io("reading", &path, &error) })?;
        files.push((path, bytes));
    }
    let loaded = parse_files(&project, &files, |settings| settings.strict = args.strict);
    if has_errors(&loaded.diagnostics) {
        return Err(Refusal::diagnosed(loaded.diagnostics));
    }
    if ui.json {
        let tasks: Vec<&str> = loaded.tasks.iter().map(|spec| spec.id.as_str()).collect();
        ui.document(&serde_json::json!({ "ok": true, "tasks": tasks, "diagnostics": loaded.diagnostics }));
        return Ok(Exit::Ok);
    }
    for warning in project.warnings.iter().chain(&loaded.diagnostics) {
        ui.note(warning.to_string());
    }
    let plural = if loaded.tasks.len() == 1 { "" } else { "s" };
    ui.line(format!("ok: {} task{plural}", loaded.tasks.len()));
    Ok(Exit::Ok)
}
