//! A repository with its settings and its store, as every command needs them.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use regatta_core::config::{self, Config};
use regatta_core::diagnostic::{Diagnostic, Pos, has_errors};
use regatta_core::id::TaskId;
use regatta_engine::context::SettingsFile;
use regatta_engine::git::{GitError, Repo, Work};
use regatta_engine::lanes::Lanes;
use regatta_engine::session::work_in;
use regatta_engine::trust::{self, Purpose, state_dir};
use regatta_store::{Existing, Missing, Store, StoreError, TaskQuery, TaskRecord};

use crate::refusal::{Refusal, RefusalKind};

/// The name of the configuration file.
pub const CONFIG_FILE: &str = "regatta.yaml";
/// Read if there is no other file.
pub const ROOKERY_FILE: &str = "rookery.yaml";

/// How long read-only commands wait for git.
const GIT_PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// Where a project is, and the caller's options for it.
#[derive(Clone, Debug, Default)]
pub struct ProjectOptions {
    /// The repository; by default that of the current directory.
    pub project: Option<PathBuf>,
    /// The configuration file; by default `regatta.yaml` at the repository root.
    pub config: Option<PathBuf>,
    /// The store; by default the one in the configuration.
    pub store: Option<String>,
    /// The store of a project whose settings name none, and that has none yet.
    pub otherwise: Option<String>,
    /// Whether the caller trusts whatever the repository runs.
    pub trust: bool,
}

/// An opened project.
#[derive(Clone)]
pub struct Project {
    pub repo: Repo,
    pub config: Config,
    /// The configuration of the file alone.
    pub file_config: Config,
    /// Whether the user named the file with `--config`.
    pub config_is_named: bool,
    /// Whether the user trusts whatever the repository runs, with `--trust`.
    pub trust_given: bool,
    /// The configuration file, if there is one.
    pub config_file: Option<PathBuf>,
    /// The digest of that file as it was read.
    pub config_digest: Option<String>,
    /// Warnings about the configuration.
    pub warnings: Vec<Diagnostic>,
    pub store_url: String,
}

impl Project {
    /// Finds the repository and reads its settings.
    pub fn open(options: &ProjectOptions) -> Result<Self, Refusal> {
        Self::open_by(options, |start| Repo::discover(start, None))
    }

    /// The same for commands that only read the store and files: it runs no git if possible, so they work while git
    /// hangs.
    pub fn look(options: &ProjectOptions) -> Result<Self, Refusal> {
        Self::open_by(options, Repo::find)
    }

    fn open_by(
        options: &ProjectOptions,
        discover: impl Fn(&Path) -> Result<Repo, GitError>,
    ) -> Result<Self, Refusal> {
        let start = start_dir(options)?;
        let repo = match (discover(&start), &options.config) {
            // Supervisors start daemons in any directory: the file then says where the project is.
            (Err(GitError::NotARepository { .. }), Some(file)) if options.project.is_none() => {
                let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
                discover(file.parent().unwrap_or(&start))?
            }
            (found, _) => found?,
        };
        let ReadConfig { config, alone, file, digest, warnings } = load_config(options, &repo.toplevel)?;
        let store_url = store_url(options, &config, &repo);
        let mut project = Self {
            repo,
            config,
            file_config: alone,
            config_is_named: options.config.is_some(),
            trust_given: options.trust,
            config_file: file,
            config_digest: digest,
            warnings,
            store_url,
        };
        if !project.config.repos.is_empty() {
            project.read_repo_paths()?;
        }
        Ok(project)
    }

    /// The same for a caller that names files. Outside of any repository, the first file decides where the project is:
    /// in its own directory, or in the `cwd` of a parallel-orchestra plan.
    pub fn open_for(options: &ProjectOptions, files: &[PathBuf]) -> Result<Self, Refusal> {
        let opened = Self::open(options);
        let (None, Err(error), Some(file)) = (&options.project, &opened, files.first()) else {
            return opened;
        };
        if error.kind != RefusalKind::Git {
            return opened;
        }
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let cwd = regatta_core::taskfile::orchestra_cwd(&text).unwrap_or_default();
        let dir = file.parent().unwrap_or(Path::new("")).join(cwd);
        let dir = std::path::absolute(&dir).unwrap_or(dir);
        match Repo::discover(&dir, None) {
            Ok(_) => Self::open(&ProjectOptions { project: Some(dir), ..options.clone() }),
            Err(_) => opened,
        }
    }

