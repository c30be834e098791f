//! `regatta run PLAN…`: runs plan files in the foreground until their work has landed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use regatta_core::admission::Limits;
use regatta_core::config::AgentKind;
use regatta_core::diagnostic::has_errors;
use regatta_core::graph;
use regatta_core::report::Report;
use regatta_core::spec::TaskSpec;
use regatta_core::state::StateName;
use regatta_core::taskfile::{Hook, Loaded};
use regatta_core::time::counted;
use regatta_engine::context::{Assembly, Context, RunOptions, SettingsInput};
use regatta_engine::engine::{End, Ended, EngineError, Order};
use regatta_engine::git::Head;
use regatta_engine::notice::{Watching, notices};
use regatta_engine::run::{Earlier, RunRequest, run as run_engine};
use regatta_engine::session::is_certainly_dead;
use regatta_engine::trust::Purpose;
use regatta_store::{SessionId, Store};
use tokio::sync::mpsc;

use regatta_ops::taskfiles::{missing_program, parse_files};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::{Project, require_writable, shown};
use crate::render::dashboard::Dashboard;
use crate::render::lines::Lines;
use crate::render::shown::clean_line;
use crate::render::state::mark;
use crate::ui::{Style, Ui};
use regatta_ops::{Refusal, RefusalKind};

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
    /// Keep the lanes of settled tasks (also PO_KEEP_WORKTREE=1).
    #[arg(long)]
    pub(crate) keep_lanes: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let ui = &Ui { outlives_reader: true, ..ui.clone() };
    let mut project = Project::open_for(&global.options(), &args.plans)?;
    apply_flags(&mut project, &args)?;
    let loaded = load(&project, &args, ui)?;
    if args.dry_run {
        dry_run(&loaded, &project, ui);
        return Ok(Exit::Ok);
    }
    crate::trust::require_trust_asking(&project, ui).await?;
    preflight(&project, &loaded.tasks, args.claude_exe.as_deref())?;
    if let Some(path) = &args.report {
        // The report may go into this directory.
        project.make_state_dir()?;
        super::report::preflight(path)?;
    }
    execute(&project, loaded, &args, ui).await
}

/// Flags override every other setting, and `config show` names them as the origin.
fn apply_flags(project: &mut Project, args: &Args) -> Result<(), Refusal> {
    let mut diagnostics = Vec::new();
    if let Some(target) = &args.target {
        diagnostics.extend(project.config.apply_flag("--target", "target", target));
    }
    if let Some(workers) = args.max_workers {
        diagnostics.extend(project.config.apply_flag("--max-workers", "max_workers", &workers.to_string()));
    }
    project.choose_profiles(args.profiles.as_deref())?;
    if let Some(usd) = &args.budget_usd {
        diagnostics.extend(project.config.apply_flag("--budget-usd", "limits.budget_usd", usd));
    }
    if has_errors(&diagnostics) { Err(Refusal::diagnosed(diagnostics)) } else { Ok(()) }
}

/// Reads every file and reports every mistake; changes nothing.
pub(crate) fn load(project: &Project, args: &Args, ui: &Ui) -> Result<Loaded, Refusal> {
    let mut files = Vec::new();
    for path in &args.plans {
        let bytes = std::fs::read(path).map_err(|error| {
            Refusal::new(RefusalKind::Usage, format!("reading {}: {error}", path.display()))
                .hinted("give the path of a plan or task file; `regatta new ID` makes one")
        })?;
        files.push((path.clone(), bytes));
    }
    let loaded = parse_files(project, &files, |settings| {
        settings.agent_override = args.agent.as_deref();
        settings.no_land = args.no_land;
        settings.strict = args.strict;
    });
    if has_errors(&loaded.diagnostics) {
        return Err(Refusal::diagnosed(loaded.diagnostics));
    }
    for warning in project.warnings.iter().chain(&loaded.diagnostics) {
        ui.note(warning.to_string());
    }
    Ok(loaded)
}

fn dry_run(loaded: &Loaded, project: &Project, ui: &Ui) {
    let limits = limits(project, loaded);
    let stages = graph::stages(&loaded.tasks, &limits.groups);
    if ui.json {
        ui.document(&serde_json::json!({ "plan": loaded.plan_name, "stages": stages }));
        return;
    }
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
        limits.max_workers
    ));
}

