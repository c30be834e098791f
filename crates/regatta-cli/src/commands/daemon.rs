//! `regatta daemon`: runs the engine permanently, in the foreground or detached; its status, and how to stop it.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use regatta_core::admission::Limits;
use regatta_core::state::StateName;
use regatta_engine::context::Context;
use regatta_engine::daemon::{DaemonInfo, DaemonLock, Presence, presence, serve, settled_presence};
use regatta_engine::engine::{End, Ended, Order};
use regatta_engine::notice::{Notice, Notices, Watching, notices};
use regatta_engine::trust::{self, Purpose};
use regatta_store::{SessionId, Store};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

pub(crate) use regatta_ops::assemble::{CLAUDE_BIN, assemble, reload};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::render::lines::Lines;
use crate::ui::Ui;
use regatta_ops::{Refusal, RefusalKind};

/// How long `start` and `stop` wait for the daemon.
const PATIENCE: Duration = Duration::from_secs(60);

/// Start, stop or check the daemon, which works through the queue.
///
/// `run` (the default) stays in the foreground, for a terminal, systemd or pm2. A project has one daemon. SIGTERM
/// leaves the agents running, and the next daemon adopts them; SIGHUP reads regatta.yaml again.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Action>,
    /// Rotate through these accounts only, in this order: comma-separated names from `profiles`, or `none`.
    #[arg(long, value_name = "NAMES", global = true)]
    profiles: Option<String>,
}

/// The same as `regatta daemon status`, as in rookery.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct StatusArgs {}

/// The same as `regatta daemon stop`, as in rookery.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct StopArgs {
    #[command(flatten)]
    stop: Stop,
}

impl From<StatusArgs> for Args {
    fn from(StatusArgs {}: StatusArgs) -> Self {
        Self { command: Some(Action::Status), profiles: None }
    }
}

impl From<StopArgs> for Args {
    fn from(args: StopArgs) -> Self {
        Self { command: Some(Action::Stop(args.stop)), profiles: None }
    }
}

