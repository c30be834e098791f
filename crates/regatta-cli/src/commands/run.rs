//! `regatta run PLAN…`: runs plan files in the foreground until their work has landed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use regatta_core::graph;
use regatta_core::report::Report;
use regatta_core::state::StateName;
use regatta_core::taskfile::Loaded;
use regatta_core::time::{Timestamp, counted};
use regatta_engine::engine::{End, Ended, Order};
use regatta_engine::notice::Watching;
use regatta_ops::everywhere::left_behind;
use regatta_ops::foreground::{ForegroundRequest, call_hooks, stages};
use regatta_ops::pulls::Proposed;
use regatta_ops::report::write_report;
use regatta_ops::{Refusal, RefusalKind};
use regatta_store::Store;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::render::dashboard::Dashboard;
use crate::render::lines::Lines;
use crate::render::shown::clean_line;
use crate::render::state::mark;
use crate::ui::{Style, Ui};

/// Run plans or task files here, and wait until they are finished.
///
/// Each task gets an agent in its own lane, a git worktree. Work that passes is committed, checked and landed on the
/// target branch. Ctrl-C stops cleanly and keeps all work; `--resume` continues.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Plan files or task files (Markdown with YAML frontmatter).
    #[arg(required = true, value_name = "PLAN")]
    pub(crate) plans: Vec<PathBuf>,
    /// How many agents may run at once.
    #[arg(long, short = 'j', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) max_workers: Option<u32>,
    /// Show which tasks would run together, and run nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Queue the tasks for the daemons of all machines that share the store, and follow them from here.
    ///
    /// All tasks are queued, or none. Ctrl-C stops following: the tasks stay queued. `--resume` follows tasks that are
    /// queued already, and retries those that failed. Options that concern agents of this machine are refused.
    #[arg(long)]
    pub(crate) everywhere: bool,
    /// Continue an earlier run of these tasks: landed and done tasks are left alone, live agents are adopted,
    /// everything else is tried again.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Run everything again, including tasks that an earlier run finished or landed. Agents it left running are ended
    /// first, and their work is kept. Landed work stays on the target.
    #[arg(long, conflicts_with = "resume")]
    pub(crate) again: bool,
    /// Start nothing more after the first failure.
    #[arg(long, overrides_with = "keep_going")]
    pub(crate) fail_fast: bool,
    /// Run everything that does not depend on a failed task (the default).
    #[arg(long, overrides_with = "fail_fast")]
    pub(crate) keep_going: bool,
    /// Write a report to this file: JSON if it ends in .json, otherwise Markdown.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Use this agent for every task.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// The most that all tasks of this run together may cost, in dollars.
    #[arg(long, value_name = "N")]
    pub(crate) budget_usd: Option<String>,
    /// The program to start for agents of kind claude.
    #[arg(long, value_name = "PATH")]
    pub(crate) claude_exe: Option<PathBuf>,
    /// Keep agents' output in this directory instead of .regatta/logs.
    #[arg(long, value_name = "DIR")]
    pub(crate) log_dir: Option<PathBuf>,
    /// Delete the output of agents that succeeded.
    #[arg(long)]
    pub(crate) no_log: bool,
    /// Show the dashboard even if standard output is not a terminal.
    #[arg(long, overrides_with = "no_dashboard")]
    pub(crate) dashboard: bool,
    /// Print plain lines instead of the dashboard.
    #[arg(long, overrides_with = "dashboard")]
    pub(crate) no_dashboard: bool,
    /// Land nothing: passing work stays on its branch regatta/ID.
    #[arg(long)]
    pub(crate) no_land: bool,
    /// Refuse plans with tasks that could run at once and declare overlapping writes.
    #[arg(long)]
    pub(crate) strict: bool,
    /// The branch to land on.
    #[arg(long, value_name = "BRANCH")]
    pub(crate) target: Option<String>,
    /// Rotate through these accounts only, in this order: comma-separated names from `profiles`, or `none`.
    #[arg(long, value_name = "NAMES")]
    pub(crate) profiles: Option<String>,
    /// Run agents, checks and gates without a sandbox (also REGATTA_SANDBOX=off).
    #[arg(long)]
    pub(crate) no_sandbox: bool,
    /// Keep the lanes of settled tasks (also PO_KEEP_WORKTREE=1).
    #[arg(long)]
    pub(crate) keep_lanes: bool,
    /// What is the end of a task that lands by pull request. With `proposed`, an open one is enough for exit code 0;
    /// a daemon, or `--resume`, continues.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub(crate) until: Until,
}

