//! `regatta land`: the train, by hand: send work in, try again, look at it, look back.

pub(crate) mod look;

pub(crate) use look::what_it_does;

use std::sync::Arc;

use regatta_core::attempt::Attempt;
use regatta_core::causes::with_causes;
use regatta_core::commit_message::commit_message;
use regatta_core::part::Part;
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
use regatta_engine::worker::by_hand::{self, Taken};
use regatta_store::{Operation, RequestId, SessionId, StoreError, TaskQuery, TaskRecord};

use serde_json::json;

use crate::cli::Global;
use crate::commands::daemon::assemble;
use crate::error::{CliError, RefusalKind};
use crate::exit::Exit;
use crate::project::Project;
use crate::queue::{Batch, Changed, Queue, dependencies_first, refused};
use crate::render::shown::redactor;
use crate::ui::Ui;

/// Land work by hand, or look at the train.
///
/// `regatta land ID` lands what is done and was not to land by itself, and what a conflict or a test has blocked. It
/// goes into the train like any other: gated, in its turn, and never over changes in your checkout. It needs no daemon.
/// `regatta land --accept ID` takes work that is blocked for its verdict; your name is recorded with the task and on the
/// commit. `regatta land --all` lands everything that is done and has not landed.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Action>,
    #[command(flatten)]
    send: Send,
    /// Land work that is blocked for its verdict: you have looked at it, and you take it as it is.
    #[arg(long, conflicts_with = "all")]
    accept: bool,
}

/// Why the work is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// It is good.
    Good,
    /// It did not go in the last time.
    Again,
    /// A person takes it.
    Accepted,
}

#[derive(Clone, Debug, clap::Args)]
struct Send {
    /// The tasks, or the beginnings of their ids.
    #[arg(value_name = "ID", required_unless_present = "all")]
    tasks: Vec<String>,
    /// Everything that can be landed and has not been: what others depend on goes first.
    #[arg(long, conflicts_with = "tasks")]
    all: bool,
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
        Some(Action::Retry(send)) => land(send, Why::Again, global, ui).await,
        None if args.accept => land(args.send, Why::Accepted, global, ui).await,
        None => land(args.send, Why::Good, global, ui).await,
    }
}

