//! `regatta land`: the train by hand: land work, retry, show the train and its history.

mod look;

pub(crate) use look::what_it_does;

use regatta_core::id::TaskId;
use regatta_core::state::TaskState;
use regatta_engine::notice::{Notice, notices};
use regatta_ops::documents::{ResumedDocument, by_name};
use regatta_ops::tasks::{BoardRequest, Changed, Resumed, Way, Why};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::queue::{Operator, Selection, finish};
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Land work on the target branch, or show the merge train.
///
/// `regatta land ID` lands a task that is done and does not land by itself, or one that a conflict or a test has
/// blocked. It goes through the train like any other: tested, in its turn, and never over changes in your checkout.
/// It needs no daemon. `regatta land --accept ID` lands work that is blocked for its verdict; your name is recorded
/// with the task and on the commit. `regatta land --all` lands everything that is done and has not landed.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Action>,
    #[command(flatten)]
    send: Send,
    /// Land work that its verdict has blocked: you have reviewed it and accept it as it is.
    #[arg(long, conflicts_with = "all")]
    accept: bool,
}

#[derive(Clone, Debug, clap::Args)]
struct Send {
    /// The tasks, or the beginnings of their ids.
    #[arg(value_name = "ID", required_unless_present = "all")]
    tasks: Vec<String>,
    /// Land everything that can land and has not; dependencies go first.
    #[arg(long, conflicts_with = "tasks")]
    all: bool,
    /// Add it to the train and leave it to a daemon or a run.
    #[arg(long)]
    no_wait: bool,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Action {
    /// Try again to land work that a conflict or a test has blocked.
    Retry(Send),
    /// Show every phase of a task's landing, with its duration and outcome.
    History {
        /// The task, or the beginning of its id.
        #[arg(value_name = "ID")]
        task: String,
    },
    /// Show the train: cars in order, candidates under test, and what each car waits for.
    Status,
    /// Continue from the target as it is, after it lost work that had landed.
    Resume,
}

impl Args {
    /// Whether the command changes nothing.
    pub(crate) fn only_looks(&self) -> bool {
        matches!(self.command, Some(Action::Status | Action::History { .. }))
    }
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    match args.command {
        Some(Action::Status) => look::status(global, ui).await,
        Some(Action::Resume) => resume(global, ui),
        Some(Action::History { task }) => look::history(&task, global, ui).await,
        Some(Action::Retry(send)) => land(send, Why::Again, global, ui).await,
        None if args.accept => land(args.send, Why::Accepted, global, ui).await,
        None => land(args.send, Why::Good, global, ui).await,
    }
}

/// Accepts the target as the user left it.
fn resume(global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let Resumed { target, tip, stopped } = Project::open(&global.options())?.resume_landing()?;
    let lost = stopped.as_ref().map(|stopped| stopped.lost.clone()).unwrap_or_default();
    if ui.json {
        ui.document(&by_name(&ResumedDocument { stopped, target, tip }));
        return Ok(Exit::Ok);
    }
    ui.line(match &stopped {
        None => format!("the train of {target} has not stopped"),
        Some(_) => format!("the train continues from {target} as it is, at {}", tip.short()),
    });
    if !lost.is_empty() {
        ui.line(format!("no longer on {target}: {}", lost.join(", ")));
    }
    Ok(Exit::Ok)
}

async fn land(args: Send, why: Why, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::open(&global.options())?;
    crate::trust::require_trust_asking(&project, ui).await?;
    let operator = Operator::open(&project).await?;
    let tasks = if args.all { Selection::All } else { Selection::Named(args.tasks) };
    let mut changes = operator.board(&BoardRequest { tasks, why, way: Way::Usual }).await?;
    let sent: Vec<TaskId> = changes.changed.iter().map(|changed| changed.task.spec.id.clone()).collect();
    if !args.no_wait && !sent.is_empty() {
        drive(&operator, &sent, ui).await?;
        changes.changed.clear();
        for id in &sent {
            changes.push(id, operator.landed(id).await);
        }
    }
    let is_in = |changed: &Changed| matches!(changed.task.state, TaskState::Landed { .. });
    let all_in = args.no_wait || changes.changed.iter().all(is_in);
    let exit = finish(changes, &operator, false, ui)?;
    Ok(if all_in { exit } else { Exit::TaskFailed })
}

/// Lands in this process until done or interrupted, and shows the progress.
pub(crate) async fn drive(operator: &Operator, tasks: &[TaskId], ui: &Ui) -> Result<(), Refusal> {
    let (notices, mut watching) = notices();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let signal = tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            let _ = stop.send(true);
        }
        stop.closed().await;
    });
    let shown = ui.clone();
    let telling = tokio::spawn(async move {
        while let Some(notice) = watching.recv().await {
            if let (Notice::Say(text), false) = (notice, shown.json) {
                shown.note(text);
            }
        }
    });
    let ended = operator.drive(tasks, notices, stopped).await;
    signal.abort();
    telling.abort();
    ended
}
