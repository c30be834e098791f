//! `regatta task wait`: the live watcher of parallel-agents, with its lines and its exit codes.

use std::sync::Arc;
use std::time::Duration;

use regatta_core::config::parse_duration;

use crate::cli::Global;
use crate::commands::wait::watching;
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::documents::{ParallelStatus, WatchDocument};
use regatta_ops::look::events::started_pid;
use regatta_ops::parallel::registry::Registry;
use regatta_ops::parallel::{FoundTask, Repositories, wait_for_process};
use regatta_ops::wait::{Granularity, Lines, TaskWatch};
use regatta_ops::{Refusal, RefusalKind, StoreChanges};

/// Wait until a task is settled, and print what happens meanwhile, one line at a time.
///
/// WATCHING task=ID pid=N granularity=MODE, TOOL task=ID tool=NAME, LOG task=ID: LINE, EXITED task=ID, TIMEOUT task=ID,
/// ERROR task=ID reason=WHY. The pid is - if there is no process. Follow-ups and further attempts belong to the task:
/// EXITED comes when nothing more starts by itself. Exits with 0, or with 2 for an unknown granularity, 3 for an
/// unknown task, 4 for a task that was never started, and 5 if the time runs out. `regatta wait` waits for many tasks
/// and reports how they ended.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task.
    #[arg(long, value_name = "ID")]
    task_id: String,
    /// What to print: exit, tool, or all. By default `monitoring.event_granularity` of the registry.
    #[arg(long, value_name = "MODE")]
    granularity: Option<String>,
    /// Give up after this long: seconds, or 5m, 1h30m.
    #[arg(long, value_name = "S")]
    timeout: Option<String>,
    /// The longest that an exit may go unnoticed, in seconds. It has no effect: exits are noticed at once.
    #[arg(long, value_name = "S", hide = true)]
    poll_interval: Option<String>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let interval = args.poll_interval.as_deref().map(str::parse::<f64>);
    if interval.is_some_and(|parsed| !parsed.is_ok_and(|seconds| seconds.is_finite() && seconds > 0.0)) {
        return Err(Refusal::usage("--poll-interval is not a number of seconds").hinted("for example: 1.0"));
    }
    // Monitors read lines, so --json is ignored.
    let ui = &Ui { json: false, ..ui.clone() };
    let id = &args.task_id;
    let error = |reason: &str| ui.line(format!("ERROR task={id} reason={reason}"));
    let options = global.parallel();
    let registry = Registry::load(&options)?;
    let wanted = args.granularity.unwrap_or_else(|| registry.granularity());
    let named = Granularity::ALL.into_iter().find(|one| one.as_str() == wanted);
    let Some(granularity) = named else {
        error(&format!("invalid_granularity={wanted}"));
        return Ok(Exit::Usage);
    };
    let timeout = args.timeout.as_deref().map(patience).transpose()?.flatten();
    let repositories = Repositories::open(&registry, &options).await?;
    let found = match repositories.find(&registry, id).await {
        Ok(found) if found.status(&registry) != ParallelStatus::Destroyed => found,
        Ok(_) => {
            error("not_found");
            return Ok(NOT_FOUND);
        }
        Err(why) if [RefusalKind::NotFound, RefusalKind::Usage].contains(&why.kind) => {
            error("not_found");
            return Ok(NOT_FOUND);
        }
        Err(why) => return Err(why),
    };
    found.serve_if_moving(&registry).await?;
    let watched = watch(found, granularity, ui);
    let Some(timeout) = timeout else { return watched.await };
    match tokio::time::timeout(timeout, watched).await {
        Ok(exit) => exit,
        Err(_) => {
            ui.line(format!("TIMEOUT task={id}"));
            Ok(Exit::TimedOut)
        }
    }
}

/// The exit code of parallel-agents for an unknown task.
const NOT_FOUND: Exit = Exit::CannotWork;
/// The exit code of parallel-agents for a task without a process.
const NO_PROCESS: Exit = Exit::NotFound;

async fn watch(mut found: FoundTask<'_>, granularity: Granularity, ui: &Ui) -> Result<Exit, Refusal> {
    let id = found.task.spec.id.clone();
    if found.is_unstarted() {
        ui.line(format!("ERROR task={id} reason=no_process"));
        return Ok(NO_PROCESS);
    }
    // It was started a moment ago, and its process is about to appear.
    let seen = found.task.clone();
    wait_for_process(&mut found).await?;
    let pid = started_pid(found.store.as_ref(), &id, found.task.attempts).await?;
    ui.line(watching(&id, pid, granularity));
    let changes = StoreChanges::of(found.store.as_ref()).await?;
    let project = &found.repository.project;
    let screen = ui.clone();
    let listener = Arc::new(move |document| bare(&document).into_iter().for_each(|line| screen.line(line)));
    let watch = Arc::new(TaskWatch::new(project, found.store.clone(), granularity, Lines::Raw, listener));
    watch.follow(seen, changes).await?;
    Ok(Exit::Ok)
}

/// The line in the words of parallel-agents.
fn bare(document: &WatchDocument) -> Option<String> {
    Some(match document {
        WatchDocument::Tool { task, name, .. } => format!("TOOL task={task} tool={name}"),
        WatchDocument::Log { task, text, .. } => format!("LOG task={task}: {text}"),
        WatchDocument::Exited { task, .. } => format!("EXITED task={task}"),
        WatchDocument::Error { task: Some(task), error, .. } => format!("ERROR task={task} reason={error}"),
        _ => return None,
    })
}

fn patience(text: &str) -> Result<Option<Duration>, Refusal> {
    let whole = text.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    if let Some(seconds) = whole {
        return Ok((seconds > 0.0).then(|| Duration::from_secs_f64(seconds.min(1e9))));
    }
    parse_duration(text).map_err(|why| {
        Refusal::usage(format!("--timeout {text:?} {why}")).hinted("for example: --timeout 600")
    })
}
