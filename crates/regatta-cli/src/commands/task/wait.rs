//! `regatta task wait`: the live watcher of parallel-agents, with its lines and its exit codes.

use std::sync::Arc;
use std::time::Duration;

use regatta_core::config::parse_duration;

use crate::cli::Global;
use crate::commands::wait::watching;
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;
use regatta_ops::documents::WatchDocument;
use regatta_ops::parallel::{ParallelWaitRequest, ParallelWaited};

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
    let timeout = args.timeout.as_deref().map(patience).transpose()?.flatten();
    let screen = ui.clone();
    let listener = Arc::new(move |document| bare(&document).into_iter().for_each(|line| screen.line(line)));
    let (task, granularity) = (args.task_id, args.granularity);
    let request = ParallelWaitRequest { task, granularity, timeout };
    let waited = global.parallel().wait(&request, listener).await?;
    let id = &request.task;
    let (line, exit) = match waited {
        ParallelWaited::Ended => return Ok(Exit::Ok),
        ParallelWaited::UnknownGranularity(name) => {
            (format!("ERROR task={id} reason=invalid_granularity={name}"), Exit::Usage)
        }
        // The exit codes of parallel-agents: 3 for an unknown task, 4 for one without a process.
        ParallelWaited::NotFound => (format!("ERROR task={id} reason=not_found"), Exit::CannotWork),
        ParallelWaited::NoProcess(id) => (format!("ERROR task={id} reason=no_process"), Exit::NotFound),
        ParallelWaited::TimedOut => (format!("TIMEOUT task={id}"), Exit::TimedOut),
    };
    ui.line(line);
    Ok(exit)
}

/// The line in the words of parallel-agents.
fn bare(document: &WatchDocument) -> Option<String> {
    Some(match document {
        WatchDocument::Watching { task, pid, granularity, .. } => watching(task, *pid, *granularity),
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
