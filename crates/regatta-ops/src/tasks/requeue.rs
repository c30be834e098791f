//! Starts tasks over.

use std::collections::BTreeSet;

use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::state::{BlockReason, StateName, TaskState};
use regatta_engine::clock;
use regatta_engine::lanes::{Alone, RetireMode, Retired};
use regatta_engine::travel::start_over;
use regatta_store::{IfPresent, MAIN_QUEUE, NewTask, Operation, RequestId, TaskQuery, TaskRecord};

use super::{Changed, Changes, Did, unfit};
use crate::operator::{Operator, Selection, dependencies_first};
use crate::refusal::Refusal;

impl Operator {
    /// Starts tasks over: pending again, in a fresh lane, with no attempt charged. Work in the old lane is saved first.
    /// `All` is every task that is blocked, failed or skipped.
    pub async fn requeue(&self, tasks: &Selection) -> Result<Changes, Refusal> {
        let found = self.select(tasks, &StateName::all_that(StateName::can_retry)).await?;
        let mut changes = Changes::default();
        for task in dependencies_first(found) {
            changes.push(&task.spec.id, requeue(self, &task).await);
        }
        Ok(changes)
    }
}

async fn requeue(operator: &Operator, seen: &TaskRecord) -> Result<Changed, Refusal> {
    let alone = operator.alone(&seen.spec.id).await?;
    let task = operator.store.task(&seen.spec.id).await?;
    let (was, is) = (&seen.state, &task.state);
    if matches!((was, is), (TaskState::Skipped { .. }, TaskState::Pending { .. })) {
        // Its dependency was named too, and has already brought it back.
        return Ok(Changed { task, did: Did::Pending, salvaged: None });
    }
    let lane = match is {
        // Its work has not been judged yet: it only moves to a queue that is served.
        TaskState::Pending { .. } if operator.takers.is_abandoned(&task.queue) => Lane::Keep,
        state if state.is_settled() => Lane::Fresh,
        _ => return Err(unfit(&task, "requeued")),
    };
    restart(operator, &task, lane, &alone).await
}

/// The lane of the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// The lane of the last attempt, with its failure as guidance.
    Keep,
    /// A new lane.
    Fresh,
}

/// Makes a task pending that no process holds: in its queue, or in the daemon's if its own is abandoned.
pub(super) async fn restart(
    operator: &Operator,
    task: &TaskRecord,
    lane: Lane,
    _alone: &Option<Alone>,
) -> Result<Changed, Refusal> {
    let (store, id) = (operator.store.as_ref(), &task.spec.id);
    for dependency in &task.spec.deps {
        let state = store.task(dependency).await?.state;
        if state.is_dead() {
            return Err(Refusal::refused(format!("{id} depends on {dependency}, which is {}", state.name()))
                .hinted(format!("run `regatta requeue {dependency}` first: skipped tasks return with it")));
        }
    }
    // Work that conflicted would conflict again.
    let conflicted = matches!(task.state, TaskState::Blocked { reason: BlockReason::Conflict, .. });
    let salvaged = if lane == Lane::Fresh || conflicted {
        // Its lane may be in another clone.
        start_over(store, id, task.attempts).await?;
        clear_lane(operator, id).await?
    } else {
        None
    };
    let at = clock::now();
    if operator.takers.is_abandoned(&task.queue) {
        let tasks = with_dependents(operator, task).await?;
        store.enqueue(&tasks, &RequestId::fresh(), at).await?;
        let note = EventBody::Noted { text: format!("requeued by {}", operator.by) };
        store.append(Some(id), None, &note, &RequestId::fresh(), at).await?;
    } else {
        let operation = Operation::Requeue { by: operator.by.clone() };
        store.operate(id, &operation, &RequestId::fresh(), at).await?;
    }
    Ok(Changed { task: store.task(id).await?, did: Did::Pending, salvaged })
}

/// Removes the lane of a task that no agent works on. The caller holds its [`Alone`]. The work in the lane is saved
/// first, and the log says where.
pub(crate) async fn clear_lane(operator: &Operator, id: &TaskId) -> Result<Option<String>, Refusal> {
    if !operator.has_lane(id) {
        return Ok(None);
    }
    let Some(lanes) = operator.lanes()? else { return Ok(None) };
    let task = id.clone();
    let retired =
        tokio::task::spawn_blocking(move || lanes.retire(&task, RetireMode::SalvageFirst, clock::now()));
    let reference = match retired.await.expect("git work does not panic")? {
        Retired::Removed { salvaged: Some(salvage) } => salvage.name,
        Retired::Removed { salvaged: None } | Retired::NoLane => return Ok(None),
        Retired::Kept(why) => {
            return Err(Refusal::refused(format!("{id} cannot have a fresh lane: {why}")).hinted(format!(
                "save that by hand (`regatta lane path {id}` shows where), or run `regatta retry {id}`"
            )));
        }
    };
    let event = EventBody::Salvaged { reference: reference.clone(), why: "it was started over".to_owned() };
    operator.store.append(Some(id), None, &event, &RequestId::fresh(), clock::now()).await?;
    Ok(Some(reference))
}

/// The task and its dependents in the same abandoned queue, to be moved to the daemon's queue.
async fn with_dependents(operator: &Operator, task: &TaskRecord) -> Result<Vec<NewTask>, Refusal> {
    let states = vec![StateName::Pending, StateName::Skipped];
    let query = TaskQuery { queue: Some(task.queue.clone()), states, ..TaskQuery::default() };
    let mut others = operator.store.tasks(&query).await?;
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