/// Accepts the target as the user has left it.
fn resume(global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let project = Project::open(&global.options())?;
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

async fn land(args: Send, why: Why, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let project = Project::open(&global.options())?;
    crate::trust::require_trust_asking(&project, ui).await?;
    let store = project.store().await?;
    let queue = Queue::of(&project, store.clone()).await?;
    let (mut sent, mut batch) = (Vec::new(), Batch::default());
    let found = match args.all {
        true => not_landed(&project, &queue, why == Why::Again).await?,
        false => queue.find(&args.tasks).await?,
    };
    for task in dependencies_first(found) {
        match send(&project, &queue, &task, why).await {
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

/// All tasks with work that is done and not on the target, or, to try `again`, that a conflict or a test has blocked.
async fn not_landed(project: &Project, queue: &Queue, again: bool) -> Result<Vec<TaskRecord>, CliError> {
    let all = queue.store.tasks(&TaskQuery::default()).await?;
    let tip = project.repo.branch_tip(&project.target()?)?.map(|tip| tip.oid().clone());
    let work = project.work()?;
    let is_there = |head: &str| -> Result<bool, CliError> {
        let (head, Some(tip)) = (Oid::parse(head)?, &tip) else { return Ok(false) };
        // What git has tidied away is for the landing to name.
        Ok(work.has_commit(&head)? && work.is_ancestor(&head, tip)?)
    };
    let mut found = Vec::new();
    for task in &all {
        let wanted = match &task.state {
            TaskState::Done { head: Some(head), .. } => !again && is_reviewed(task, &all) && !is_there(head)?,
            state => again && is_held_up(state),
        };
        if wanted {
            found.push(task.clone());
        }
    }
    Ok(found)
}

/// Whether a conflict or a test keeps it from landing.
fn is_held_up(state: &TaskState) -> bool {
    matches!(state, TaskState::Blocked { reason: BlockReason::Conflict | BlockReason::Tests, .. })
}

/// Whether every link behind a builder is content with its work.
fn is_reviewed(task: &TaskRecord, all: &[TaskRecord]) -> bool {
    let is_link = |other: &&TaskRecord| matches!(&other.spec.part, Some(Part::Link { chain, .. }) if *chain == task.spec.id);
    all.iter().filter(is_link).all(|link| link.state.is_met())
}

/// Puts a task's work into the train and leaves it there for whoever lands.
pub(crate) async fn board(project: &Project, queue: &Queue, task: &TaskRecord) -> Result<Changed, CliError> {
    send(project, queue, task, Why::Good).await?;
    let task = queue.store.task(&task.spec.id).await?;
    let mut text = became(&task);
    if queue.takers.daemon().is_none() && matches!(task.state, TaskState::Landing { .. }) {
        text.push_str(&format!("; no daemon is there: `regatta land {}` lands it now", task.spec.id));
    }
    Ok(Changed { task, text, salvaged: None })
}

/// Puts a task's work into the train.
async fn send(project: &Project, queue: &Queue, task: &TaskRecord, why: Why) -> Result<(), CliError> {
    let id = &task.spec.id;
    // What waits in the train is only looked at once more.
    if matches!(task.state, TaskState::Landing { .. }) {
        return Ok(());
    }
    if why == Why::Accepted {
        return accept(project, queue, task).await;
    }
    let again = why == Why::Again;
    if let TaskState::Blocked { reason: BlockReason::Verdict, .. } = task.state {
        return Err(CliError::refused(format!(
            "{id} is blocked for its verdict, so it does not land by itself"
        ))
        .hinted(format!(
            "`regatta diff {id}` shows its work; `regatta land --accept {id}` takes it as it is"
        )));
    }
    if !is_held_up(&task.state) && (again || !matches!(task.state, TaskState::Done { .. })) {
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

/// Takes work whose verdict was not good because a person says so: from its lane, by the same rules as any other.
async fn accept(project: &Project, queue: &Queue, task: &TaskRecord) -> Result<(), CliError> {
    let id = &task.spec.id;
    if !matches!(task.state, TaskState::Blocked { reason: BlockReason::Verdict, .. }) {
        let why = match &task.state {
            TaskState::Blocked { reason, .. } => format!("blocked ({reason})"),
            state => state.name().to_owned(),
        };
        return Err(CliError::refused(format!(
            "{id} is {why}: only what is blocked (verdict) can be accepted"
        ))
        .hinted(format!("`regatta status {id}` shows what can be done with it")));
    }
    let attempts = queue.store.attempts(id).await?;
    let made = attempts.into_iter().rev().find(|attempt| attempt.base.is_some());
    let (Some(made), false) = (made, task.spec.read_only) else {
        return Err(CliError::refused(format!("{id}: it changed nothing, so there is nothing to land")));
    };
    let session = SessionId::fresh("land");
    let (notices, _) = notices();
    let ctx = assemble(project, queue.store.clone(), session, Purpose::Start, notices).await?;
    let taken = by_hand::take(ctx, task, made.clone()).await;
    let (base, head) = match taken.map_err(|error| CliError::new(RefusalKind::Git, with_causes(&error)))? {
        Taken::Work { base, head } => (base, head),
        Taken::Nothing => {
            return Err(CliError::refused(format!("{id}: it changed nothing, so there is nothing to land"))
                .hinted(format!("`regatta retry {id}` tries again")));
        }
        Taken::Unfit(why) => {
            return Err(CliError::refused(format!("{id}: {why}")).hinted(format!(
                "mend it in its lane (`regatta lane path {id}`) and accept it again; `regatta salvage list` shows \
                 work that was saved from lanes that are gone"
            )));
        }
    };
    let accepted_by = Some(queue.by.clone());
    let attempt = made.n;
    let request = LandRequest { base, head, checked: false, accepted_by, ..request(project, task, &made)? };
    let operation = Operation::Accept { by: queue.by.clone(), attempt, request };
    match queue.store.operate(id, &operation, &RequestId::fresh(), clock::now()).await {
        Ok(()) => Ok(()),
        Err(StoreError::Refused(_)) => Err(refused(&queue.store.task(id).await?, "accepted")),
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
        accepted_by: None,
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
            Err(CliError::new(RefusalKind::Interrupted, "interrupted; what was sent stays in the train")
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