/// When the work of a task is good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Until {
    /// Its pull request is merged.
    #[default]
    Landed,
    /// Its pull request is open.
    Proposed,
}

impl Args {
    /// The request, without what concerns the screen.
    fn request(&self) -> ForegroundRequest {
        ForegroundRequest {
            plans: self.plans.clone(),
            max_workers: self.max_workers,
            resume: self.resume,
            again: self.again,
            fail_fast: self.fail_fast,
            agent: self.agent.clone(),
            budget_usd: self.budget_usd.clone(),
            claude_exe: self.claude_exe.clone(),
            log_dir: self.log_dir.clone(),
            no_log: self.no_log,
            no_land: self.no_land,
            strict: self.strict,
            target: self.target.clone(),
            profiles: self.profiles.clone(),
            no_sandbox: self.no_sandbox,
            keep_lanes: self.keep_lanes
                || std::env::var_os("PO_KEEP_WORKTREE").is_some_and(|value| value == "1"),
            report: self.report.clone(),
        }
    }

    /// Refuses options that concern agents of this machine.
    fn require_anywhere(&self) -> Result<(), Refusal> {
        let refused = [
            (
                self.max_workers.is_some(),
                "--max-workers",
                "`slots` in node.yaml limits a node, `limits.workers_total` all of them",
            ),
            (self.dry_run, "--dry-run", "leave out --everywhere: it shows the stages and runs nothing"),
            (self.fail_fast, "--fail-fast", "`regatta cancel ID…` cancels what is queued"),
            (
                self.budget_usd.is_some(),
                "--budget-usd",
                "`budget` in regatta.yaml applies to all machines, and to each task",
            ),
            (
                self.claude_exe.is_some(),
                "--claude-exe",
                "`agents.NAME.exe` in regatta.yaml names the program of an agent",
            ),
            (self.log_dir.is_some(), "--log-dir", "`regatta logs ID` shows logs of every node"),
            (self.no_log, "--no-log", "`limits.max_log_mb` in regatta.yaml bounds the logs of every node"),
            (
                self.target.is_some(),
                "--target",
                "`target` in regatta.yaml names the branch that all nodes land on",
            ),
            (
                self.profiles.is_some(),
                "--profiles",
                "`profiles` in regatta.yaml lists the accounts of all machines",
            ),
            (self.no_sandbox, "--no-sandbox", "`sandbox` in regatta.yaml applies to all machines"),
            (self.keep_lanes, "--keep-lanes", "`lane.keep` in regatta.yaml applies to all machines"),
            (
                self.until == Until::Proposed,
                "--until proposed",
                "`regatta pr list` shows the pull requests of all machines",
            ),
        ];
        match refused.iter().find(|(is_given, ..)| *is_given) {
            None => Ok(()),
            Some((_, flag, hint)) => {
                Err(Refusal::usage(format!("{flag} cannot be used with --everywhere")).hinted(*hint))
            }
        }
    }

