//! `regatta new ID`: writes a task file or a plan to start from. The file validates as it is.

use std::io::Write;
use std::path::{Path, PathBuf};

use regatta_core::config::AgentKind;
use regatta_core::diagnostic::has_errors;
use regatta_core::id::TaskId;
use regatta_core::plain;
use serde_json::json;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::{Project, shown};
use crate::ui::Ui;
use regatta_ops::Refusal;
use regatta_ops::taskfiles::parse_files;

/// Create a task file tasks/ID.md, or with --plan a plan plans/ID.md.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task's id: a–z, A–Z, 0–9, '.', '_' and '-', at most 64.
    #[arg(value_name = "ID")]
    id: String,
    /// One line that says what to do.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The agent to use: an entry of `agents` in regatta.yaml, or claude, codex, gemini, opencode, sh, sim.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Write a plan with two tasks, the second of which depends on the first.
    #[arg(long)]
    plan: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    make(args, "tasks", global, ui)
}

/// `regatta parcel new`: the same for rookery's users.
pub(crate) async fn parcel(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    make(args, "parcels", global, ui)
}

fn make(args: Args, tasks: &str, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let id = TaskId::parse(&args.id).map_err(|error| {
        Refusal::usage(format!("{:?} {error}", args.id)).hinted("for example: regatta new add-oauth-flow")
    })?;
    let project = Project::open(&global.options())?;
    let agent = args.agent.clone().unwrap_or_else(|| project.config.default_agent.clone());
    let kind = project.config.agents.get(&agent).map_or(AgentKind::Claude, |agent| agent.kind);
    let title = args.title.as_deref().map(plain::words).filter(|title| !title.is_empty());
    let title = title.unwrap_or_else(|| format!("What {id} should do, in one line"));
    let (dir, text) = match args.plan {
        true => ("plans", plan_text(&id, &title, &agent, kind)),
        false => (tasks, task_text(&id, &title, &agent, kind)),
    };
    let path = project.repo.toplevel.join(dir).join(format!("{id}.md"));
    let files = [(path.clone(), text.clone().into_bytes())];
    let diagnostics = parse_files(&project, &files, |_| {}).diagnostics;
    if has_errors(&diagnostics) {
        return Err(Refusal::diagnosed(diagnostics));
    }
    create(&path, &text)?;
    if ui.json {
        ui.document(&json!({ "id": id, "path": path, "kind": if args.plan { "plan" } else { "task" } }));
        return Ok(Exit::Ok);
    }
    let file = shown(&path);
    ui.line(format!("made {file}"));
    if !ui.quiet {
        ui.line(format!(
            "next: write the prompt, then `regatta validate {file}`, and `regatta run {file}` or `regatta enqueue {file}`"
        ));
    }
    Ok(Exit::Ok)
}

/// Writes a file that must not exist yet, creating its directory.
pub(crate) fn create(path: &Path, text: &str) -> Result<(), Refusal> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(|error| Refusal::io("making", dir, &error))?;
    }
    match std::fs::OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => file.write_all(text.as_bytes()).map_err(|error| Refusal::io("writing", path, &error)),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(taken(&[path.to_owned()])),
        Err(error) => Err(Refusal::io("writing", path, &error)),
    }
}

/// The error for files that exist, which are never overwritten.
pub(crate) fn taken(paths: &[PathBuf]) -> Refusal {
    let names: Vec<String> = paths.iter().map(|path| shown(path)).collect();
    Refusal::refused(format!("{} already exists; nothing was changed", names.join(", ")))
        .hinted("move it first, or choose another name")
}

fn task_text(id: &TaskId, title: &str, agent: &str, kind: AgentKind) -> String {
    let name = yaml_text(id.as_str());
    let agent = yaml_text(agent);
    let body = body(title, kind, &format!("{id}.txt"));
    format!(
        "---\n\
         id: {name}\n\
         agent: {agent}\n\
         # deps: [another-task]           # tasks that must land first\n\
         # writes: [src/]                 # what it will change: tasks that overlap never run at the same time\n\
         # checks: [\"make test\"]          # run on the committed work before a pass counts\n\
         # priority: 5                    # higher starts first\n\
         # max_attempts: 3\n\
         # auto_land: true                # land what passes; `regatta run` lands by default, `regatta enqueue` does not\n\
         ---\n{body}"
    )
}

fn plan_text(id: &TaskId, title: &str, agent: &str, kind: AgentKind) -> String {
    let agent = yaml_text(agent);
    let indented = |title: &str, file: &str| -> String {
        body(title, kind, file)
            .lines()
            .map(|line| format!("      {line}").trim_end().to_owned() + "\n")
            .collect()
    };
    let first = indented(title, "first.txt");
    let second = indented("What comes next", "second.txt");
    format!(
        "---\n\
         regatta: 1\n\
         name: {}\n\
         defaults:\n  agent: {agent}\n  # max_attempts: 3\n\
         tasks:\n  - id: first\n    prompt: |\n{first}  \
         - id: second\n    deps: [first]\n    prompt: |\n{second}---\n\
         Notes for people. Regatta does not read them.\n",
        yaml_text(id.as_str())
    )
}

/// A prompt that this kind of agent understands.
pub(crate) fn body(title: &str, kind: AgentKind, file: &str) -> String {
    match kind {
        AgentKind::Claude | AgentKind::Codex | AgentKind::Gemini | AgentKind::Opencode => format!(
            "# {title}\n\n\
             Say what should be true afterwards, which files matter, and how to check it. The agent works alone in its own\n\
             git worktree; Regatta commits its work to its branch and checks it. `regatta run` then lands it.\n"
        ),
        AgentKind::Command => format!(
            "# {title}\necho '{title_quoted}' > {file}\n",
            title_quoted = title.replace('\'', "'\\''")
        ),
        AgentKind::Sim => format!(
            "# {title}\n\n```sim\nsay I am the simulated agent\nwrite {file} Written by the simulated agent.\\n\nreport pass Write {file}\n```\n"
        ),
    }
}

/// A text as a YAML scalar: unquoted if it cannot be read as anything else.
fn yaml_text(text: &str) -> String {
    let words = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && !words.contains(&text.to_ascii_lowercase().as_str());
    if plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}
