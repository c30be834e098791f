//! The registry of a project: its repositories, and facts about tasks that are not in their stores.
//!
//! Two files, `config.json` and `state.json`, in the format of parallel-agents: its users' files are read as they are,
//! and fields that Regatta does not know are kept. A process that changes one holds the lock beside them, and replaces
//! the file atomically. Nothing here matters for the work itself: tasks are in their repository's store.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use crate::documents::PullRequestDocument;
use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;
use regatta_engine::files::{self, Durability};
use regatta_engine::git::Repo;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::ParallelOptions;
use crate::project::{Project, start_dir};
use crate::refusal::{Refusal, RefusalKind};

/// Where parallel-agents keeps the files, below its project.
const OTHERS: &str = ".claude/parallel-agents";
/// Where Regatta keeps them.
const OURS: &str = ".regatta/parallel-agents";
/// The key of our own notes in `state.json`.
const NOTES: &str = "regatta";
/// Worktrees per repository, if the file does not say.
const CAP: u64 = 4;

/// A registered repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub name: String,
    /// The path of its checkout.
    pub path: PathBuf,
    /// The branch that lanes start from.
    #[serde(default = "main_branch")]
    pub default_branch: String,
    /// Kept for parallel-agents; Regatta's branches are `regatta/<id>`.
    #[serde(default)]
    pub branch_prefix_prd: String,
    /// The same for generic tasks.
    #[serde(default)]
    pub branch_prefix_generic: String,
}

fn main_branch() -> String {
    "main".to_owned()
}

/// Facts about a task that do not belong in its store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// The name of its repository.
    pub repo: String,
    /// What the task waits for, as a note for people; this is not enforced.
    #[serde(default)]
    pub blocked_by: Vec<String>,
    /// Its pull request, as last seen.
    #[serde(default)]
    pub pr: Option<PullRequestDocument>,
    /// When it was destroyed.
    #[serde(default)]
    pub destroyed_at: Option<Timestamp>,
}

/// The contents of the two files.
pub struct Registry {
    /// Where the files are, or would be.
    pub dir: PathBuf,
    /// Whether `config.json` exists.
    pub exists: bool,
    /// Whether `state.json` exists.
    pub has_state: bool,
    /// `config.json`.
    pub config: Map<String, Value>,
    /// `state.json`.
    pub state: Map<String, Value>,
    /// The registered repositories.
    pub entries: Vec<Entry>,
    /// Notes on tasks.
    pub notes: BTreeMap<String, Note>,
    /// The project around the current directory if it has `repos`, unless the registry was named: its repositories
    /// count then, not `entries`.
    pub home: Option<Project>,
}

/// Held while the files are changed.
pub struct Lock {
    _file: File,
}

impl Registry {
    /// Loads the registry of `--root` or of the current directory: from the location of parallel-agents if it exists,
    /// else from `.regatta` of the repository, else from `.regatta` of the directory.
    pub fn load(options: &ParallelOptions) -> Result<Self, Refusal> {
        let dir = match &options.root {
            Some(dir) => std::path::absolute(dir).map_err(|error| Refusal::io("finding", dir, &error))?,
            None => {
                let start = start_dir(&options.project)?;
                let start =
                    fs::canonicalize(&start).map_err(|error| Refusal::io("finding", &start, &error))?;
                usual(&start)
            }
        };
        let home = options.root.is_none().then(|| Project::open(&options.project).ok()).flatten();
        let home = home.filter(|project| !project.config.repos.is_empty());
        Ok(Self { home, ..Self::load_from(dir)? })
    }

    fn load_from(dir: PathBuf) -> Result<Self, Refusal> {
        let (config, exists) = read(&dir.join("config.json"))?;
        let (state, has_state) = read(&dir.join("state.json"))?;
        let path = dir.join("config.json");
        let entries = parsed(&path, "repositories", config.get("repositories"))?.unwrap_or_default();
        let notes = parsed(&dir.join("state.json"), NOTES, state.get(NOTES))?.unwrap_or_default();
        let mut registry = Self { dir, exists, has_state, config, state, entries, notes, home: None };
        registry.fill_in();
        Ok(registry)
    }

    /// What a watcher prints by default.
    pub fn granularity(&self) -> String {
        let said =
            self.config.get("monitoring").and_then(|monitoring| monitoring["event_granularity"].as_str());
        said.unwrap_or("exit").to_owned()
    }

