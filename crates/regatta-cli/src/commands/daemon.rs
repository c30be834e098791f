//! `regatta daemon`: runs the engine permanently, in the foreground or detached; its status, and how to stop it.

use std::path::PathBuf;
use std::time::Duration;

use regatta_core::time::human;
use regatta_engine::engine::{End, Ended, Order};
use regatta_engine::notice::{Notice, Notices, Watching};
use regatta_ops::daemon::{
    Reloads, ServeRequest, StartDaemonRequest, StopDaemonRequest, Stopped, wished_end,
};
use regatta_ops::documents::{DaemonState, DaemonStatusDocument, StopHow};
use regatta_ops::start_error::StartError;
use regatta_ops::{Refusal, RefusalKind};
use tokio::sync::{mpsc, oneshot};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::render::lines::Lines;
use crate::ui::Ui;
use regatta_ops::documents::SaidDocument;

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
    /// Run agents, checks and gates without a sandbox (also REGATTA_SANDBOX=off).
    #[arg(long, global = true)]
    no_sandbox: bool,
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
        Self { command: Some(Action::Status), profiles: None, no_sandbox: false }
    }
}

impl From<StopArgs> for Args {
    fn from(args: StopArgs) -> Self {
        Self { command: Some(Action::Stop(args.stop)), profiles: None, no_sandbox: false }
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
    if let (Some(_), Some(Action::Status | Action::Stop(_))) = (&args.profiles, &args.command) {
        return Err(Refusal::usage("--profiles only works when a daemon starts")
            .hinted("`regatta profiles` shows the accounts and their state"));
    }
    match args.command.unwrap_or(Action::Run { detached: false }) {
        Action::Run { detached } => serve_here(detached, args.profiles, args.no_sandbox, global, ui).await,
        Action::Start => start(args.profiles, args.no_sandbox, global, ui).await,
        Action::Status => status(global, ui).await,
        Action::Stop(Stop { drain, kill, timeout }) => {
            let how = match (kill, drain) {
                (true, _) => StopHow::Stop,
                (false, true) => StopHow::Drain,
                (false, false) => StopHow::Leave,
            };
            let timeout = timeout.map(Duration::from_secs);
            stop(StopDaemonRequest { how, timeout }, global, ui).await
        }
    }
}

async fn serve_here(
    detached: bool,
    profiles: Option<String>,
    no_sandbox: bool,
    global: &Global,
    ui: &Ui,
) -> Result<Exit, Refusal> {
    if detached {
        // Fails only for a process group leader, which has no group to leave.
        let _ = rustix::process::setsid();
    }
    let ui = Ui { outlives_reader: true, ..ui.clone() };
    let request = ServeRequest { options: global.options(), profiles, no_sandbox };
    let project = request.open()?;
    let served = serve_project(&request, &project, &ui).await;
    if detached && let Err(refusal) = &served {
        StartError::leave(&project.repo.state_dir, refusal);
    }
    served
}

async fn serve_project(request: &ServeRequest, project: &Project, ui: &Ui) -> Result<Exit, Refusal> {
    crate::trust::require_trust_asking(project, ui).await?;
    let mut daemon = request.begin(project).await?;
    let notices = daemon.notices.clone();
    let (send, orders) = mpsc::unbounded_channel();
    obey_signals(daemon.reloads.clone(), notices.clone(), send, project.repo.state_dir.clone())?;
    let (over, told) = oneshot::channel();
    let watching = daemon.watching.take().expect("the log begins once");
    let log = tokio::spawn(write_log(ui.clone(), watching, told));
    for warning in &project.warnings {
        notices.say(warning.to_string());
    }
    let mut registered = daemon.registered.subscribe();
    let ready = tokio::spawn(async move {
        if registered.wait_for(|is_registered| *is_registered).await.is_ok() {
            notify_systemd("READY=1");
        }
    });
    let result = daemon.serve(env!("CARGO_PKG_VERSION"), orders).await;
    // Its sender is gone: what it says comes first.
    let _ = ready.await;
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

/// Reads the settings again, and makes the daemon use them if the user trusts what they run.
async fn reload(reloads: &Reloads, notices: &Notices, orders: &mpsc::UnboundedSender<Order>) {
    notify_systemd("RELOADING=1");
    match reloads.order().await {
        Ok(order) => {
            notices.say("settings reloaded");
            let _ = orders.send(order);
        }
        Err(error) => {
            notices.say(format!("settings not reloaded, the old ones stay in effect: {}", error.message));
            for diagnostic in error.diagnostics {
                notices.say(diagnostic.to_string());
            }
        }
    }
    notify_systemd("READY=1");
}

/// SIGTERM and SIGINT stop the daemon in the way that `stop` left a note of; a second signal stops the agents too.
/// SIGHUP reads the settings again, and so does a landing that changes them.
fn obey_signals(
    reloads: Reloads,
    notices: Notices,
    orders: mpsc::UnboundedSender<Order>,
    state_dir: PathBuf,
) -> Result<(), Refusal> {
    use tokio::signal::unix::{SignalKind, signal};
    let watch = |kind| {
        signal(kind).map_err(|error| Refusal::new(RefusalKind::CannotWork, format!("signals: {error}")))
    };
    let (mut int, mut term, mut hup) =
        (watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?, watch(SignalKind::hangup())?);
    tokio::spawn(async move {
        let mut asked = 0;
        let mut at_hub = reloads.at_hub();
        loop {
            tokio::select! {
                _ = int.recv() => asked += 1,
                _ = term.recv() => asked += 1,
                _ = hup.recv() => {
                    reload(&reloads, &notices, &orders).await;
                    continue;
                }
                // The hub has others, and the checkout may have followed.
                () = at_hub.differ() => {
                    if reloads.has_file_of_hub(&at_hub) {
                        reload(&reloads, &notices, &orders).await;
                    }
                    continue;
                }
            }
            let wished = wished_end(&state_dir);
            let end = match asked {
                1 => wished,
                2 => End::Stop,
                _ => End::Kill,
            };
            if orders.send(Order::End(end)).is_err() {
                return;
            }
        }
    });
    Ok(())
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
                ui.object(&SaidDocument { at: regatta_engine::clock::now(), kind: "said", text });
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

async fn start(
    profiles: Option<String>,
    no_sandbox: bool,
    global: &Global,
    ui: &Ui,
) -> Result<Exit, Refusal> {
    let mut project = Project::open(&global.options())?;
    project.choose_profiles(profiles.as_deref())?;
    let off = || vec![("REGATTA_SANDBOX", "off".to_owned())];
    let variables = if no_sandbox { off() } else { Vec::new() };
    let request = StartDaemonRequest { options: global.options(), profiles, variables };
    let started = project.start_daemon(&request).await?;
    say(ui, &started, || format!("started: process {}, log {}", started.pid, started.log.display()));
    Ok(Exit::Ok)
}

async fn status(global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let document = Project::look(&global.options())?.daemon_status().await?;
    say(ui, &document, || describe(&document));
    Ok(match document.state {
        DaemonState::None => Exit::NotFound,
        DaemonState::Stalled => Exit::CannotWork,
        _ => Exit::Ok,
    })
}

fn describe(document: &DaemonStatusDocument) -> String {
    let now = regatta_engine::clock::now();
    let state = document.state;
    let mut text = format!("daemon: {state}");
    if let (Some(pid), Some(started_at), Some(awake_at)) =
        (document.pid, document.started_at, document.awake_at)
    {
        let target = document.target.as_ref();
        text.push_str(&format!(
            "{}, process {pid}, up for {}, last awake {} ago",
            target.map_or_else(String::new, |target| format!(", lands on {target}")),
            human(now.since(started_at)),
            human(now.since(awake_at))
        ));
        if let Some(why) = &document.waits_for_store {
            text.push_str(&format!("\nwaiting for its store, without agents: {why}"));
        }
        if let Some(why) = &document.store_away {
            text.push_str(&format!("\nits store does not answer: {why}"));
        }
        if let Some(last) = document.last_progress {
            text.push_str(&format!("\nlast progress: {} ago", human(now.since(last))));
        }
    }
    let counts = document.counts.iter().filter(|(_, n)| **n > 0);
    let counts: Vec<String> = counts.map(|(state, n)| format!("{n} {state}")).collect();
    if !counts.is_empty() {
        text.push_str(&format!("\nqueue: {}", counts.join(", ")));
    }
    text
}

async fn stop(request: StopDaemonRequest, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let Stopped { document, agents } = Project::look(&global.options())?.stop_daemon(&request).await?;
    say(ui, &document, || {
        match (request.how, agents) {
            (StopHow::Leave | StopHow::Stop, Some(0)) => "stopped; no agent is running",
            (StopHow::Leave, _) => "stopped; its agents keep running, and the next daemon adopts them",
            (StopHow::Drain, _) => "stopped; everything that it had started is settled",
            (StopHow::Stop, _) => "stopped with its agents; their work is kept",
        }
        .to_owned()
    });
    Ok(Exit::Ok)
}

fn say(ui: &Ui, document: &impl serde::Serialize, text: impl FnOnce() -> String) {
    if ui.json {
        ui.document(document);
    } else if !ui.quiet {
        ui.line(text());
    }
}