/// How to stop the daemon.
#[derive(Clone, Debug, clap::Args)]
struct Stop {
    /// Start nothing more, wait for running tasks, then stop.
    #[arg(long, conflicts_with = "kill")]
    drain: bool,
    /// Stop the agents too. Their tasks go back to the queue uncharged, and their work is kept.
    #[arg(long)]
    kill: bool,
    /// Seconds to wait for it to stop; 0 does not wait.
    #[arg(long, value_name = "S")]
    timeout: Option<u64>,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Action {
    /// Run in the foreground (the default).
    Run {
        /// Start a new process session; used by `start`.
        #[arg(long, hide = true)]
        detached: bool,
    },
    /// Run in the background; its output goes to .regatta/daemon.log.
    Start,
    /// Show whether the daemon is running, since when, and what it is doing.
    Status,
    /// Stop the daemon. Its agents keep running and the next daemon adopts them, unless --drain or --kill is given.
    Stop(Stop),
}

impl Args {
    /// Whether the command changes nothing.
    pub(crate) fn only_looks(&self) -> bool {
        matches!(self.command, Some(Action::Status))
    }
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let profiles = args.profiles.as_deref();
    if let (Some(_), Some(Action::Status | Action::Stop(_))) = (profiles, &args.command) {
        return Err(Refusal::usage("--profiles only works when a daemon starts")
            .hinted("`regatta profiles` shows the accounts and their state"));
    }
    match args.command.unwrap_or(Action::Run { detached: false }) {
        Action::Run { detached } => serve_here(detached, profiles, global, ui).await,
        Action::Start => start(profiles, global, ui).await,
        Action::Status => status(global, ui).await,
        Action::Stop(Stop { drain, kill, timeout }) => {
            let end = if kill {
                End::Stop
            } else if drain {
                End::Drain
            } else {
                End::Leave
            };
            stop(end, timeout, global, ui).await
        }
    }
}

async fn serve_here(
    detached: bool,
    profiles: Option<&str>,
    global: &Global,
    ui: &Ui,
) -> Result<Exit, Refusal> {
    if detached {
        // Fails only for a process group leader, which has no group to leave.
        let _ = rustix::process::setsid();
    }
    let ui = Ui { outlives_reader: true, ..ui.clone() };
    let mut project = Project::open(&global.options())?;
    project.choose_profiles(profiles)?;
    crate::trust::require_trust_asking(&project, &ui).await?;
    project.make_state_dir()?;
    let lock = match DaemonLock::take(&project.repo) {
        Ok(Ok(lock)) => lock,
        Ok(Err(held)) => return Err(already(&held)),
        Err(error) => return Err(Refusal::io("locking", &project.repo.state_dir, &error)),
    };
    // A stop note that the last daemon died before reading does not concern this one.
    let _ = std::fs::remove_file(project.repo.state_dir.join("daemon.stop"));
    let store = project.create_store().await?;
    let (notices, watching) = notices();
    let purpose = purpose(store.as_ref()).await?;
    let ctx = assemble(&project, store.clone(), SessionId::fresh("daemon"), purpose, notices.clone()).await?;
    let (send, orders) = mpsc::unbounded_channel();
    let state_dir = project.repo.state_dir.clone();
    let started = Started { global: global.clone(), profiles: profiles.map(str::to_owned), ctx: ctx.clone() };
    obey_signals(started, send, state_dir)?;
    let (over, told) = oneshot::channel();
    let log = tokio::spawn(write_log(ui.clone(), watching, told));
    for warning in &project.warnings {
        notices.say(warning.to_string());
    }
    let limits = limits(&project);
    notify_systemd("READY=1");
    let result = serve(ctx.clone(), lock, env!("CARGO_PKG_VERSION"), limits, orders).await;
    notify_systemd("STOPPING=1");
    if let Ok(ended) = &result {
        let text = match ended {
            Ended::Left => "ended; agents that still run are adopted by the next daemon",
            _ => "ended",
        };
        notices.say(text);
    }
    // Ends the log only after the last notices were written.
    let _ = over.send(());
    let _ = log.await;
    result?;
    Ok(Exit::Ok)
}

/// The same before a store exists.
async fn start_purpose(project: &Project) -> Result<Purpose, Refusal> {
    if project.has_store() { purpose(project.store().await?.as_ref()).await } else { Ok(Purpose::Start) }
}

/// A daemon that adopts another daemon's agents continues with what was trusted before they started.
async fn purpose(store: &dyn Store) -> Result<Purpose, Refusal> {
    let query = regatta_store::TaskQuery {
        states: StateName::all_that(StateName::is_claimed),
        limit: 1,
        ..Default::default()
    };
    Ok(if store.briefs(&query).await?.is_empty() { Purpose::Start } else { Purpose::Continue })
}

fn limits(project: &Project) -> Limits {
    Limits { max_workers: project.config.max_workers, groups: project.config.limits.groups.clone() }
}

/// What the daemon was started with, for reading its settings again.
struct Started {
    global: Global,
    profiles: Option<String>,
    /// Its first context; those of later settings share its services, its memory and its repository.
    ctx: Arc<Context>,
}

impl Started {
    async fn reload(&self) -> Result<Order, Refusal> {
        let notices = &self.ctx.services.notices;
        let mut project = Project::open(&self.global.options())?;
        project.choose_profiles(self.profiles.as_deref())?;
        keep_target(&mut project, &self.ctx.repository.target, notices);
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

/// SIGTERM and SIGINT stop the daemon in the way that `stop` left a note of; a second signal stops the agents too.
/// SIGHUP reads the settings again.
fn obey_signals(
    started: Started,
    orders: mpsc::UnboundedSender<Order>,
    state_dir: std::path::PathBuf,
) -> Result<(), Refusal> {
    use tokio::signal::unix::{SignalKind, signal};
    let watch = |kind| {
        signal(kind).map_err(|error| Refusal::new(RefusalKind::CannotWork, format!("signals: {error}")))
    };
    let (mut int, mut term, mut hup) =
        (watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?, watch(SignalKind::hangup())?);
    tokio::spawn(async move {
        let mut asked = 0;
        loop {
            tokio::select! {
                _ = int.recv() => asked += 1,
                _ = term.recv() => asked += 1,
                _ = hup.recv() => {
                    notify_systemd("RELOADING=1");
                    let notices = &started.ctx.services.notices;
                    match started.reload().await {
                        Ok(order) => {
                            notices.say("settings reloaded");
                            let _ = orders.send(order);
                        }
                        Err(error) => {
                            let text = format!("settings not reloaded, the old ones stay in effect: {}", error.message);
                            notices.say(text);
                            for diagnostic in error.diagnostics {
                                notices.say(diagnostic.to_string());
                            }
                        }
                    }
                    notify_systemd("READY=1");
                    continue;
                }
            }
            let end = match asked {
                1 => std::fs::read_to_string(state_dir.join("daemon.stop"))
                    .ok()
                    .and_then(|text| way(&text))
                    .unwrap_or(End::Leave),
                2 => End::Stop,
                _ => End::Kill,
            };
            let _ = std::fs::remove_file(state_dir.join("daemon.stop"));
            if orders.send(Order::End(end)).is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// A daemon lands on the branch it started with; a changed `target` takes effect with the next daemon.
fn keep_target(project: &mut Project, target: &str, notices: &Notices) {
    if let Some(named) = project.config.target.as_deref().filter(|named| *named != target) {
        notices.say(format!("the target stays {target}; after a restart the daemon lands on {named}"));
    }
    project.config.target = Some(target.to_owned());
}

fn way(text: &str) -> Option<End> {
    match text.trim() {
        "drain" => Some(End::Drain),
        "leave" => Some(End::Leave),
        "stop" => Some(End::Stop),
        _ => None,
    }
}

/// Writes one JSON object per line, or plain lines on a terminal.
async fn write_log(ui: Ui, mut watching: Watching, mut over: oneshot::Receiver<()>) {
    let json = ui.json || !ui.terminal;
    let mut lines = Lines::new(&ui, regatta_engine::clock::now());
    loop {
        let notice = tokio::select! {
            biased;
            notice = watching.recv() => notice,
            _ = &mut over => None,
        };
        let Some(notice) = notice else { return };
        match notice {
            notice if !json => lines.show(&notice),
            Notice::Event(event) => ui.object(&event),
            Notice::Say(text) => {
                ui.object(&json!({ "at": regatta_engine::clock::now(), "kind": "said", "text": text }));
            }
            Notice::Held { .. } | Notice::Live { .. } => {}
        }
    }
}

/// Notifies systemd, if it listens.
fn notify_systemd(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let Ok(socket) = std::os::unix::net::UnixDatagram::unbound() else { return };
    use std::os::unix::ffi::OsStrExt;
    let sent = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => {
            use std::os::linux::net::SocketAddrExt;
            std::os::unix::net::SocketAddr::from_abstract_name(name)
                .and_then(|address| socket.send_to_addr(state.as_bytes(), &address))
        }
        None => socket.send_to(state.as_bytes(), &path),
    };
    // A failed notification is no reason to stop.
    let _ = sent;
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

async fn start(profiles: Option<&str>, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let mut project = Project::open(&global.options())?;
    project.choose_profiles(profiles)?;
    let (pid, log) = launch(&project, profiles, &[], global).await?;
    say(ui, &json!({ "state": "started", "pid": pid, "log": log }), || {
        format!("started: process {pid}, log {}", log.display())
    });
    Ok(Exit::Ok)
}

/// Starts a project's daemon in the background, with these extra variables. Returns its process and its log once it
/// serves.
pub(crate) async fn launch(
    project: &Project,
    profiles: Option<&str>,
    variables: &[(&str, &str)],
    global: &Global,
) -> Result<(u32, PathBuf), Refusal> {
    // Errors that would stop it at once are reported here, not in a log.
    project.require_trust().await?;
    project.make_state_dir()?;
    project.decide_target()?;
    trust::git(&project.repo, start_purpose(project).await?)?;
    let dir = &project.repo.state_dir;
    let look = || presence(&project.repo).map_err(|error| Refusal::io("reading", dir, &error));
    match settled_presence(&project.repo).map_err(|error| Refusal::io("reading", dir, &error))? {
        Presence::None => {}
        held => return Err(already(&held)),
    }
    let path = dir.join("daemon.log");
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
    let log = log.map_err(|error| Refusal::io("opening", &path, &error))?;
    let errors = log.try_clone().map_err(|error| Refusal::io("opening", &path, &error))?;
    let exe = crate::project::this_program().map_err(|error| Refusal::io("finding", &path, &error))?;
    let mut command = Command::new(exe);
    command.envs(variables.iter().copied()).arg("--project").arg(&project.repo.toplevel);
    if let Some(config) = &global.config {
        command.arg("--config").arg(std::path::absolute(config).unwrap_or_else(|_| config.clone()));
    }
    if let Some(store) = &global.store {
        command.arg("--store").arg(store);
    }
    command.args(["daemon", "run", "--detached"]);
    if let Some(profiles) = profiles {
        command.arg(format!("--profiles={profiles}"));
    }
    command.stdin(Stdio::null()).stdout(log).stderr(errors);
    let mut child = command.spawn().map_err(|error| Refusal::io("starting", &path, &error))?;
    let begun = Instant::now();
    loop {
        if let Presence::Alive(info) = look()?
            && info.identity.pid == child.id()
        {
            return Ok((info.identity.pid, path));
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(Refusal::new(
                RefusalKind::CannotWork,
                format!("the daemon exited immediately ({status})"),
            )
            .hinted(format!("see {}", path.display())));
        }
        if begun.elapsed() > PATIENCE {
            return Err(Refusal::new(RefusalKind::TimedOut, "the daemon did not start")
                .hinted(format!("see {}", path.display())));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn status(global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::look(&global.options())?;
    let dir = &project.repo.state_dir;
    let found = presence(&project.repo).map_err(|error| Refusal::io("reading", dir, &error))?;
    let (word, info) = match &found {
        Presence::None => ("none", None),
        Presence::Starting => ("starting", None),
        Presence::Alive(info) => ("alive", Some(info)),
        Presence::Stalled(info) => ("stalled", Some(info)),
    };
    let (counts, last) = match project.has_store() {
        false => (Vec::new(), None),
        true => {
            let store = project.store().await?;
            let seq = store.last_seq().await?;
            let last = store.events(seq.saturating_sub(1), None, 1).await?;
            (store.counts(Some(regatta_store::MAIN_QUEUE)).await?, last.into_iter().next())
        }
    };
    let counts: std::collections::BTreeMap<StateName, u64> = counts.into_iter().collect();
    let last_at = last.map(|event| event.at);
    let document = json!({
        "state": word,
        "pid": info.map(|info| info.identity.pid),
        "started_at": info.map(|info| info.started_at),
        "awake_at": info.map(|info| info.awake_at),
        "version": info.map(|info| info.version.clone()),
        "target": info.and_then(|info| info.target.clone()),
        "last_progress": last_at,
        "counts": counts,
    });
    say(ui, &document, || describe(word, info, last_at, &counts));
    Ok(match found {
        Presence::None => Exit::NotFound,
        Presence::Stalled(_) => Exit::CannotWork,
        Presence::Alive(_) | Presence::Starting => Exit::Ok,
    })
}

fn describe(
    word: &str,
    info: Option<&DaemonInfo>,
    last: Option<regatta_core::time::Timestamp>,
    counts: &std::collections::BTreeMap<StateName, u64>,
) -> String {
    let now = regatta_engine::clock::now();
    let mut text = match info {
        None => format!("daemon: {word}"),
        Some(info) => format!(
            "daemon: {word}{}, process {}, up for {}, last awake {} ago",
            info.target.as_ref().map_or_else(String::new, |target| format!(", lands on {target}")),
            info.identity.pid,
            regatta_core::time::human(now.since(info.started_at)),
            regatta_core::time::human(now.since(info.awake_at))
        ),
    };
    if let (Some(last), Some(_)) = (last, info) {
        text.push_str(&format!("\nlast progress: {} ago", regatta_core::time::human(now.since(last))));
    }
    let counts: Vec<String> =
        counts.iter().filter(|(_, n)| **n > 0).map(|(state, n)| format!("{n} {state}")).collect();
    if !counts.is_empty() {
        text.push_str(&format!("\nqueue: {}", counts.join(", ")));
    }
    text
}

/// How many tasks have a running agent.
async fn with_agents(project: &Project) -> Result<u64, Refusal> {
    if !project.has_store() {
        return Ok(0);
    }
    let counts = project.store().await?.counts(None).await?;
    Ok(counts.iter().filter(|(name, _)| name.is_claimed()).map(|(_, n)| n).sum())
}

async fn stop(end: End, timeout: Option<u64>, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::look(&global.options())?;
    let dir = &project.repo.state_dir;
    let found = settled_presence(&project.repo).map_err(|error| Refusal::io("reading", dir, &error))?;
    let info = match found {
        Presence::Alive(info) | Presence::Stalled(info) => info,
        Presence::Starting => return Err(Refusal::refused("the daemon is starting; try again")),
        Presence::None => {
            return Err(Refusal::not_found("no daemon serves this project")
                .hinted("`regatta daemon start` starts one"));
        }
    };
    let word = match end {
        End::Drain => "drain",
        End::Leave => "leave",
        End::Stop | End::Kill => "stop",
    };
    let note = dir.join("daemon.stop");
    std::fs::write(&note, word).map_err(|error| Refusal::io("writing", &note, &error))?;
    info.identity.signal(rustix::process::Signal::TERM).map_err(|error| {
        Refusal::new(RefusalKind::CannotWork, format!("signalling process {}: {error}", info.identity.pid))
    })?;
    let patience = match (timeout, end) {
        (Some(seconds), _) => Duration::from_secs(seconds),
        // Running tasks may take long.
        (None, End::Drain) => Duration::from_secs(365 * 24 * 3600),
        (None, _) => PATIENCE,
    };
    if !patience.is_zero() && !info.identity.wait_gone(patience).unwrap_or(false) {
        return Err(Refusal::new(
            RefusalKind::TimedOut,
            format!("process {} is still running", info.identity.pid),
        )
        .hinted("`regatta daemon status` checks again; `regatta daemon stop --kill` stops its agents too"));
    }
    // Counted after the daemon has stopped, because until then it may start more.
    let left = with_agents(&project).await.unwrap_or(1);
    say(ui, &json!({ "state": "stopped", "pid": info.identity.pid, "how": word }), || match end {
        End::Leave | End::Stop | End::Kill if left == 0 => "stopped; no agent is running".to_owned(),
        End::Leave => "stopped; its agents keep running, and the next daemon adopts them".to_owned(),
        End::Drain => "stopped; everything that it had started is settled".to_owned(),
        End::Stop | End::Kill => "stopped with its agents; their work is kept".to_owned(),
    });
    Ok(Exit::Ok)
}

fn say(ui: &Ui, document: &serde_json::Value, text: impl FnOnce() -> String) {
    if ui.json {
        ui.document(document);
    } else if !ui.quiet {
        ui.line(text());
    }
}