    /// The configuration file, to compare it with the one at the hub's target.
    pub fn settings_file(&self) -> SettingsFile {
        let file = self.config_file.as_deref().filter(|file| file.parent() == Some(&self.repo.toplevel));
        let name = file.and_then(|file| file.file_name()?.to_str()).unwrap_or(CONFIG_FILE);
        SettingsFile { name: name.to_owned(), digest: self.config_digest.clone() }
    }

    /// Warnings about the configuration that were not shown before.
    pub fn new_warnings(&self) -> &[Diagnostic] {
        if self.warnings.is_empty() {
            return &[];
        }
        let text: Vec<String> = self.warnings.iter().map(ToString::to_string).collect();
        let (text, shown) = (text.join("\n"), self.repo.state_dir.join("shown-warnings"));
        if std::fs::read_to_string(&shown).is_ok_and(|before| before == text) {
            return &[];
        }
        // If this cannot be recorded, they are shown again.
        let _ = std::fs::write(&shown, text);
        &self.warnings
    }

    /// Git's answer, or `None` if it takes too long.
    pub fn ask_git<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Repo) -> Result<T, GitError> + Send + 'static,
    ) -> Result<Option<T>, Refusal> {
        let (send, answer) = std::sync::mpsc::channel();
        let repo = self.repo.clone();
        // Not a thread of the runtime, because those are waited for at the end.
        std::thread::spawn(move || send.send(ask(&repo)));
        match answer.recv_timeout(GIT_PATIENCE) {
            Ok(answer) => Ok(Some(answer?)),
            Err(_late) => Ok(None),
        }
    }

    /// Opens the store, creating it if missing.
    pub async fn create_store(&self) -> Result<Arc<dyn Store>, Refusal> {
        self.make_state_dir()?;
        self.open_store().await
    }

    /// Whether a store exists. A store that is not on this disk, or cannot be checked, is assumed to exist: opening it
    /// gives the reason.
    pub fn has_store(&self) -> bool {
        let there = |path: &str| Path::new(path).try_exists().unwrap_or(true);
        self.store_url.strip_prefix("sqlite:").is_none_or(there)
    }

    /// Opens the store; refuses if it does not exist.
    pub async fn store(&self) -> Result<Arc<dyn Store>, Refusal> {
        self.find_store().await?.map_err(no_project)
    }

    /// Opens the store, if it exists.
    pub async fn store_if_any(&self) -> Result<Option<Arc<dyn Store>>, Refusal> {
        if self.has_store() { Ok(self.find_store().await?.ok()) } else { Ok(None) }
    }

    /// Opens the store for a command that looks, perhaps for long: a file of this project is created if it is missing, a
    /// store that machines share is not.
    pub async fn store_to_follow(&self) -> Result<Arc<dyn Store>, Refusal> {
        if self.store_url.starts_with("sqlite:") {
            return self.create_store().await;
        }
        self.make_state_dir()?;
        self.store().await
    }

    async fn find_store(&self) -> Result<Result<Arc<dyn Store>, Missing>, Refusal> {
        if let Some(path) = self.store_url.strip_prefix("sqlite:") {
            match Path::new(path).try_exists() {
                Ok(true)
                    if Path::new(path) == self.repo.state_dir.join("regatta.db")
                        && Path::new(path).is_dir() =>
                {
                    return Err(Refusal::new(
                        RefusalKind::CannotWork,
                        format!("{path} is a directory, not a store"),
                    )
                    .hinted("move it away: the next run creates a new store"));
                }
                Ok(true) => {}
                Ok(false) => {
                    return Err(Refusal::not_found(format!("there is no store at {path} yet"))
                        .hinted("`regatta run PLAN` and `regatta init` create one"));
                }
                Err(error) => {
                    let dir = Path::new(path).parent().unwrap_or(Path::new("."));
                    return Err(Refusal::io("reading the store at", Path::new(path), &error)
                        .hinted(format!("`ls -ld {}` shows its owner and permissions", dir.display())));
                }
            }
        }
        // An agent may have another home directory, and with it another trust record.
        if !claims_attempt() {
            state_dir::check(&self.repo)?;
        }
        match regatta_store::open_existing(&self.store_url, false).await {
            Ok(Existing::Store(store)) => self.begin_with(store).await.map(Ok),
            Ok(Existing::Missing(missing)) => Ok(Err(missing)),
            Err(error) => Err(not_opened(&self.store_url, error)),
        }
    }

    async fn open_store(&self) -> Result<Arc<dyn Store>, Refusal> {
        let opened = regatta_store::open(&self.store_url).await;
        self.begin_with(opened.map_err(|error| not_opened(&self.store_url, error))?).await
    }

    async fn begin_with(&self, store: Arc<dyn Store>) -> Result<Arc<dyn Store>, Refusal> {
        // Members whose processes are gone no longer hold tasks, and no caller sees them otherwise.
        regatta_engine::crew::bury(store.as_ref()).await?;
        if store.is_shared() {
            work_in(&self.repo.common_dir);
        }
        Ok(store)
    }

    /// Creates `.regatta`, private to the user and kept out of git.
    pub fn make_state_dir(&self) -> Result<(), Refusal> {
        if !claims_attempt() {
            state_dir::make(&self.repo)?;
        }
        self.repo.exclude(&["/.regatta/"])?;
        Ok(())
    }

    /// The same if it does not exist. For commands that work while git hangs: one that exists costs no git.
    pub fn make_state_dir_once(&self) -> Result<(), Refusal> {
        if self.repo.state_dir.is_dir() { Ok(()) } else { self.make_state_dir() }
    }

    /// Git for commands that only read content; it follows the trusted settings.
    pub fn work(&self) -> Result<Work, Refusal> {
        self.make_state_dir()?;
        let in_force = trust::git(&self.repo, Purpose::Look)?;
        Ok(Work::new(&self.repo, in_force.snapshot))
    }

    /// The lanes of this project. `None` before the first run.
    pub fn lanes(&self) -> Result<Option<Lanes>, Refusal> {
        if !self.repo.state_dir.is_dir() {
            return Ok(None);
        }
        let work = self.work()?;
        Ok(Some(Lanes::new(&self.repo, &work, &self.lanes_root())?))
    }

    /// Where lanes are. Relative settings start at the configuration file's directory or at the repository root.
    pub fn lanes_root(&self) -> PathBuf {
        let name = self.repo.root.file_name().map(|name| name.to_string_lossy().into_owned());
        let text = self.config.lanes_root.replace("{repo}", &name.unwrap_or_else(|| "repo".to_owned()));
        let anchor = match self.config.origin("lanes_root") {
            // The file of a linked worktree means the same as the main one's: all worktrees share their lanes.
            config::Origin::File => self
                .config_file
                .as_deref()
                .and_then(Path::parent)
                .filter(|dir| **dir != self.repo.toplevel)
                .map(Path::to_owned),
            _ => None,
        };
        let (anchor, text) = match self.name_in_project() {
            // Every repository has its own directory.
            Some(name) if !self.config.lanes_root.contains("{repo}") => (None, format!("{text}/{name}")),
            Some(_) => (None, text),
            None => (anchor, text),
        };
        normal(&anchor.unwrap_or_else(|| self.repo.root.clone()).join(expand_home(&text)))
    }

    /// Applies `--no-sandbox`.
    pub fn without_sandbox(&mut self) -> Result<(), Refusal> {
        let diagnostics = self.config.apply_flag("--no-sandbox", "sandbox.mode", "off");
        if has_errors(&diagnostics) { Err(Refusal::diagnosed(diagnostics)) } else { Ok(()) }
    }

    /// Selects the profiles that `--profiles` names, if given. Each has to exist.
    pub fn choose_profiles(&mut self, names: Option<&str>) -> Result<(), Refusal> {
        let mut diagnostics = match names {
            Some(names) => self.config.apply_flag("--profiles", "profiles", names),
            None => Vec::new(),
        };
        let home = std::env::var("HOME").unwrap_or_default();
        for profile in self.config.profiles.iter().filter(|profile| profile.implied) {
            if Path::new(&home).join(format!(".claude-{}", profile.name)).is_dir() {
                continue;
            }
            let source = match self.config.origin("profiles") {
                config::Origin::Flag => "--profiles",
                _ => "$REGATTA_PROFILES",
            };
            let (message, hint) = self.config.no_such_profile(profile);
            diagnostics.push(Diagnostic::error(source, Pos::NOWHERE, message).hinted(hint));
        }
        if has_errors(&diagnostics) { Err(Refusal::diagnosed(diagnostics)) } else { Ok(()) }
    }
}

