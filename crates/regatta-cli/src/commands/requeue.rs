//! `regatta requeue ID…`: starts tasks over.

use std::collections::BTreeSet;

use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::state::{BlockReason, TaskState};
use regatta_engine::clock;
use regatta_engine::lanes::{Alone, RetireMode, Retired};
use regatta_store::{IfPresent, MAIN_QUEUE, NewTask, Operation, RequestId, TaskQuery, TaskRecord};

use crate::cli::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::queue::{Batch, Changed, Queue, Which, dependencies_first, refused};
use crate::ui::Ui;

/// Start tasks over: blocked, failed, cancelled, skipped, done or landed ones are pending again.
///
/// Charged attempts are forgotten, and the next attempt gets a fresh lane: work that is still in the old one is saved
/// first (`regatta salvage list`). Tasks that were skipped because of one come back with it. A task of a run that is
/// over goes to the daemon's queue. --all is every task that is blocked, failed or skipped. To go on in the same lane
/// instead, see `regatta retry`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let (queue, found) = Queue::open_for(global, &args.which, &["blocked", "failed", "skipped"]).await?;
    let mut batch = Batch::default();
    for task in dependencies_first(found) {
        batch.push(&task.spec.id, requeue(&queue, &task).await);
    }
    batch.finish(&queue, true, ui)
}

pub(crate) async fn requeue(queue: &Queue, seen: &TaskRecord) -> Result<Changed, CliError> {
    let alone = queue.alone(&seen.spec.id).await?;
    let task = queue.store.task(&seen.spec.id).await?;
    let (was, is) = (&seen.state, &task.state);
    if matches!((was, is), (TaskState::Skipped { .. }, TaskState::Pending { .. })) {
        // What it depends on was named beside it, and brought it back.
        return Ok(Changed { task, text: "is pending again".to_owned(), salvaged: None });
    }
    let lane = match is {
        // Nothing was said about its work yet: it only goes to where somebody takes it.
        TaskState::Pending { .. } if queue.takers.is_abandoned(&task.queue) => Lane::Keep,
        state if state.is_terminal() || matches!(state, TaskState::Blocked { .. }) => Lane::Fresh,
        _ => return Err(refused(&task, "requeued")),
    };
    restart(queue, &task, lane, &alone).await
}

/// What the next attempt works in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// What the last one left, with its failure as guidance.
    Keep,
    /// A new one.
    Fresh,
}

/// Makes a task pending that nobody holds: in its queue, or in the daemon's where its own is abandoned.
pub(crate) async fn restart(
    queue: &Queue,
    task: &TaskRecord,
    lane: Lane,
    _alone: &Option<Alone>,
) -> Result<Changed, CliError> {
    let (store, id) = (queue.store.as_ref(), &task.spec.id);
    for dependency in &task.spec.deps {
        let state = store.task(dependency).await?.state;
        if state.is_dead() {
            return Err(CliError::refused(format!(
                "{id} depends on {dependency}, which is {}",
                state.name()
            ))
            .hinted(format!("`regatta requeue {dependency}` first: skipped tasks come back with it")));
        }
    }
    // Work that conflicted would conflict again.
    let conflicted = matches!(task.state, TaskState::Blocked { reason: BlockReason::Conflict, .. });
    let salvaged = match lane == Lane::Fresh || conflicted {
        true => clear_lane(queue, id).await?,
        false => None,
    };
    let at = clock::now();
    if queue.takers.is_abandoned(&task.queue) {
        let tasks = with_dependents(queue, task).await?;
        store.enqueue(&tasks, &RequestId::fresh(), at).await?;
        let note = EventBody::Noted { text: format!("requeued by {}", queue.by) };
        store.append(Some(id), None, &note, &RequestId::fresh(), at).await?;
    } else {
        let operation = Operation::Requeue { by: queue.by.clone() };
        store.operate(id, &operation, &RequestId::fresh(), at).await?;
    }
    Ok(Changed { task: store.task(id).await?, text: "is pending again".to_owned(), salvaged })
}

/// Removes the lane of a task that no agent works on. The caller holds its [`Alone`]. The work in the lane is saved
/// first, and the log says where.
pub(crate) async fn clear_lane(queue: &Queue, id: &TaskId) -> Result<Option<String>, CliError> {
    if !queue.has_lane(id) {
        return Ok(None);
    }
    let Some(lanes) = queue.lanes()? else { return Ok(None) };
    let task = id.clone();
    let retired =
        tokio::task::spawn_blocking(move || lanes.retire(&task, RetireMode::SalvageFirst, clock::now()));
    let reference = match retired.await.expect("git work does not panic")? {
        Retired::Removed { salvaged: Some(salvage) } => salvage.name,
        Retired::Removed { salvaged: None } | Retired::NoLane => return Ok(None),
        Retired::Kept(why) => {
            return Err(CliError::refused(format!("{id} cannot have a fresh lane: {why}")).hinted(format!(
                "save that by hand (`regatta lane path {id}` says where), or `regatta retry {id}`"
            )));
        }
    };
    let event = EventBody::Salvaged { reference: reference.clone(), why: "it was started over".to_owned() };
    queue.store.append(Some(id), None, &event, &RequestId::fresh(), clock::now()).await?;
    Ok(Some(reference))
}

/// The task and what waits for it in the same abandoned queue, for the daemon's.
async fn with_dependents(queue: &Queue, task: &TaskRecord) -> Result<Vec<NewTask>, CliError> {
    let states = vec!["pending".to_owned(), "skipped".to_owned()];
    let query = TaskQuery { queue: Some(task.queue.clone()), states, ..TaskQuery::default() };
    let mut others = queue.store.tasks(&query).await?;
    others.retain(|other| other.seq != task.seq);
    let mut ids = BTreeSet::from([task.spec.id.clone()]);
    let mut taken = vec![task.clone()];
    loop {
        let (next, rest): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|other| other.spec.deps.iter().any(|dep| ids.contains(dep)));
        if next.is_empty() {
            break;
        }
        ids.extend(next.iter().map(|next| next.spec.id.clone()));
        taken.extend(next);
        others = rest;
    }
    let new = |record: TaskRecord| NewTask {
        spec: record.spec,
        queue: MAIN_QUEUE.to_owned(),
        if_present: IfPresent::Restart,
    };
    Ok(taken.into_iter().map(new).collect())
}
