//! `regatta wait ID…`: blocks until tasks have ended, and prints what happens meanwhile, one line at a time.

use std::sync::Arc;
use std::time::Duration;

use regatta_core::config::parse_duration;
use regatta_core::id::TaskId;
use regatta_ops::documents::WatchDocument;
use regatta_ops::wait::{Granularity, WaitRequest};
use regatta_ops::{Refusal, RefusalKind};

use crate::cli::Global;
use crate::exit::Exit;
use crate::queue::{Which, operator};
use crate::ui::Ui;

/// Wait until tasks have ended, or are blocked and need a person.
///
/// Prints one line at a time: WATCHING task=ID pid=N granularity=MODE, TOOL task=ID tool=NAME and what it does, LOG
/// task=ID: text, UNSEEN task=ID reason=WHY if another machine does not send what its agent does, EXITED task=ID
/// state=STATE, TIMEOUT task=ID, ERROR task=ID reason=WHY. The pid is - while no agent runs. A task that continues with a follow-up (`regatta send`) has not ended. It exits with 0 if all tasks are done
/// or landed, with 1 if one is not, and with 5 if the time ran out. --all is every task that has not ended.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// What to print: only the end, also the agent's tools, or also what it says. A running attempt is printed from its
    /// start.
    #[arg(long, value_enum, default_value = "exit")]
    granularity: Detail,
    /// Give up after this long: seconds, or 5m, 1h30m.
    #[arg(long, value_name = "S")]
    timeout: Option<String>,
}

/// How much to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Detail {
    Exit,
    Tool,
    All,
}

impl From<Detail> for Granularity {
    fn from(detail: Detail) -> Self {
        match detail {
            Detail::Exit => Granularity::Exit,
            Detail::Tool => Granularity::Tool,
            Detail::All => Granularity::All,
        }
    }
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let timeout = args.timeout.as_deref().map(patience).transpose()?.flatten();
    let named = args.which.names().join(",");
    let operator = operator(global).await.inspect_err(|refusal| {
        show(&WatchDocument::error(None, refusal), &named, ui);
    })?;
    let (tasks, granularity) = (args.which.selection(), args.granularity.into());
    let screen = ui.clone();
    let listener = Arc::new(move |document| show(&document, &named, &screen));
    let waited = operator.wait(&WaitRequest { tasks, granularity, timeout }, listener).await?;
    Ok(if !waited.late.is_empty() {
        Exit::TimedOut
    } else if waited.is_good() {
        Exit::Ok
    } else {
        Exit::TaskFailed
    })
}

fn patience(text: &str) -> Result<Option<Duration>, Refusal> {
    parse_duration(text).map_err(|why| {
        Refusal::usage(format!("--timeout {text:?} {why}")).hinted("for example: --timeout 600")
    })
}

/// Prints one line, or one object. `named` are the tasks as they were typed.
fn show(document: &WatchDocument, named: &str, ui: &Ui) {
    if ui.json {
        // As a value, because its keys are sorted.
        ui.object(&serde_json::to_value(document).expect("our own values serialise"));
    } else {
        ui.line(line(document, named));
    }
    if let (WatchDocument::Watching { note: Some(note), .. }, false) = (document, ui.quiet) {
        ui.note(note);
    }
}

fn line(document: &WatchDocument, named: &str) -> String {
    match document {
        WatchDocument::Watching { task, pid, granularity, .. } => watching(task, *pid, *granularity),
        WatchDocument::Tool { task, name, summary, .. } => {
            format!("TOOL task={task} tool={name} {summary}").trim_end().to_owned()
        }
        WatchDocument::Log { task, text, .. } => format!("LOG task={task}: {text}"),
        WatchDocument::Unseen { task, why, .. } => format!("UNSEEN task={task} reason={why}"),
        WatchDocument::Exited { task, state, .. } => format!("EXITED task={task} state={state}"),
        WatchDocument::Timeout { tasks } => {
            tasks.iter().map(|id| format!("TIMEOUT task={id}")).collect::<Vec<_>>().join("\n")
        }
        WatchDocument::Error { task: Some(task), error, .. } => format!("ERROR task={task} reason={error}"),
        WatchDocument::Error { task: None, kind: RefusalKind::NotFound, .. } => {
            format!("ERROR task={named} reason=not_found")
        }
        WatchDocument::Error { task: None, error, .. } => format!("ERROR task={named} reason={error}"),
    }
}

/// The line with which the wait for a task begins.
pub(crate) fn watching(task: &TaskId, pid: Option<u32>, granularity: Granularity) -> String {
    let pid = pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
    format!("WATCHING task={task} pid={pid} granularity={}", granularity.as_str())
}