/// The path of this program. If an upgrade replaced it while it runs, this is the new program.
pub fn this_program() -> std::io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    let text = path.to_string_lossy();
    let replaced = text.strip_suffix(" (deleted)").map(PathBuf::from).filter(|new| new.is_file());
    Ok(replaced.unwrap_or(path))
}

/// The directory a command starts from.
pub fn start_dir(options: &ProjectOptions) -> Result<PathBuf, Refusal> {
    match &options.project {
        Some(dir) if dir.is_dir() => Ok(dir.clone()),
        Some(dir) => Err(Refusal::not_found(format!("there is no directory {}", dir.display()))
            .hinted("give --project (-C) the directory of a repository")),
        None => std::env::current_dir().map_err(|error| Refusal::io("reading", Path::new("."), &error)),
    }
}

/// A configuration, and the file it came from.
pub struct ReadConfig {
    /// With the environment applied.
    pub config: Config,
    /// The file alone.
    pub alone: Config,
    pub file: Option<PathBuf>,
    /// The digest of the file as it was read.
    pub digest: Option<String>,
    pub warnings: Vec<Diagnostic>,
}

/// Loads the configuration: flags override the environment, that the file, and that the defaults.
pub fn load_config(options: &ProjectOptions, root: &Path) -> Result<ReadConfig, Refusal> {
    let file = match &options.config {
        Some(file) => Some(file.clone()),
        None => {
            [CONFIG_FILE, ROOKERY_FILE].map(|name| root.join(name)).into_iter().find(|file| file.exists())
        }
    };
    let mut digest = None;
    let (mut config, mut diagnostics) = match &file {
        None => (Config::default(), Vec::new()),
        Some(path) => {
            let text = std::fs::read(path).map_err(|error| unreadable(path, &error))?;
            digest = Some(SettingsFile::digest(&text));
            let shown = shown(path);
            let text = String::from_utf8(text).map_err(|error| {
                Refusal::usage(format!("{shown} is not UTF-8 at byte {}", error.utf8_error().valid_up_to()))
                    .hinted("save it as UTF-8")
            })?;
            if path.file_name() == Some(ROOKERY_FILE.as_ref()) {
                config::parse_rookery(&shown, &text)
            } else {
                config::parse(&shown, &text)
            }
        }
    };
    let alone = config.clone();
    // An agent may have another home directory; and what it asks for does not depend on its machine.
    if !claims_attempt() {
        diagnostics.extend(read_node_file(&mut config, root)?);
    }
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    diagnostics.extend(config.apply_env(variables));
    if has_errors(&diagnostics) {
        Err(Refusal::diagnosed(diagnostics))
    } else {
        Ok(ReadConfig { config, alone, file, digest, warnings: diagnostics })
    }
}