    /// Whether to show the dashboard.
    fn dashboard(&self, ui: &Ui) -> bool {
        !ui.json && !self.no_dashboard && (self.dashboard || ui.terminal && !ui.quiet)
    }
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let ui = &Ui { outlives_reader: true, ..ui.clone() };
    if args.everywhere {
        return everywhere(&args, global, ui).await;
    }
    let request = args.request();
    let project = request.open(&global.options())?;
    let loaded = request.load(&project)?;
    for warning in project.warnings.iter().chain(&loaded.diagnostics) {
        ui.note(warning.to_string());
    }
    if args.dry_run {
        dry_run(&loaded, &project, ui);
        return Ok(Exit::Ok);
    }
    crate::trust::require_trust_asking(&project, ui).await?;
    let (store, unfinished) = request.prepare(&project, &loaded).await?;
    if let (1.., false) = (unfinished, ui.json || ui.quiet) {
        let plans = request.names();
        ui.note(format!(
            "starting over what had not succeeded; use `regatta run --resume {plans}` to continue instead"
        ));
    }
    let begun = std::time::Instant::now();
    let dashboard = args.dashboard(ui);
    let (report, ended) = engage(&project, Arc::clone(&store), &loaded, &request, dashboard, ui).await?;
    let proposed = Proposed::of(&report, store.as_ref()).await?;
    let again = format!("`regatta run --resume {}`", request.names());
    let hint = match ended {
        Ended::Settled if report.is_good() => None,
        Ended::Settled if proposed.is_awaited(&report) => {
            // A daemon lands what a run proposed, and starts nothing of its plan.
            let is_waiting = report.tasks.iter().any(|task| task.state == StateName::Pending);
            let go_on = if is_waiting {
                format!("`regatta daemon start` lands it, and then {again} starts the tasks that wait for it")
            } else {
                format!("`regatta daemon start` or {again} continues")
            };
            Some(format!("what is left waits for GitHub or a person; {go_on}"))
        }
        Ended::Settled => {
            Some(format!("`regatta status ID` and `regatta logs ID` show why; {again} retries"))
        }
        Ended::Interrupted => Some(format!("{again} continues")),
        Ended::Left => Some(format!("the agents keep running; {again} continues with them")),
    };
    conclude(&args, &loaded, (&report, &proposed, ended), begun.elapsed(), hint, ui).await
}

/// Queues the tasks for all machines, and follows them.
async fn everywhere(args: &Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    args.require_anywhere()?;
    let request = args.request();
    let project = request.open(&global.options())?;
    let loaded = request.load_everywhere(&project).await?;
    for warning in project.warnings.iter().chain(&loaded.diagnostics) {
        ui.note(warning.to_string());
    }
    crate::trust::require_trust_asking(&project, ui).await?;
    let begun = std::time::Instant::now();
    let stop = interrupted()?;
    let mut following = request.queue_everywhere(&project, &loaded).await?;
    for warning in &following.warnings {
        ui.note(warning.to_string());
    }
    let watching = following.watching.take().expect("the view begins once");
    let (title, start) = (following.title.clone(), following.started_at);
    let live = live_view(args.dashboard(ui), ui, &loaded, (&title, start), watching);
    let result = following.run(stop).await;
    let _ = live.await;
    let (report, ended) = result?;
    let again = format!("`regatta run --everywhere --resume {}`", request.names());
    let hint = match ended {
        Ended::Settled if report.is_good() => None,
        Ended::Settled => {
            Some(format!("`regatta status ID` and `regatta logs ID` show why; {again} retries"))
        }
        Ended::Interrupted | Ended::Left => Some(left_behind(&report, &request.names())),
    };
    conclude(args, &loaded, (&report, &Proposed::default(), ended), begun.elapsed(), hint, ui).await
}

/// Calls webhooks, writes the report, and shows how the run ended.
async fn conclude(
    args: &Args,
    loaded: &Loaded,
    (report, proposed, ended): (&Report, &Proposed, Ended),
    took: Duration,
    hint: Option<String>,
    ui: &Ui,
) -> Result<Exit, Refusal> {
    if ended == Ended::Settled {
        for failed in call_hooks(&loaded.hooks, report, took).await {
            ui.note(format!("warning: {failed}"));
        }
    }
    if let Some(path) = &args.report {
        write_report(path, report)?;
    }
    finish((report, proposed), loaded, args.report.as_deref(), hint, ui);
    let is_enough = args.until == Until::Proposed && proposed.is_all(report);
    Ok(match ended {
        Ended::Interrupted | Ended::Left => Exit::Interrupted,
        Ended::Settled if report.is_good() || is_enough => Exit::Ok,
        Ended::Settled => Exit::TaskFailed,
    })
}