fn limits(project: &Project, loaded: &Loaded) -> Limits {
    let mut groups = project.config.limits.groups.clone();
    groups.extend(loaded.concurrency_limits.clone());
    Limits { max_workers: project.config.max_workers, groups }
}

/// Reports what would make every task fail, before anything starts.
pub(crate) fn preflight(
    project: &Project,
    tasks: &[TaskSpec],
    claude_exe: Option<&Path>,
) -> Result<(), Refusal> {
    if let Head::Unborn(branch) = &project.repo.head {
        return Err(Refusal::new(
            RefusalKind::Git,
            format!("the repository is empty: branch {branch} has no commit yet"),
        )
        .hinted("make a first commit: git commit --allow-empty -m init"));
    }
    project.require_branch(&project.choice()?)?;
    for spec in tasks {
        let Some(agent) = project.config.agents.get(&spec.agent) else { continue };
        if let Some(program) = missing_program(project, spec, claude_exe) {
            return Err(Refusal::new(
                RefusalKind::CannotWork,
                format!("task {} needs the agent {}, but its program {program:?} was not found", spec.id, spec.agent),
            )
            .hinted(match (agent.kind, agent.kind.install()) {
                (AgentKind::Claude, Some(install)) => format!("install it ({install}), or give --claude-exe PATH"),
                (_, Some(install)) => {
                    format!("install it ({install}), or name it with `exe` of this agent in regatta.yaml")
                }
                (_, None) => {
                    "put it on PATH, or correct `agents:` in regatta.yaml; `regatta doctor` shows what is found".into()
                }
            }));
        }
    }
    Ok(())
}

async fn execute(project: &Project, loaded: Loaded, args: &Args, ui: &Ui) -> Result<Exit, Refusal> {
    if let Some(dir) = &args.log_dir {
        require_writable(&absolute(dir), "--log-dir")?;
    }
    require_writable(&project.lanes_root(), "lanes_root")?;
    let store = project.create_store().await?;
    if !args.resume && !args.again {
        let earlier =
            Earlier::look(store.as_ref(), &loaded.tasks, |info| !is_certainly_dead(&info.node)).await?;
        if let Some(why) = earlier.refusal() {
            return Err(done_before(why, args));
        }
        if let (1.., false) = (earlier.unfinished, ui.json || ui.quiet) {
            let plans = plans(args);
            ui.note(format!(
                "starting over what had not succeeded; use `regatta run --resume {plans}` to continue instead"
            ));
        }
    }
    let begun = std::time::Instant::now();
    let (report, ended) = engage(project, store, &loaded, args, ui).await?;
    if ended == Ended::Settled {
        call_hooks(&loaded.hooks, &report, begun.elapsed(), ui).await;
    }
    if let Some(path) = &args.report {
        super::report::write(path, &report)?;
    }
    finish(&report, ended, &loaded, args, ui);
    Ok(match ended {
        Ended::Interrupted | Ended::Left => Exit::Interrupted,
        Ended::Settled if report.is_good() => Exit::Ok,
        Ended::Settled => Exit::TaskFailed,
    })
}

/// Calls the webhooks of parallel-orchestra's plans. A failed call is reported and changes nothing else.
async fn call_hooks(hooks: &[Hook], report: &Report, took: Duration, ui: &Ui) {
    let certificates = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    for hook in hooks {
        let Some(payload) = hook.payload(report, took.as_secs_f64()) else { continue };
        let called = regatta_engine::notify::call(
            &hook.url,
            hook.allow_private,
            payload.to_string(),
            certificates.clone(),
        );
        if let Err(why) = called.await {
            ui.note(format!("warning: {} could not notify {}: {why}", hook.key(), hook.url));
        }
    }
}

/// The error for a run that would repeat finished work.
fn done_before(why: String, args: &Args) -> Refusal {
    let plans = plans(args);
    Refusal::refused(why).hinted(format!(
        "`regatta run --resume {plans}` runs what is left; `regatta run --again {plans}` runs everything again"
    ))
}

/// The files of this run, as they can be typed again.
fn plans(args: &Args) -> String {
    let plans: Vec<String> = args.plans.iter().map(|path| shown(path)).collect();
    plans.join(" ")
}

