//! `regatta land`: the train, by hand: send work in, try again, look at it, look back.

pub(crate) mod look;

pub(crate) use look::what_it_does;

use std::sync::Arc;

use regatta_core::attempt::Attempt;
use regatta_core::commit_message::commit_message;
use regatta_core::report::landed_as;
use regatta_core::state::{BlockReason, TaskState};
use regatta_core::train::LandRequest;
use regatta_engine::clock;
use regatta_engine::engine::Ended;
use regatta_engine::git::Oid;
use regatta_engine::landing::boarding::{self, Boarded, Passenger};
use regatta_engine::landing::on_request::land_now;
use regatta_engine::landing::target;
use regatta_engine::notice::{Notice, notices};
use regatta_engine::trust::Purpose;
use regatta_store::{Operation, RequestId, SessionId, StoreError, TaskRecord};

use serde_json::json;

use crate::cli::Global;
use crate::commands::daemon::assemble;
use crate::error::CliError;
use crate::exit::Exit;
use crate::project::Project;
use crate::queue::{Batch, Changed, Queue, refused};
use crate::render::shown::redactor;
use crate::ui::Ui;

/// Land work by hand, or look at the train.
///
/// `regatta land ID` lands what is done and was not to land by itself, and what a conflict or a test has blocked. It
/// goes into the train like any other: gated, in its turn, and never over changes in your checkout. It needs no daemon.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Action>,
    #[command(flatten)]
    send: Send,
}

