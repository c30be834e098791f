//! Task files of a project: parsing with its settings, and the programs that their agents need.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use regatta_core::config::AgentKind;
use regatta_core::diagnostic::{Diagnostic, Pos, has_errors};
use regatta_core::spec::TaskSpec;
use regatta_core::taskfile::{self, LoadSettings, Loaded, Source};

use crate::documents::ValidDocument;
use crate::project::{Project, shown};
use crate::refusal::{Refusal, RefusalKind};

/// Parses the contents of files. Ids in the store are no dependencies here, because a run is complete in itself.
pub fn parse_files<'a>(
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
    // Messages name files as they were given; a task records the real path of its own.
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

/// Checks task files and plans, and reports every mistake at once. `strict` also refuses overlapping writes of tasks that
/// could run at once.
pub fn validate(project: &Project, paths: Vec<PathBuf>, strict: bool) -> Result<ValidDocument, Refusal> {
    let mut files = Vec::new();
    for path in paths {
        let bytes = std::fs::read(&path)
            .map_err(|error| Refusal { kind: RefusalKind::Usage, ..Refusal::io("reading", &path, &error) })?;
        files.push((path, bytes));
    }
    let loaded = parse_files(project, &files, |settings| settings.strict = strict);
    if has_errors(&loaded.diagnostics) {
        return Err(Refusal::diagnosed(loaded.diagnostics));
    }
    let tasks = loaded.tasks.into_iter().map(|spec| spec.id).collect();
    Ok(ValidDocument { diagnostics: loaded.diagnostics, ok: true, tasks })
}

/// The file's directory: relative to the repository root if it is inside, otherwise absolute.
fn directory_of(root: &Path, file: &Path) -> Option<String> {
    let file = std::fs::canonicalize(file).ok()?;
    let root = std::fs::canonicalize(root).ok()?;
    let dir = file.parent()?;
    Some(dir.strip_prefix(&root).unwrap_or(dir).to_string_lossy().into_owned())
}

/// The program of a task's agent, if it cannot be found.
pub fn missing_program(project: &Project, spec: &TaskSpec, claude_exe: Option<&Path>) -> Option<String> {
    let agent = project.config.agents.get(&spec.agent)?;
    let program = agent.program()?;
    let named = claude_exe.filter(|_| agent.kind == AgentKind::Claude);
    let program = named.map_or_else(|| program.to_owned(), |path| path.display().to_string());
    let found = regatta_engine::agents::find_program(&program, &project.repo.toplevel);
    found.is_none().then_some(program)
}

/// How to make an agent's program available to the daemon.
pub fn missing_hint(project: &Project, agent: &str) -> String {
    let install = project.config.agents.get(agent).and_then(|agent| agent.kind.install());
    let install =
        install.map_or_else(|| "put it on PATH".to_owned(), |install| format!("install it ({install})"));
    format!("{install}, or name it in regatta.yaml: agents.{agent}.exe; `regatta doctor` shows what is found")
}

/// A warning for each agent of these tasks whose program cannot be found: a daemon with another PATH may still find it.
pub fn missing_programs(project: &Project, tasks: &[TaskSpec]) -> Vec<Diagnostic> {
    let agents: BTreeMap<&str, &TaskSpec> =
        tasks.iter().rev().map(|spec| (spec.agent.as_str(), spec)).collect();
    let warn = |(agent, spec): (&str, &TaskSpec)| {
        let program = missing_program(project, spec, None)?;
        let message = format!(
            "the agent {agent} cannot be started: its program {program:?} was not found; {} stays in the queue, and \
             a daemon blocks it unless it finds the program",
            spec.id
        );
        let warning = Diagnostic::warning(format!("agents.{agent}.exe"), Pos::NOWHERE, message);
        Some(warning.hinted(missing_hint(project, agent)))
    };
    agents.into_iter().filter_map(warn).collect()
}