/// Applies the settings of this machine, if it has any.
fn read_node_file(config: &mut Config, root: &Path) -> Result<Vec<Diagnostic>, Refusal> {
    let Some(path) = regatta_engine::node::settings_file() else { return Ok(Vec::new()) };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(Refusal::io("reading", &path, &error)),
    };
    let (node, diagnostics) = config::parse_node(&shown(&path), &text);
    config.of_node(node, root);
    Ok(diagnostics)
}

/// Why the store at an address could not be opened.
fn not_opened(url: &str, error: StoreError) -> Refusal {
    match error {
        StoreError::Invalid(_) if url.starts_with("postgres") => Refusal::from(error).hinted(
            "correct the address or the login: the password comes from ~/.pgpass, which only you may read, or from the file \
             that $REGATTA_STORE_PASSWORD_FILE names",
        ),
        StoreError::Invalid(_) if url.starts_with("zookeeper:") || url.starts_with("zk:") => Refusal::from(error)
            .hinted("correct the address: zookeeper://HOST,HOST/CHROOT?plain=true, with auth_file=PATH for a login"),
        StoreError::Invalid(_) => Refusal::from(error).hinted(
            "omit --store, $REGATTA_STORE and `store:` to use .regatta/regatta.db, or name a file: --store sqlite:PATH",
        ),
        error => crate::stores::refused(error),
    }
}