fn dry_run(loaded: &Loaded, project: &Project, ui: &Ui) {
    let document = stages(project, loaded);
    if ui.json {
        ui.document(&document);
        return;
    }
    let stages = document.stages;
    for (n, stage) in stages.iter().enumerate() {
        ui.line(ui.paint(Style::Strong, &format!("Stage {}", n + 1)));
        for id in stage {
            let Some(spec) = loaded.tasks.iter().find(|spec| spec.id == *id) else { continue };
            let after = match spec.deps.as_slice() {
                [] => String::new(),
                deps => {
                    format!("  after {}", deps.iter().map(|dep| dep.as_str()).collect::<Vec<_>>().join(", "))
                }
            };
            ui.line(format!("  {id}  ({}){after}  {}", spec.agent, ui.paint(Style::Dim, &spec.title)));
        }
    }
    ui.line(format!(
        "{} in {}, at most {} at the same time; nothing was run.",
        counted(loaded.tasks.len(), "task"),
        counted(stages.len(), "stage"),
        project.config.max_workers
    ));
}

/// Runs tasks until they are settled, with a live view.
pub(crate) async fn engage(
    project: &Project,
    store: Arc<dyn Store>,
    loaded: &Loaded,
    request: &ForegroundRequest,
    dashboard: bool,
    ui: &Ui,
) -> Result<(Report, Ended), Refusal> {
    if let (Some(note), false) = (project.lands_elsewhere()?, ui.json || ui.quiet) {
        ui.note(note);
    }
    let mut run = request.begin(project, store, loaded).await?;
    let watching = run.watching.take().expect("the view begins once");
    let (title, start) = (run.title.clone(), run.started_at);
    let live = live_view(dashboard, ui, loaded, (&title, start), watching);
    let result = run.run(orders(ui)?).await;
    let _ = live.await;
    result
}

/// Shows notices until the run ends.
fn live_view(
    dashboard: bool,
    ui: &Ui,
    loaded: &Loaded,
    (title, start): (&str, Timestamp),
    mut watching: Watching,
) -> tokio::task::JoinHandle<()> {
    let ui = ui.clone();
    if ui.json {
        return tokio::spawn(async move { while watching.recv().await.is_some() {} });
    }
    if !dashboard {
        let mut lines = Lines::new(&ui, start).only(loaded.tasks.iter().map(|spec| spec.id.clone()));
        if !ui.quiet {
            ui.line(format!("{title}: {}", counted(loaded.tasks.len(), "task")));
        }
        return tokio::spawn(async move {
            while let Some(notice) = watching.recv().await {
                lines.show(&notice);
            }
        });
    }
    let mut board = Dashboard::new(&ui, title, &loaded.tasks, start);
    tokio::spawn(async move {
        let mut clock = tokio::time::interval(Duration::from_secs(1));
        // Bursts are drawn once: at most ten frames per second.
        let mut last = tokio::time::Instant::now() - Duration::from_secs(1);
        let mut pending = true;
        loop {
            let due = last + Duration::from_millis(100);
            tokio::select! {
                notice = watching.recv() => match notice {
                    Some(notice) => { board.update(&notice); pending = true; }
                    None => break,
                },
                () = tokio::time::sleep_until(due), if pending => {
                    draw(&ui, &mut board);
                    last = tokio::time::Instant::now();
                    pending = false;
                }
                _ = clock.tick() => pending = true,
            }
        }
        draw(&ui, &mut board);
    })
}

fn draw(ui: &Ui, board: &mut Dashboard) {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    let (columns, lines) =
        size.map_or((100, 40), |size| (usize::from(size.ws_col), usize::from(size.ws_row)));
    let (columns, lines) = (if columns == 0 { 100 } else { columns }, if lines == 0 { 40 } else { lines });
    // Raw bytes: the dashboard moves the cursor, and cleans foreign text itself.
    ui.bytes(board.draw(regatta_engine::clock::now(), columns, lines).as_bytes());
}