#[derive(Clone, Debug, clap::Args)]
struct Send {
    /// The tasks, or the beginnings of their ids.
    #[arg(value_name = "ID", required = true)]
    tasks: Vec<String>,
    /// Put it into the train and leave it there for a daemon or a run.
    #[arg(long)]
    no_wait: bool,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Action {
    /// Try again to land what a conflict or a test has blocked.
    Retry(Send),
    /// Every phase of a task's landing, with its duration and its outcome.
    History {
        /// The task, or the beginning of its id.
        #[arg(value_name = "ID")]
        task: String,
    },
    /// The train: cars in order, candidates under test, and who waits for what.
    Status,
    /// Go on from the target as it is, after it lost work that had landed.
    Resume,
}

impl Args {
    /// Whether it changes nothing.
    pub(crate) fn only_looks(&self) -> bool {
        matches!(self.command, Some(Action::Status | Action::History { .. }))
    }
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    match args.command {
        Some(Action::Status) => look::status(global, ui).await,
        Some(Action::Resume) => resume(global, ui),
        Some(Action::History { task }) => look::history(&task, global, ui).await,
        Some(Action::Retry(send)) => land(send, true, global, ui).await,
        None => land(args.send, false, global, ui).await,
    }
}

/// Accepts the target as the user has left it.
fn resume(global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let project = Project::open(global)?;
    let target = project.target()?;
    let Some((stopped, tip)) = target::resume(&project.repo, &target)? else {
        let error = CliError::refused(format!("there is no branch {target} to land on"));
        return Err(error.hinted("`regatta land status` says where it was; `git branch` brings it back"));
    };
    let lost = stopped.as_ref().map(|stopped| stopped.lost.clone()).unwrap_or_default();
    if ui.json {
        ui.document(&json!({ "target": target, "tip": tip.to_string(), "stopped": stopped }));
        return Ok(Exit::Ok);
    }
    ui.note(match &stopped {
        None => format!("the train of {target} has not stopped"),
        Some(_) => format!("the train goes on from {target} as it is, at {}", tip.short()),
    });
    if !lost.is_empty() {
        ui.note(format!("no longer on {target}: {}", lost.join(", ")));
    }
    Ok(Exit::Ok)
}

async fn land(args: Send, again: bool, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let project = Project::open(global)?;
    project.require_trust_asking(ui).await?;
    let store = project.store().await?;
    let queue = Queue::of(&project, store.clone()).await?;
    let (mut sent, mut batch) = (Vec::new(), Batch::default());
    for task in queue.find(&args.tasks).await? {
        match send(&project, &queue, &task, again).await {
            Ok(()) => sent.push(task.spec.id.clone()),
            Err(error) => batch.push(&task.spec.id, Err(error)),
        }
    }
    if !args.no_wait && !sent.is_empty() {
        wait_for_the_train(&project, &sent, ui).await?;
    }
    let mut all_in = true;
    for id in &sent {
        let task = store.task(id).await?;
        all_in &= matches!(task.state, TaskState::Landed { .. }) || args.no_wait;
        let text = became(&task);
        batch.push(id, Ok(Changed { task, text, salvaged: None }));
    }
    let exit = batch.finish(&queue, false, ui)?;
    Ok(if all_in { exit } else { Exit::TaskFailed })
}

/// Puts a task's work into the train and leaves it there for whoever lands.
pub(crate) async fn board(project: &Project, queue: &Queue, task: &TaskRecord) -> Result<Changed, CliError> {
    send(project, queue, task, false).await?;
    let task = queue.store.task(&task.spec.id).await?;
    let mut text = became(&task);
    if queue.takers.daemon().is_none() && matches!(task.state, TaskState::Landing { .. }) {
        text.push_str(&format!("; no daemon is there: `regatta land {}` lands it now", task.spec.id));
    }
    Ok(Changed { task, text, salvaged: None })
}

/// Puts a task's work into the train.
async fn send(project: &Project, queue: &Queue, task: &TaskRecord, again: bool) -> Result<(), CliError> {
    let id = &task.spec.id;
    // What waits in the train is only looked at once more.
    if matches!(task.state, TaskState::Landing { .. }) {
        return Ok(());
    }
    let blocked =
        matches!(task.state, TaskState::Blocked { reason: BlockReason::Conflict | BlockReason::Tests, .. });
    if !blocked && (again || !matches!(task.state, TaskState::Done { .. })) {
        let verb = if again { "landed again" } else { "landed" };
        return Err(refused(task, verb));
    }
    let attempts = queue.store.attempts(id).await?;
    let made = attempts.iter().rev().find(|attempt| attempt.head.is_some() && attempt.base.is_some());
    let Some(made) = made else {
        return Err(CliError::refused(format!("{id}: it changed nothing, so there is nothing to land")));
    };
    let head = boarded(project, task, made)?;
    let request = LandRequest { head, ..request(project, task, made)? };
    let operation = Operation::Land { by: queue.by.clone(), attempt: made.n, request };
    match queue.store.operate(id, &operation, &RequestId::fresh(), clock::now()).await {
        Ok(()) => Ok(()),
        Err(StoreError::Refused(_)) => Err(refused(&queue.store.task(id).await?, "landed")),
        Err(error) => Err(error.into()),
    }
}

/// The commit of an attempt's work that may land: by the same rules as when an attempt ends.
fn boarded(project: &Project, task: &TaskRecord, made: &Attempt) -> Result<String, CliError> {
    let (base, head) = (made.base.clone().unwrap_or_default(), made.head.clone().unwrap_or_default());
    let Some(lanes) = super::lane::lanes(project)? else { return Ok(head) };
    let (base, head, target) = (Oid::parse(&base)?, Oid::parse(&head)?, project.target()?);
    let id = &task.spec.id;
    let passenger = Passenger { task: id, attempt: made.n, base: &base, head: &head, target: &target };
    let redactor = redactor(&project.config);
    match boarding::board(&lanes, &passenger, &|text| redactor.redact(text).into_owned())? {
        Boarded::Fit { head, .. } => Ok(head.to_string()),
        Boarded::Unfit(why) => Err(CliError::refused(format!("{id}: {why}")).hinted(format!(
            "`regatta diff {id}` shows what it made; `regatta send {id} TEXT` asks for other work"
        ))),
    }
}

fn request(project: &Project, task: &TaskRecord, made: &Attempt) -> Result<LandRequest, CliError> {
    Ok(LandRequest {
        target: project.decide_target()?,
        strategy: regatta_engine::context::strategy(&project.config),
        base: made.base.clone().unwrap_or_default(),
        head: made.head.clone().unwrap_or_default(),
        message: commit_message(&task.spec, made.n, &made.summary),
        verdict: made.verdict,
        checked: !task.spec.checks.is_empty(),
    })
}

/// Lands here and now, beside whoever else does.
async fn wait_for_the_train(
    project: &Project,
    tasks: &[regatta_core::id::TaskId],
    ui: &Ui,
) -> Result<(), CliError> {
    let (notices, mut watching) = notices();
    let ctx =
        assemble(project, project.store().await?, SessionId::fresh("land"), Purpose::Start, notices).await?;
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
    let ended = land_now(Arc::clone(&ctx), tasks, stopped).await;
    drop(ctx);
    signal.abort();
    telling.abort();
    match ended? {
        Ended::Interrupted => {
            Err(CliError::new(Exit::Interrupted, "interrupted; what was sent stays in the train")
                .hinted("`regatta land status` shows it; a daemon or the next `regatta land ID` goes on"))
        }
        Ended::Settled | Ended::Left => Ok(()),
    }
}

/// What became of it, behind its id.
fn became(task: &TaskRecord) -> String {
    match &task.state {
        TaskState::Landed { commit, target, .. } => {
            landed_as(target.as_deref(), &commit[..commit.len().min(12)])
        }
        TaskState::Landing { waiting: Some(why), .. } => format!("waits in the train: {why}"),
        TaskState::Landing { .. } => "is in the train".to_owned(),
        TaskState::Blocked { reason, detail } => format!("is blocked ({reason}): {detail}"),
        TaskState::Pending { .. } => {
            "went back to its agent, which is told what it conflicts with".to_owned()
        }
        state => format!("is {} by now", state.name()),
    }
}
