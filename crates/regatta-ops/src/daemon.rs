//! The daemon of a project: whether one runs, starting and stopping it, and what a process needs to be it.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use regatta_core::admission::Limits;
use regatta_core::event::Event;
use regatta_core::state::StateName;
use regatta_engine::context::{Context, SettingsAtHub, SettingsFile};
use regatta_engine::daemon::{DaemonLock, Presence, presence, serve, settled_presence};
use regatta_engine::engine::{End, Ended, Order};
use regatta_engine::notice::{Notices, Watching, notices};
use regatta_engine::trust::{self, Purpose};
use regatta_store::{MAIN_QUEUE, SessionId, Store, TaskQuery};
use tokio::sync::{mpsc, watch};

use crate::assemble::{assemble, reload};
use crate::documents::{DaemonStarted, DaemonState, DaemonStatusDocument, DaemonStopped, StopHow};
use crate::project::{Project, ProjectOptions, this_program};
use crate::refusal::{Refusal, RefusalKind};
use crate::start_error::StartError;

/// How long starting and stopping wait for the daemon.
const DAEMON_PATIENCE: Duration = Duration::from_secs(60);
/// Running tasks may take long.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The file that says how the daemon is to stop.
const STOP_NOTE: &str = "daemon.stop";

/// A request to start a project's daemon in the background.
#[derive(Clone, Debug, Default)]
pub struct StartDaemonRequest {
    /// The options that the project was opened with.
    pub options: ProjectOptions,
    /// Rotate through these accounts only: names separated by commas, or `none`.
    pub profiles: Option<String>,
    /// Extra variables of its environment.
    pub variables: Vec<(&'static str, String)>,
}

/// A request to stop a project's daemon.
#[derive(Clone, Copy, Debug, Default)]
pub struct StopDaemonRequest {
    /// What happens to its agents.
    pub how: StopHow,
    /// How long to wait for it; zero does not wait.
    pub timeout: Option<Duration>,
}

/// The result of a request to stop a daemon.
pub struct Stopped {
    /// The result as a document.
    pub document: DaemonStopped,
    /// How many tasks have a running agent, if that could be read.
    pub agents: Option<u64>,
}

impl Project {
    /// Whether the daemon runs, since when, and what it is doing.
    pub async fn daemon_status(&self) -> Result<DaemonStatusDocument, Refusal> {
        let (state, info) = match look(self)? {
            Presence::None => (DaemonState::None, None),
            Presence::Starting => (DaemonState::Starting, None),
            Presence::Alive(info) if info.is_starting => (DaemonState::Starting, Some(info)),
            Presence::Alive(info) => (DaemonState::Alive, Some(info)),
            Presence::Stalled(info) => (DaemonState::Stalled, Some(info)),
        };
        let waits =
            info.as_ref().is_some_and(|info| info.waits_for_store.is_some() || info.store_away.is_some());
        let (counts, last) = match self.main_queue().await {
            // The daemon has the same problem, and what it does about it is the answer.
            Err(_) if waits => (Vec::new(), None),
            read => read?,
        };
        Ok(DaemonStatusDocument {
            awake_at: info.as_ref().map(|info| info.awake_at),
            counts: counts.into_iter().collect(),
            last_progress: last.map(|event| event.at),
            pid: info.as_ref().map(|info| info.identity.pid),
            started_at: info.as_ref().map(|info| info.started_at),
            state,
            target: info.as_ref().and_then(|info| info.target.clone()),
            store_away: info.as_ref().and_then(|info| info.store_away.clone()),
            waits_for_store: info.as_ref().and_then(|info| info.waits_for_store.clone()),
            version: info.map(|info| info.version),
        })
    }

    /// The tasks of the main queue by state, and the last event.
    async fn main_queue(&self) -> Result<(Vec<(StateName, u64)>, Option<Event>), Refusal> {
        let Some(store) = self.store_if_any().await? else { return Ok((Vec::new(), None)) };
        let seq = store.last_seq().await?;
        let last = store.events(seq.saturating_sub(1), None, 1).await?;
        Ok((store.counts(Some(MAIN_QUEUE)).await?, last.into_iter().next()))
    }