/// Runs tasks until they are settled, with a live view.
pub(crate) async fn engage(
    project: &Project,
    store: Arc<dyn Store>,
    loaded: &Loaded,
    args: &Args,
    ui: &Ui,
) -> Result<(Report, Ended), Refusal> {
    let (notices, watching) = notices();
    if let (Some(note), false) = (project.lands_elsewhere()?, ui.json || ui.quiet) {
        ui.note(note);
    }
    let target = project.decide_target()?;
    let exe = crate::project::this_program()
        .map_err(|error| Refusal::io("finding", Path::new("regatta"), &error))?;
    let keep_lanes = args.keep_lanes
        || project.config.lane.keep == regatta_core::config::Keep::Always
        || std::env::var_os("PO_KEEP_WORKTREE").is_some_and(|value| value == "1");
    let options = RunOptions {
        fail_fast: args.fail_fast,
        resume: args.resume,
        trust: if args.resume { Purpose::Continue } else { Purpose::Start },
        again: args.again,
        keep_lanes,
        log_dir: args.log_dir.as_ref().map(|dir| absolute(dir)),
        no_log: args.no_log,
        claude_exe: args.claude_exe.as_ref().map(|path| program_path(path)),
        grace: Duration::from_secs(5),
    };
    let settings = SettingsInput {
        config: project.config.clone(),
        options,
        inherited: std::env::vars_os().collect(),
        lanes_root: project.lanes_root(),
    };
    let assembly = Assembly {
        settings,
        repo: project.repo.clone(),
        target: target.clone(),
        store: store.clone(),
        store_url: project.store_url.clone(),
        session: SessionId::fresh("run"),
        regatta_exe: exe,
        notices,
    };
    let ctx = tokio::task::spawn_blocking(move || Context::assemble(assembly))
        .await
        .expect("assembling does not panic")?;
    let ctx = Arc::new(ctx);
    let names: Vec<String> = args.plans.iter().map(|path| shown(path)).collect();
    let plan = loaded.plan_name.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| names.join(" "));
    let title = format!("{plan} → {target}");
    let start = regatta_engine::clock::now();
    let first_seq = store.last_seq().await?;
    let live = live_view(args, ui, &title, loaded, start, watching);
    let request = RunRequest {
        what: format!("run {}", if names.is_empty() { plan.clone() } else { names.join(" ") }),
        limits: limits(project, loaded),
        tasks: loaded.tasks.clone(),
    };
    let orders = orders(ui)?;
    let result = run_engine(ctx.clone(), request, orders).await;
    // The view ends when the last sender of notices is dropped.
    drop(ctx);
    let _ = live.await;
    let redactor = crate::render::shown::redactor(&project.config);
    let ended = result.map_err(|error| match error {
        EngineError::Repeats(why) => done_before(why, args),
        error => Refusal::from(error),
    })?;
    let report =
        super::report::build(store.as_ref(), &plan, &target, &loaded.tasks, first_seq, &redactor).await?;
    Ok((report, ended))
}

/// Shows notices until their last sender is dropped.
fn live_view(
    args: &Args,
    ui: &Ui,
    title: &str,
    loaded: &Loaded,
    start: regatta_core::time::Timestamp,
    mut watching: Watching,
) -> tokio::task::JoinHandle<()> {
    let dashboard = !ui.json && !args.no_dashboard && (args.dashboard || ui.terminal && !ui.quiet);
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
    use tokio::signal::unix::{SignalKind, signal};
    let watch = |kind| {
        signal(kind).map_err(|error| Refusal::new(RefusalKind::CannotWork, format!("signals: {error}")))
    };
    let (mut int, mut term, mut hup) =
        (watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?, watch(SignalKind::hangup())?);
    let (send, receive) = mpsc::unbounded_channel();
    let ui = ui.clone();
    tokio::spawn(async move {
        let mut count = 0;
        loop {
            tokio::select! {
                _ = int.recv() => {}
                _ = term.recv() => {}
                _ = hup.recv() => {}
            }
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

/// Prints the graph, the totals and what to do next.
fn finish(report: &Report, ended: Ended, loaded: &Loaded, args: &Args, ui: &Ui) {
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
    if let Some(path) = &args.report {
        ui.line(format!("report: {}", path.display()));
    }
    if ended != Ended::Settled || !report.is_good() {
        ui.note(format!(
            "{} `regatta status ID` and `regatta logs ID` show why; `regatta run --resume {}` retries",
            ui.paint(Style::Busy, "hint:"),
            plans(args)
        ));
    }
    let _ = std::io::stdout().flush();
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// A path with a slash is relative to the current directory; a bare name is looked up on PATH.
fn program_path(path: &Path) -> PathBuf {
    if path.components().count() > 1 { absolute(path) } else { path.to_owned() }
}