/// The first Ctrl-C or SIGTERM stops cleanly, the second kills.
fn orders(ui: &Ui) -> Result<mpsc::UnboundedReceiver<Order>, Refusal> {
    let mut signals = Signals::new()?;
    let (send, receive) = mpsc::unbounded_channel();
    let ui = ui.clone();
    tokio::spawn(async move {
        let mut count = 0;
        loop {
            signals.next().await;
            count += 1;
            if !ui.json {
                ui.note(match count {
                    1 => "\nstopping: agents are asked to stop, and their work is kept (press again to kill them now)",
                    _ => "\nkilling",
                });
            }
            let end = if count == 1 { End::Stop } else { End::Kill };
            if send.send(Order::End(end)).is_err() {
                return;
            }
        }
    });
    Ok(receive)
}

/// Receives one value after Ctrl-C or SIGTERM.
fn interrupted() -> Result<mpsc::UnboundedReceiver<()>, Refusal> {
    let mut signals = Signals::new()?;
    let (send, receive) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        signals.next().await;
        // It may have ended meanwhile.
        let _ = send.send(());
    });
    Ok(receive)
}

/// The signals by which users end a run.
struct Signals([Signal; 3]);

impl Signals {
    fn new() -> Result<Self, Refusal> {
        let watch = |kind| {
            signal(kind).map_err(|error| Refusal::new(RefusalKind::CannotWork, format!("signals: {error}")))
        };
        Ok(Self([
            watch(SignalKind::interrupt())?,
            watch(SignalKind::terminate())?,
            watch(SignalKind::hangup())?,
        ]))
    }

    async fn next(&mut self) {
        let [int, term, hup] = &mut self.0;
        tokio::select! {
            _ = int.recv() => {}
            _ = term.recv() => {}
            _ = hup.recv() => {}
        }
    }
}

/// Prints the graph, the totals and what to do next.
fn finish(
    (report, proposed): (&Report, &Proposed),
    loaded: &Loaded,
    file: Option<&Path>,
    hint: Option<String>,
    ui: &Ui,
) {
    if ui.json {
        ui.document(&regatta_ops::documents::report_document(report));
        return;
    }
    if !ui.quiet {
        ui.line("");
        let label = |id: &regatta_core::id::TaskId| {
            let task = report.tasks.iter().find(|task| task.id == *id);
            let state = task.map_or(StateName::Pending, |task| task.state);
            // Without colour: the drawing removes every control character.
            let (glyph, _) = mark(state);
            let commit = task
                .and_then(|task| task.landed_commit.as_ref())
                .map_or_else(String::new, |commit| format!(" {}", &commit.as_str()[..8]));
            format!("{glyph} {id} {state}{commit}")
        };
        ui.out(&graph::render(&loaded.tasks, label));
        ui.line("");
    }
    for task in report.tasks.iter().filter(|task| !task.state.is_met()) {
        let on: Vec<&str> = task.waiting_on.iter().map(|id| id.as_str()).collect();
        let reason = match (&task.reason, on.is_empty()) {
            (Some(reason), _) => format!(": {}", clean_line(reason)),
            (None, false) => format!(": waits for {}", on.join(", ")),
            (None, true) => String::new(),
        };
        let (glyph, style) = mark(task.state);
        ui.line(format!("{} {} {}{reason}", ui.paint(style, glyph), task.id, task.state));
    }
    let counts: Vec<String> = report.counts.iter().map(|(state, n)| format!("{n} {state}")).collect();
    let took = match (report.started_at, report.ended_at) {
        (Some(start), Some(end)) => format!(" in {}", regatta_core::time::human(end.since(start))),
        _ => String::new(),
    };
    let cost = if report.cost_usd > 0.0 { format!(", ${:.4}", report.cost_usd) } else { String::new() };
    ui.line(format!("{}{took}{cost} on {}", counts.join(", "), report.target));
    if !proposed.open.is_empty() {
        let verb = if proposed.open.len() == 1 { "is" } else { "are" };
        ui.line(format!("{} {verb} open:", counted(proposed.open.len(), "pull request")));
        for pull in &proposed.open {
            ui.line(format!("  {} {} {}", pull.task, pull.number, clean_line(&pull.url)));
        }
    }
    if let Some(path) = file {
        ui.line(format!("report: {}", path.display()));
    }
    if let Some(hint) = hint {
        ui.note(format!("{} {hint}", ui.paint(Style::Busy, "hint:")));
    }
    let _ = std::io::stdout().flush();
}
