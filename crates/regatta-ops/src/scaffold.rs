//! Files to start from: the configuration and an example (`init`), a task file or a plan (`new`). No file is ever
//! overwritten.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use regatta_core::config::{AgentKind, template};
use regatta_core::diagnostic::has_errors;
use regatta_core::id::TaskId;
use regatta_core::plain;
use regatta_engine::git::{Head, Repo};

use crate::documents::{InitDocument, NewFileDocument};
use crate::project::{CONFIG_FILE, Project, ProjectOptions, ROOKERY_FILE, shown, start_dir};
use crate::refusal::Refusal;
use crate::taskfiles::parse_files;

/// What [`init`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initialised {
    /// The created files and directories.
    pub document: InitDocument,
    /// The example among them; `None` if the repository had a `tasks/` of its own.
    pub example: Option<PathBuf>,
    /// Whether the repository has no commit yet, so that no lane can be made.
    pub needs_commit: bool,
    /// Whether the repository has a configuration of rookery's, which is no longer read.
    pub has_rookery: bool,
}

/// Sets up a repository: its configuration, an example, its state directory with the store.
pub async fn init(options: &ProjectOptions) -> Result<Initialised, Refusal> {
    let repo = Repo::discover(&start_dir(options)?, None)?;
    let config = repo.toplevel.join(CONFIG_FILE);
    if config.symlink_metadata().is_ok() {
        return Err(
            taken(&config).hinted("`regatta config` shows the settings, `regatta doctor` checks them")
        );
    }
    let tasks = repo.toplevel.join("tasks");
    create(&config, &template())?;
    let mut made = vec![config];
    let mut example = None;
    // An existing `tasks/` is the user's own; an example among them would be in the way.
    if tasks.symlink_metadata().is_err() {
        let file = tasks.join("example.md");
        create(&file, &example_text())?;
        made.push(file.clone());
        example = Some(file);
    }
    let project = Project::open(options)?;
    project.create_store().await?;
    project.trust_file()?;
    made.push(project.repo.state_dir.clone());
    Ok(Initialised {
        document: InitDocument { made, root: project.repo.root.clone() },
        example,
        needs_commit: matches!(repo.head, Head::Unborn(_)),
        has_rookery: repo.toplevel.join(ROOKERY_FILE).exists(),
    })
}

/// A file to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFileRequest {
    /// The id of the task, or the name of the plan.
    pub id: String,
    /// One line that says what to do.
    pub title: Option<String>,
    /// The agent; the default one if absent.
    pub agent: Option<String>,
    /// What to create, and where.
    pub kind: NewFileKind,
}

/// The kinds of files that [`new_file`] creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewFileKind {
    /// A task in `tasks/`.
    Task,
    /// A task in `parcels/`, for rookery's users.
    Parcel,
    /// A plan with two tasks in `plans/`.
    Plan,
}

/// Creates a task file or a plan that validates as it is.
pub fn new_file(options: &ProjectOptions, request: &NewFileRequest) -> Result<NewFileDocument, Refusal> {
    let id = TaskId::parse(&request.id).map_err(|error| {
        Refusal::usage(format!("{:?} {error}", request.id)).hinted("for example: regatta new add-oauth-flow")
    })?;
    let project = Project::open(options)?;
    let agent = request.agent.clone().unwrap_or_else(|| project.config.default_agent.clone());
    let agent_kind = project.config.agents.get(&agent).map_or(AgentKind::Claude, |agent| agent.kind);
    let title = request.title.as_deref().map(plain::words).filter(|title| !title.is_empty());
    let title = title.unwrap_or_else(|| format!("What {id} should do, in one line"));
    let (dir, kind, text) = match request.kind {
        NewFileKind::Plan => ("plans", "plan", plan_text(&id, &title, &agent, agent_kind)),
        NewFileKind::Task => ("tasks", "task", task_text(&id, &title, &agent, agent_kind)),
        NewFileKind::Parcel => ("parcels", "task", task_text(&id, &title, &agent, agent_kind)),
    };
    let path = project.repo.toplevel.join(dir).join(format!("{id}.md"));
    let files = [(path.clone(), text.clone().into_bytes())];
    let diagnostics = parse_files(&project, &files, |_| {}).diagnostics;
    if has_errors(&diagnostics) {
        return Err(Refusal::diagnosed(diagnostics));
    }
    create(&path, &text)?;
    Ok(NewFileDocument { id, kind, path })
}

/// Writes a file that must not exist yet, creating its directory.
fn create(path: &Path, text: &str) -> Result<(), Refusal> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(|error| Refusal::io("making", dir, &error))?;
    }
    match std::fs::OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => file.write_all(text.as_bytes()).map_err(|error| Refusal::io("writing", path, &error)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(taken(path)),
        Err(error) => Err(Refusal::io("writing", path, &error)),
    }
}

fn taken(path: &Path) -> Refusal {
    Refusal::refused(format!("{} already exists; nothing was changed", shown(path)))
        .hinted("move it first, or choose another name")
}

fn example_text() -> String {
    format!(
        "---\n\
         # One task: rules up here, the prompt below. Run it with `regatta run tasks/example.md`.\n\
         id: example\n\
         agent: sim                       # the simulated agent; `claude` for the real one, `sh` for a script\n\
         auto_land: false                 # its work stays on branch regatta/example; with `true` it lands\n\
         # deps: [another-task]           # tasks that must land first\n\
         # writes: [src/]                 # what it will change: tasks that overlap never run at the same time\n\
         # checks: [\"make test\"]          # run on the committed work before a pass counts\n\
         # max_attempts: 3\n\
         ---\n{}",
        body("An example", AgentKind::Sim, "example.txt")
    )
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
fn body(title: &str, kind: AgentKind, file: &str) -> String {
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