    /// A setting in the file that has no effect here, as a sentence.
    pub fn ignored(&self) -> Option<&'static str> {
        let root = self.config.get("worktree_root").and_then(Value::as_str)?;
        (root != ".claude/worktrees").then_some(
            "`worktree_root` is ignored: worktrees are beside each repository; `lanes_root` in its regatta.yaml names another place",
        )
    }

    /// The same, with the lock that permits changes.
    pub async fn load_locked(options: &ParallelOptions) -> Result<(Self, Lock), Refusal> {
        let Self { dir, home, .. } = Self::load(options)?;
        let at = dir.clone();
        let locked = tokio::task::spawn_blocking(move || lock(&at)).await.expect("locking does not panic")?;
        Ok((Self { home, ..Self::load_from(dir)? }, locked))
    }

    /// Adds the defaults of the parallel-agents skill where the files have no value.
    fn fill_in(&mut self) {
        let defaults = [
            ("version", json!(1)),
            ("max_worktrees_per_repo", json!(CAP)),
            ("monitoring", json!({})),
            ("repositories", json!([])),
        ];
        for (key, value) in defaults {
            self.config.entry(key).or_insert(value);
        }
        if let Some(Value::Object(monitoring)) = self.config.get_mut("monitoring") {
            monitoring.entry("mode").or_insert(json!("live"));
            monitoring.entry("event_granularity").or_insert(json!("exit"));
        }
        for (key, value) in [("version", json!(1)), ("gen_seq", json!(0)), ("tasks", json!([]))] {
            self.state.entry(key).or_insert(value);
        }
    }

    /// How many worktrees a repository may have at once.
    pub fn cap(&self) -> u64 {
        self.config.get("max_worktrees_per_repo").and_then(Value::as_u64).unwrap_or(CAP)
    }

    /// The last number given to a generic task.
    pub fn last_number(&self) -> u64 {
        self.state.get("gen_seq").and_then(Value::as_u64).unwrap_or(0)
    }

    /// The note on a task. An id destroyed in one repository may still exist in another.
    pub fn note(&self, id: &TaskId, repo: &str) -> Option<&Note> {
        self.notes.get(&format!("{repo}/{id}"))
    }

    /// The note on a task, for changing it.
    pub fn note_mut(&mut self, id: &TaskId, repo: &str) -> &mut Note {
        let note = self.notes.entry(format!("{repo}/{id}")).or_default();
        note.repo = repo.to_owned();
        note
    }

    /// Writes `config.json`.
    pub fn save_config(&mut self, _lock: &Lock) -> Result<(), Refusal> {
        self.config.insert("repositories".to_owned(), json!(self.entries));
        self.exists = true;
        replace(&self.dir.join("config.json"), &self.config)
    }

    /// Writes `state.json`.
    pub fn save_state(&mut self, _lock: &Lock) -> Result<(), Refusal> {
        self.state.insert(NOTES.to_owned(), json!(self.notes));
        self.has_state = true;
        replace(&self.dir.join("state.json"), &self.state)
    }
}

/// Where the files of a directory are.
fn usual(start: &Path) -> PathBuf {
    let theirs = start.join(OTHERS);
    if theirs.join("config.json").exists() {
        return theirs;
    }
    match Repo::discover(start, None) {
        Ok(repo) => repo.state_dir.join("parallel-agents"),
        Err(_) => start.join(OURS),
    }
}

fn read(path: &Path) -> Result<(Map<String, Value>, bool), Refusal> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok((Map::new(), false)),
        Err(error) => return Err(Refusal::io("reading", path, &error)),
    };
    match serde_json::from_slice(&text) {
        Ok(map) => Ok((map, true)),
        Err(error) => Err(wrong(path, &error.to_string())),
    }
}

fn parsed<T: for<'de> Deserialize<'de>>(
    path: &Path,
    key: &str,
    value: Option<&Value>,
) -> Result<Option<T>, Refusal> {
    let parsed = value.map(|value| serde_json::from_value(value.clone())).transpose();
    parsed.map_err(|error| wrong(path, &format!("`{key}`: {error}")))
}

fn wrong(path: &Path, why: &str) -> Refusal {
    Refusal::new(RefusalKind::Usage, format!("{}: {why}", path.display()))
        .hinted("correct it, or move it aside and register the repositories again: regatta help repo")
}

/// In a repository the files are part of Regatta's state, which must belong to the user.
fn make_state_dir(dir: &Path) -> Result<(), Refusal> {
    let Some(state) = dir.parent() else { return Ok(()) };
    match state.parent().map(|root| Repo::discover(root, None)) {
        Some(Ok(repo)) if repo.state_dir == state => Ok(regatta_engine::trust::state_dir::make(&repo)?),
        _ => Ok(()),
    }
}

fn lock(dir: &Path) -> Result<Lock, Refusal> {
    make_state_dir(dir)?;
    fs::create_dir_all(dir).map_err(|error| Refusal::io("making", dir, &error))?;
    let path = dir.join("lock");
    let failed = |error: std::io::Error| Refusal::io("locking", &path, &error);
    let file = OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?;
    loop {
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive) {
            Ok(()) => return Ok(Lock { _file: file }),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed(error.into())),
        }
    }
}

fn replace(path: &Path, value: &Map<String, Value>) -> Result<(), Refusal> {
    let mut text = serde_json::to_string_pretty(value).expect("JSON can be written");
    text.push('\n');
    files::replace(path, text.as_bytes(), Durability::Durable)
        .map_err(|error| Refusal::io("writing", path, &error))
}