    /// Starts the daemon in the background; resolves once the store knows it, or with the reason why it ended.
    pub async fn start_daemon(&self, request: &StartDaemonRequest) -> Result<DaemonStarted, Refusal> {
        // Errors that would stop it at once are reported here, not in a log.
        self.require_trust().await?;
        self.make_state_dir()?;
        self.decide_target()?;
        trust::git(&self.repo, start_purpose(self).await?)?;
        match settled(self)? {
            Presence::None => {}
            held => return Err(already(&held)),
        }
        let path = self.repo.state_dir.join("daemon.log");
        let opening = |error: std::io::Error| Refusal::io("opening", &path, &error);
        let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&path).map_err(opening)?;
        let errors = log.try_clone().map_err(opening)?;
        let exe = this_program().map_err(|error| Refusal::io("finding", &path, &error))?;
        let mut command = Command::new(exe);
        command.envs(request.variables.iter().map(|(name, value)| (name, value)));
        command.arg("--project").arg(&self.repo.toplevel);
        if let Some(config) = &request.options.config {
            command.arg("--config").arg(std::path::absolute(config).unwrap_or_else(|_| config.clone()));
        }
        if let Some(store) = &request.options.store {
            command.arg("--store").arg(store);
        }
        command.args(["daemon", "run", "--detached"]);
        if let Some(profiles) = &request.profiles {
            command.arg(format!("--profiles={profiles}"));
        }
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        StartError::remove(&self.repo.state_dir);
        let mut child = command.spawn().map_err(|error| Refusal::io("starting", &path, &error))?;
        let begun = Instant::now();
        loop {
            let found = match look(self)? {
                Presence::Alive(info) if info.identity.pid == child.id() => Some(info),
                _ => None,
            };
            if found.as_ref().is_some_and(|info| !info.is_starting) {
                let (pid, state) = (child.id(), DaemonState::Started);
                return Ok(DaemonStarted { log: path, pid, repo: None, state });
            }
            if let Ok(Some(status)) = child.try_wait() {
                return Err(StartError::take(&self.repo.state_dir).unwrap_or_else(|| {
                    Refusal::new(RefusalKind::CannotWork, format!("the daemon exited immediately ({status})"))
                        .hinted(format!("see {}", path.display()))
                }));
            }
            if begun.elapsed() > DAEMON_PATIENCE {
                let waits = found.and_then(|info| info.waits_for_store);
                return Err(still_starting(child.id(), waits, &path));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Stops the daemon; resolves once it has ended.
    pub async fn stop_daemon(&self, request: &StopDaemonRequest) -> Result<Stopped, Refusal> {
        let info = match settled(self)? {
            Presence::Alive(info) | Presence::Stalled(info) => info,
            Presence::Starting => return Err(Refusal::refused("the daemon is starting; try again")),
            Presence::None => {
                return Err(Refusal::not_found("no daemon serves this project")
                    .hinted("`regatta daemon start` starts one"));
            }
        };
        let pid = info.identity.pid;
        let note = self.repo.state_dir.join(STOP_NOTE);
        std::fs::write(&note, request.how.as_str()).map_err(|error| Refusal::io("writing", &note, &error))?;
        info.identity.signal(rustix::process::Signal::TERM).map_err(|error| {
            Refusal::new(RefusalKind::CannotWork, format!("signalling process {pid}: {error}"))
        })?;
        let patience = match (request.timeout, request.how) {
            (Some(timeout), _) => timeout,
            (None, StopHow::Drain) => FOR_EVER,
            (None, _) => DAEMON_PATIENCE,
        };
        if !patience.is_zero() {
            let gone = tokio::task::spawn_blocking(move || info.identity.wait_gone(patience)).await;
            if !gone.expect("waiting does not panic").unwrap_or(false) {
                return Err(Refusal::new(
                    RefusalKind::TimedOut,
                    format!("process {pid} is still running"),
                )
                .hinted(
                    "`regatta daemon status` checks again; `regatta daemon stop --kill` stops its agents too",
                ));
            }
        }
        let document = DaemonStopped { how: request.how, pid, state: DaemonState::Stopped };
        // Counted after the daemon has stopped, because until then it may start more.
        Ok(Stopped { document, agents: with_agents(self).await.ok() })
    }
}

/// The daemon lives, and is not known to its store.
fn still_starting(pid: u32, waits_for_store: Option<String>, log: &Path) -> Refusal {
    let why = waits_for_store.map_or_else(String::new, |why| format!(": it waits for its store ({why})"));
    Refusal::new(RefusalKind::TimedOut, format!("the daemon, process {pid}, is still starting{why}")).hinted(
        format!(
            "`regatta daemon status` checks again, `regatta daemon stop` stops it; see {}",
            log.display()
        ),
    )
}

fn look(project: &Project) -> Result<Presence, Refusal> {
    presence(&project.repo).map_err(|error| Refusal::io("reading", &project.repo.state_dir, &error))
}

fn settled(project: &Project) -> Result<Presence, Refusal> {
    settled_presence(&project.repo).map_err(|error| Refusal::io("reading", &project.repo.state_dir, &error))
}

fn already(held: &Presence) -> Refusal {
    match held {
        Presence::Alive(info) | Presence::Stalled(info) => {
            Refusal::refused(format!("a daemon already serves this project: process {}", info.identity.pid))
        }
        Presence::Starting | Presence::None => Refusal::refused("a daemon of this project is starting"),
    }
    .hinted("`regatta daemon status` shows it, `regatta daemon stop` stops it")
}

/// How many tasks have a running agent.
async fn with_agents(project: &Project) -> Result<u64, Refusal> {
    let Some(store) = project.store_if_any().await? else { return Ok(0) };
    let counts = store.counts(None).await?;
    Ok(counts.iter().filter(|(name, _)| name.is_claimed()).map(|(_, n)| n).sum())
}

/// The same before a store exists.
async fn start_purpose(project: &Project) -> Result<Purpose, Refusal> {
    match project.store_if_any().await? {
        Some(store) => purpose(store.as_ref()).await,
        None => Ok(Purpose::Start),
    }
}

/// A daemon that adopts another daemon's agents continues with what was trusted before they started.
async fn purpose(store: &dyn Store) -> Result<Purpose, Refusal> {
    let states = StateName::all_that(StateName::is_claimed);
    let query = TaskQuery { states, limit: 1, ..TaskQuery::default() };
    Ok(if store.briefs(&query).await?.is_empty() { Purpose::Start } else { Purpose::Continue })
}

fn limits(project: &Project) -> Limits {
    let (max_workers, groups) = (project.config.max_workers, project.config.limits.groups.clone());
    project.with_repo_limits(Limits { max_workers, groups, ..Limits::default() })
}

/// What a process needs to become a project's daemon.
#[derive(Clone, Debug, Default)]
pub struct ServeRequest {
    /// The project.
    pub options: ProjectOptions,
    /// Rotate through these accounts only: names separated by commas, or `none`.
    pub profiles: Option<String>,
    /// Start everything without a sandbox.
    pub no_sandbox: bool,
}

impl ServeRequest {
    /// Opens the project with the request's settings.
    pub fn open(&self) -> Result<Project, Refusal> {
        let mut project = Project::open(&self.options)?;
        project.choose_profiles(self.profiles.as_deref())?;
        if self.no_sandbox {
            project.without_sandbox()?;
        }
        Ok(project)
    }

    /// Takes the project's lock and builds the engine's context.
    pub async fn begin(&self, project: &Project) -> Result<Daemon, Refusal> {
        project.require_trust().await?;
        project.make_state_dir()?;
        let lock = match DaemonLock::take(&project.repo) {
            Ok(Ok(lock)) => lock,
            Ok(Err(held)) => return Err(already(&held)),
            Err(error) => return Err(Refusal::io("locking", &project.repo.state_dir, &error)),
        };
        // A stop note that the last daemon died before reading does not concern this one.
        let _ = std::fs::remove_file(project.repo.state_dir.join(STOP_NOTE));
        let store = project.create_store().await?;
        let (notices, watching) = notices();
        let (purpose, session) = (purpose(store.as_ref()).await?, SessionId::fresh("daemon"));
        let ctx = assemble(project, store, session, purpose, notices.clone()).await?;
        crate::sandbox::check(&ctx)?;
        let read = watch::channel(Some(project.settings_file())).0;
        let reloads = Reloads { request: self.clone(), ctx: ctx.clone(), read };
        let registered = watch::channel(false).0;
        let limits = limits(project);
        Ok(Daemon { notices, watching: Some(watching), reloads, registered, ctx, lock, limits })
    }
}

/// A daemon that is ready to serve.
pub struct Daemon {
    /// Sends notices to the caller that watches.
    pub notices: Notices,
    /// What happens, for the caller to take and show.
    pub watching: Option<Watching>,
    /// Reads the settings again.
    pub reloads: Reloads,
    /// Becomes true once the store knows its session.
    pub registered: watch::Sender<bool>,
    ctx: Arc<Context>,
    lock: DaemonLock,
    limits: Limits,
}

impl Daemon {
    /// Serves the queue until an order ends it.
    pub async fn serve(
        self,
        version: &'static str,
        orders: mpsc::UnboundedReceiver<Order>,
    ) -> Result<Ended, Refusal> {
        Ok(serve(self.ctx, self.lock, version, self.limits, orders, self.registered).await?)
    }
}

/// What a daemon was started with, for reading its settings again.
#[derive(Clone)]
pub struct Reloads {
    request: ServeRequest,
    /// Its first context; those of later settings share its services, its memory and its repository.
    ctx: Arc<Context>,
    /// The file of the settings as it was last read.
    read: watch::Sender<Option<SettingsFile>>,
}

impl Reloads {
    /// Follows the settings at the hub's target.
    pub fn at_hub(&self) -> SettingsAtHub {
        self.ctx.settings_at_hub()
    }

    /// Whether the file of the settings is the one at the hub by now, and was not read yet. A file with other edits is
    /// read when its user asks for it.
    pub fn has_file_of_hub(&self, at_hub: &SettingsAtHub) -> bool {
        let file = self.file_now();
        at_hub.is(&file) && self.read.borrow().as_ref() != Some(&file)
    }

    /// The file of the settings as it is now. A damaged one is compared by its text.
    fn file_now(&self) -> SettingsFile {
        if let Ok(project) = self.request.open() {
            return project.settings_file();
        }
        let name = self.ctx.settings.file.name.clone();
        let text = std::fs::read(self.ctx.repository.checkout.join(&name)).ok();
        SettingsFile { digest: text.map(|text| SettingsFile::digest(&text)), name }
    }

    /// Reads the settings again. The order makes the daemon use them.
    pub async fn order(&self) -> Result<Order, Refusal> {
        let notices = &self.ctx.services.notices;
        self.read.send_replace(Some(self.file_now()));
        let mut project = self.request.open()?;
        // A daemon lands on the branch it started with; a changed `target` takes effect with the next daemon.
        let target = &self.ctx.repository.target;
        if let Some(named) = project.config.target.as_deref().filter(|named| named != target) {
            notices.say(format!("the target stays {target}; after a restart the daemon lands on {named}"));
        }
        project.config.target = Some(target.to_owned());
        for note in project.require_trust().await? {
            notices.say(note);
        }
        let ctx = reload(&self.ctx, &project).await?;
        for warning in &project.warnings {
            notices.say(warning.to_string());
        }
        Ok(Order::Reload { ctx, limits: limits(&project) })
    }
}

/// How a daemon that gets a signal should end: as the note says that [`Project::stop_daemon`] left, which this
/// removes, or in the usual way.
pub fn wished_end(state_dir: &Path) -> End {
    let note = state_dir.join(STOP_NOTE);
    let text = std::fs::read_to_string(&note).unwrap_or_default();
    let _ = std::fs::remove_file(&note);
    match StopHow::parse(text.trim()) {
        Some(StopHow::Drain) => End::Drain,
        Some(StopHow::Stop) => End::Stop,
        Some(StopHow::Leave) | None => End::Leave,
    }
}
