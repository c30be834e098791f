//! `regatta cancel ID`: calls a task off.

use std::time::Duration;

use regatta_core::crew::MemberName;
use regatta_core::state::TaskState;
use regatta_engine::session::is_certainly_dead;
use regatta_store::{
    MessageKind, Operation, Recipients, RequestId, SessionInfo, Store, StoreError, TaskRecord,
};

use crate::cli::Global;
use crate::commands::msg::post::post;
use crate::error::{CliError, RefusalKind};
use crate::exit::Exit;
use crate::queue::{Batch, Changed, Queue, Which, who};
use crate::render::shown::clean_line;
use crate::ui::Ui;

/// How long an agent and everything it started may take to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Call tasks off. A running agent is ended with everything it started, and its work is kept in its lane.
///
/// What depends on a cancelled task is skipped. --all is every task that has not ended, blocked ones among them.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// Ask running agents' owners and do not wait until they have ended.
    #[arg(long)]
    no_wait: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let open: Vec<&str> = TaskState::NAMES
        .into_iter()
        .filter(|name| !["done", "landed", "failed", "cancelled", "skipped"].contains(name))
        .collect();
    let (queue, found) = Queue::open_for(global, &args.which, &open).await?;
    let store = queue.store.as_ref();
    let mut batch = Batch::default();
    let mut asked = Vec::new();
    // All are asked before one is waited for: their agents end side by side.
    for task in found {
        match cancel(store, &task).await {
            Ok(true) => batch.push(&task.spec.id, changed(store, &task).await),
            Ok(false) => asked.push(task),
            Err(error) => batch.push(&task.spec.id, Err(error)),
        }
    }
    for task in asked {
        let waited = if args.no_wait { Ok(()) } else { wait(store, &task).await };
        let result = match waited {
            Ok(()) => changed(store, &task).await,
            Err(error) => Err(error),
        };
        batch.push(&task.spec.id, result);
    }
    batch.finish(&queue, false, ui)
}

/// Cancels a task, or asks whoever holds it and does not wait.
pub(crate) async fn ask(store: &dyn Store, task: &TaskRecord) -> Result<Changed, CliError> {
    cancel(store, task).await?;
    changed(store, task).await
}

/// Cancels one task and comes back when nothing of it runs any more.
pub(crate) async fn call_off(store: &dyn Store, task: &TaskRecord) -> Result<(), CliError> {
    match cancel(store, task).await? {
        true => Ok(()),
        false => wait(store, task).await,
    }
}

async fn changed(store: &dyn Store, task: &TaskRecord) -> Result<Changed, CliError> {
    let task = store.task(&task.spec.id).await?;
    let text = match task.state {
        TaskState::Cancelled { .. } => "cancelled",
        _ => "will be cancelled by the run that holds it",
    };
    Ok(Changed { task, text: text.to_owned(), salvaged: None })
}

/// Cancels it, or asks whoever holds it. True if it is cancelled already.
async fn cancel(store: &dyn Store, task: &TaskRecord) -> Result<bool, CliError> {
    let by = who();
    let (id, at) = (&task.spec.id, regatta_engine::clock::now());
    let mut held = task.state.is_claimed();
    // It may be claimed or let go between our look and our word; then it is the other word.
    for _ in 0..3 {
        let operation = match held {
            true => Operation::AskCancel { by: by.clone() },
            false => Operation::Cancel { by: by.clone() },
        };
        match store.operate(id, &operation, &RequestId::fresh(), at).await {
            Ok(()) => return Ok(!held),
            Err(StoreError::Refused(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let now = store.task(id).await?;
        if now.state.is_claimed() == held {
            return Err(refused(&now));
        }
        held = now.state.is_claimed();
    }
    Err(CliError::refused(format!("{id} keeps changing hands")).hinted("try again"))
}

fn refused(task: &TaskRecord) -> CliError {
    let id = &task.spec.id;
    let refused = |why: &str| {
        CliError::refused(format!("{id} is {}, so it cannot be cancelled{why}", task.state.name()))
    };
    match &task.state {
        TaskState::Landed { commit, .. } => {
            refused("").hinted(format!("take it back with: git revert {}", &commit[..commit.len().min(12)]))
        }
        TaskState::Landing { waiting: Some(why), .. } => {
            refused(&format!(": it passed its gate and waits to land, because {}", clean_line(why))).hinted(
                format!(
                    "put that right, and {} lands it; `git revert` takes it back",
                    super::status::heir(task)
                ),
            )
        }
        TaskState::Landing { .. } => refused(": it is being landed at this moment")
            .hinted(format!("`regatta status {id}` shows how that ends")),
        _ => refused("")
            .hinted(format!("nothing of it runs any more; `regatta status {id}` shows how it ended")),
    }
}

/// Waits until the holder has ended the agent and said so.
async fn wait(store: &dyn Store, task: &TaskRecord) -> Result<(), CliError> {
    let id = &task.spec.id;
    let again = format!("nothing is lost: {} takes it over and cancels it then", super::status::heir(task));
    let sessions = store.sessions().await?;
    let holder = sessions.iter().find(|info| Some(&info.session) == task.session.as_ref());
    if let Some(info) = holder.filter(|info| is_certainly_dead(&info.node)) {
        return Err(CliError::refused(format!(
            "{id} is held by `{}`, process {}, which is gone; the wish to cancel it is noted",
            info.node.what, info.node.pid
        ))
        .hinted(again));
    }
    if let Some(info) = holder.filter(|info| info.node.is_member()) {
        return Err(tell_member(store, task, info).await?);
    }
    let mut changes = store.subscribe().await?;
    let settled = async {
        loop {
            changes.borrow_and_update();
            let now = store.task(id).await?;
            match now.state {
                TaskState::Cancelled { .. } => return Ok(()),
                // It was faster than the wish.
                ref state if !state.is_claimed() => return Err(refused(&now)),
                _ => {}
            }
            if changes.changed().await.is_err() {
                return Err(CliError::new(RefusalKind::CannotWork, "the store stopped telling of changes"));
            }
        }
    };
    match tokio::time::timeout(PATIENCE, settled).await {
        Ok(settled) => settled,
        Err(_) => Err(CliError::new(
            RefusalKind::TimedOut,
            format!("{id} has not ended within {} s; the wish to cancel it stays", PATIENCE.as_secs()),
        )
        .hinted(format!("`regatta logs -f {id}` shows what it does; {again}"))),
    }
}

/// A member works by hand: it is told, and nobody can end what it does.
async fn tell_member(store: &dyn Store, task: &TaskRecord, info: &SessionInfo) -> Result<CliError, CliError> {
    let (id, name) = (&task.spec.id, info.node.holder());
    let text = format!("{id} is to be cancelled: `regatta crew unregister` or a failure gives it back");
    let who = crate::crew::As::default();
    if let Ok(to) = MemberName::parse(name) {
        post(store, &who, Recipients::One(to), MessageKind::Direct, &text, None).await?;
    }
    Ok(CliError::refused(format!("{id} is held by {name}, who was told; the wish to cancel it is noted"))
        .hinted(format!(
            "it is cancelled when {name} gives it back; `regatta crew unregister {name}` makes them"
        )))
}