/// The refusal of a command that creates no store.
pub(crate) fn no_project(missing: Missing) -> Refusal {
    let Missing { address, project, others } = missing;
    let others = if others.is_empty() { "none yet".to_owned() } else { others.join(", ") };
    let creates = "`regatta init`, `run`, `enqueue` and `daemon` create a new one";
    match project {
        Some(project) => Refusal::not_found(format!("the store has no project {project}; it has: {others}"))
            .hinted(format!("correct `project=` in the address of the store; {creates}")),
        None => Refusal::not_found(format!("there is no store at {address} yet"))
            .hinted(format!("correct the address of the store; {creates}")),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Refusal {
    let hint = match error.kind() {
        std::io::ErrorKind::NotFound => {
            "--config or $REGATTA_CONFIG names it; without them Regatta reads regatta.yaml at the repository root, if it exists"
        }
        _ => "make it readable, or name another with --config",
    };
    Refusal::io("reading", path, error).hinted(hint)
}

fn store_url(options: &ProjectOptions, config: &Config, repo: &Repo) -> String {
    let own = repo.state_dir.join("regatta.db");
    let is_unset = config.origin("store") == config::Origin::Default && !own.exists();
    let otherwise = options.otherwise.clone().filter(|_| is_unset);
    let wanted = options.store.clone().or(otherwise).unwrap_or_else(|| config.store.clone());
    let plain = |path: &str| format!("sqlite:{}", normal(&repo.root.join(expand_home(path))).display());
    match wanted.as_str() {
        "sqlite" => format!("sqlite:{}", own.display()),
        url if url.contains("://") => url.to_owned(),
        url => plain(url.strip_prefix("sqlite:").unwrap_or(url)),
    }
}

/// A path as the user would write it from the current directory.
pub fn shown(path: &Path) -> String {
    let cwd = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&cwd).unwrap_or(path).display().to_string()
}

pub fn expand_home(text: &str) -> PathBuf {
    match (text.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => PathBuf::from(text),
    }
}

/// Removes `.` and `..`, by the text alone.
pub(crate) fn normal(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            part => clean.push(part),
        }
    }
    clean
}

/// The variables that every attempt has, and no person.
const ATTEMPT_VARIABLES: [&str; 4] =
    ["REGATTA_TASK", "REGATTA_ATTEMPT", "REGATTA_TOKEN", regatta_engine::process::MARKER];

/// Whether this process has the environment of an attempt.
pub fn claims_attempt() -> bool {
    crate::worker::acting_for().is_some()
        || ATTEMPT_VARIABLES.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// The task that `text` names: by its id, or by the only id that begins with it.
pub async fn find_task(store: &dyn Store, text: &str) -> Result<TaskRecord, Refusal> {
    if let Ok(id) = TaskId::parse(text) {
        match store.task(&id).await {
            Err(StoreError::NotFound(_)) => {}
            other => return Ok(other?),
        }
    }
    let query = TaskQuery { prefix: Some(text.to_owned()), limit: 6, ..TaskQuery::default() };
    let mut found = if text.is_empty() { Vec::new() } else { store.tasks(&query).await? };
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Refusal::not_found(format!("there is no task {text:?}"))
            .hinted("`regatta list --status all` shows all tasks")),
        _ => {
            let names: Vec<&str> = found.iter().map(|record| record.spec.id.as_str()).collect();
            Err(Refusal::usage(format!("{text:?} matches {}", names.join(", ")))
                .hinted("type more of the id"))
        }
    }
}

/// Checks before anything starts that files can be created in a directory, now or when it is first needed. `what` is
/// the flag or the setting that names it.
pub fn require_writable(dir: &Path, what: &str) -> Result<(), Refusal> {
    let refused = |place: &Path, error: &std::io::Error| {
        Refusal::usage(format!("{what}: cannot create files in {}: {error}", place.display()))
            .hinted(format!("name another directory with {what}, or make {} writable", place.display()))
    };
    let existing = dir.ancestors().find(|above| above.symlink_metadata().is_ok()).unwrap_or(dir);
    if !existing.is_dir() {
        return Err(refused(existing, &std::io::ErrorKind::NotADirectory.into()));
    }
    let probe = existing.join(format!(".regatta-probe-{}", std::process::id()));
    std::fs::create_dir(&probe).map_err(|error| refused(existing, &error))?;
    let _ = std::fs::remove_dir(&probe);
    Ok(())
}
