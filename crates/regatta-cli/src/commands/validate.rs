//! `regatta validate FILE…`: finds every mistake at once and changes nothing.

use std::path::{Path, PathBuf};

use regatta_core::diagnostic::has_errors;
use regatta_core::taskfile::{self, LoadSettings, Loaded, Source};

use crate::cli::Global;
use crate::error::{CliError, RefusalKind};
use crate::exit::Exit;
use crate::project::{Project, shown};
use crate::ui::Ui;

/// Check plan and task files: every mistake, with file, line and column.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Plan files or task files.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Also refuse overlapping writes of tasks that could run at once.
    #[arg(long)]
    pub(crate) strict: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let project = Project::open_for(&global.options(), &args.files)?;
    let mut files = Vec::new();
    for path in args.files {
        let bytes = std::fs::read(&path).map_err(|error| CliError {
            kind: RefusalKind::Usage,
            ..CliError::io("reading", &path, &error)
        })?;
        files.push((path, bytes));
    }
    let loaded = parse_files(&project, &files, |settings| settings.strict = args.strict);
    if has_errors(&loaded.diagnostics) {
        return Err(CliError::diagnosed(loaded.diagnostics));
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

/// Parses files that were read already. Ids in the store are no dependencies here: a run is whole by itself.
pub(crate) fn parse_files<'a>(
    project: &'a Project,
    files: &'a [(PathBuf, Vec<u8>)],
    adjust: impl FnOnce(&mut LoadSettings<'a>),
) -> Loaded {
    let mut broken = Vec::new();
    let mut sources = Vec::new();
    for (path, bytes) in files {
        match Source::from_bytes(shown(path), bytes) {
            Ok(source) => sources.push(match directory_of(&project.repo.toplevel, path) {
                Some(dir) => source.in_dir(dir),
                None => source,
            }),
            Err(diagnostic) => broken.push(diagnostic),
        }
    }
    let mut settings = LoadSettings::new(&project.config);
    settings.repo_root = project.repo.toplevel.to_str();
    adjust(&mut settings);
    let mut loaded = taskfile::load(&sources, &settings);
    // Messages name files as they were given; a task remembers where its own really is.
    for spec in &mut loaded.tasks {
        if let Some((name, line)) = spec.source.rsplit_once(':') {
            let file = std::path::absolute(name).unwrap_or_else(|_| name.into());
            spec.source = format!("{}:{line}", file.display());
        }
    }
    broken.append(&mut loaded.diagnostics);
    loaded.diagnostics = broken;
    loaded
}

/// The file's directory: from the repository root if it lies inside, else absolute.
fn directory_of(root: &Path, file: &Path) -> Option<String> {
    let file = std::fs::canonicalize(file).ok()?;
    let root = std::fs::canonicalize(root).ok()?;
    let dir = file.parent()?;
    Some(dir.strip_prefix(&root).unwrap_or(dir).to_string_lossy().into_owned())
}
