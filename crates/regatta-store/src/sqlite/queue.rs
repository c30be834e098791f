//! Ready tasks, timers, and operations on tasks that no session holds.
//!
//! Invariant: a task is ready exactly if it is in the partial index `task_ready`: pending, with no time to wait for,
//! all dependencies met. Both readers here walk an index and touch only the rows they return.

use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::state::{Change, ParkReason, TaskState};
use regatta_core::time::{Timestamp, counted};
use regatta_core::train::CarStep;
use rusqlite::{Connection, params};

use super::dependents::dead_dependency;
use super::failure::unreadable;
use super::rows::{Row, from_json, live_attempt, remember};
use super::writer::Tx;
use super::{events, train};
use crate::{Operation, Ready, ReadyKey, RequestId, Result, StoreError};

/// The ready tasks of one priority behind a position, and those of all lower priorities. Two walks, because SQLite
/// seeks to `(rank, seq) > (?, ?)` by the rank alone and would step over the rest. The conditions repeat those of the
/// index word for word: that is how SQLite recognises it.
pub(super) const READY: [&str; 2] = [
    "select t.rank, t.seq, s.body from task t join spec s on s.task = t.seq \
     where t.queue = ?1 and t.name = 'pending' and t.wakes_at is null and t.unmet = 0 \
     and t.rank = ?2 and t.seq > ?3 order by t.seq limit ?4",
    "select t.rank, t.seq, s.body from task t join spec s on s.task = t.seq \
     where t.queue = ?1 and t.name = 'pending' and t.wakes_at is null and t.unmet = 0 \
     and t.rank > ?2 order by t.rank, t.seq limit ?4",
];

pub(super) fn ready(
    db: &Connection,
    queue: &str,
    after: Option<&ReadyKey>,
    limit: usize,
) -> Result<Vec<Ready>> {
    let (rank, seq) = after.map_or((i64::MIN, 0), |key| (-i64::from(key.priority), key.seq.cast_signed()));
    let mut ready = Vec::new();
    for sql in READY {
        let left = i64::try_from(limit.saturating_sub(ready.len())).unwrap_or(i64::MAX);
        let mut query = db.prepare_cached(sql)?;
        let mut rows = query.query(params![queue, rank, seq, left])?;
        while let Some(row) = rows.next()? {
            let priority =
                i32::try_from(-row.get::<_, i64>(0)?).map_err(|error| unreadable("a priority", error))?;
            let key = ReadyKey { priority, seq: row.get::<_, i64>(1)?.cast_unsigned() };
            ready.push(Ready { key, spec: from_json("a spec", &row.get::<_, String>(2)?)? });
        }
    }
    Ok(ready)
}

pub(super) const TIMERS: &str = "select id, wakes_at from task \
    where queue = ?1 and wakes_at is not null order by wakes_at, seq limit ?2";

pub(super) fn timers(db: &Connection, queue: &str, limit: usize) -> Result<Vec<(TaskId, Timestamp)>> {
    let mut query = db.prepare_cached(TIMERS)?;
    let mut rows = query.query(params![queue, i64::try_from(limit).unwrap_or(i64::MAX)])?;
    let mut timers = Vec::new();
    while let Some(row) = rows.next()? {
        let id = TaskId::parse(&row.get::<_, String>(0)?).map_err(|error| unreadable("a task id", error))?;
        timers.push((id, Timestamp::from_millis(row.get(1)?)));
    }
    Ok(timers)
}

pub(super) fn operate(
    tx: &Tx,
    task: &TaskId,
    operation: &Operation,
    request: &RequestId,
    at: Timestamp,
) -> Result<()> {
    let mut row = Row::require(tx, task)?;
    if !remember(tx, request, "operate", Some(row.seq))? {
        return Ok(());
    }
    if let Operation::AskCancel { by } = operation {
        return ask_cancel(tx, &row, by, at);
    }
    if row.state.is_claimed() {
        return Err(StoreError::Refused(format!(
            "{}: a {} task is its holder's to change",
            row.id,
            row.state.name()
        )));
    }
    match operation {
        Operation::AskCancel { .. } => Ok(()),
        Operation::Cancel { by } => cancel(tx, &mut row, by, at),
        Operation::Requeue { by } => requeue(tx, &mut row, by, at),
        Operation::Retry { by } => retry(tx, &mut row, by, at),
        Operation::Land { by, attempt, request } => {
            let head = request.head.clone();
            let change = Change::Board { attempt: *attempt, head: head.clone() };
            let event = EventBody::Noted { text: format!("sent to the train by {by}") };
            events::append(tx, Some(row.seq), Some(*attempt), &event, at)?;
            row.change(tx, &change, &EventBody::Approved { head }, at)?;
            train::join(tx, &row, *attempt, request)
        }
        Operation::Accept { by, attempt, request } => {
            let head = request.head.clone();
            let change = Change::Accept { attempt: *attempt, head: head.clone() };
            let event = EventBody::Noted { text: format!("accepted by {by} despite its verdict") };
            events::append(tx, Some(row.seq), Some(*attempt), &event, at)?;
            row.change(tx, &change, &EventBody::Approved { head }, at)?;
            tx.prepare_cached(
                "update attempt set body = json_set(body, '$.base', ?3, '$.head', ?4) where task = ?1 and n = ?2",
            )?
            .execute(params![row.seq, attempt, request.base.as_str(), request.head.as_str()])?;
            train::join(tx, &row, *attempt, request)
        }
        Operation::EndConversations => {
            tx.prepare_cached(
                "update attempt set body = json_set(body, '$.conversation_over', json('true')) where task = ?1",
            )?
            .execute([row.seq])?;
            Ok(())
        }
        Operation::Due => row.change(tx, &Change::Due, &EventBody::Due, at),
        Operation::Park { until, detail } => {
            let (until, why, detail) = (*until, ParkReason::Operator, detail.clone());
            let event = EventBody::Parked { until, why, detail: detail.clone() };
            row.change(tx, &Change::Park { until, why, detail }, &event, at)
        }
    }
}

fn ask_cancel(tx: &Tx, row: &Row, by: &str, at: Timestamp) -> Result<()> {
    if !row.state.is_claimed() {
        return Err(StoreError::Refused(format!(
            "{}: a {} task is not held, so there is no one to ask",
            row.id,
            row.state.name()
        )));
    }
    tx.prepare_cached("update task set cancel_asked = ?2 where seq = ?1")?.execute(params![row.seq, by])?;
    let event = EventBody::CancelAsked { by: by.to_owned() };
    events::append(tx, Some(row.seq), live_attempt(&row.state), &event, at)
}

fn cancel(tx: &Tx, row: &mut Row, by: &str, at: Timestamp) -> Result<()> {
    if let TaskState::Landing { .. } = row.state {
        // Once the car is gated, the ref may have been moved already.
        if let Some(CarStep::Gated { .. }) = train::step_of(tx, row)? {
            return Err(StoreError::Refused(format!("{}: it is being landed at this moment", row.id)));
        }
        train::leave(tx, row)?;
    }
    row.change(tx, &Change::Cancel { by: by.to_owned() }, &EventBody::Cancelled { by: by.to_owned() }, at)
}

fn retry(tx: &Tx, row: &mut Row, by: &str, at: Timestamp) -> Result<()> {
    if !matches!(row.state, TaskState::Failed { .. } | TaskState::Blocked { .. }) {
        return Err(StoreError::Refused(format!(
            "{}: a {} task cannot be retried",
            row.id,
            row.state.name()
        )));
    }
    let most = row.spec(tx)?.max_attempts;
    if row.charged >= most {
        return Err(StoreError::Refused(format!(
            "{}: it has failed {} of {}",
            row.id,
            row.charged,
            counted(most, "time")
        )));
    }
    // A user who asks for it has seen why its holders were lost.
    tx.prepare_cached("update task set lost = 0 where seq = ?1")?.execute([row.seq])?;
    again(tx, row, by, at)
}

fn requeue(tx: &Tx, row: &mut Row, by: &str, at: Timestamp) -> Result<()> {
    forget_failures(tx, row)?;
    again(tx, row, by, at)
}

fn again(tx: &Tx, row: &mut Row, by: &str, at: Timestamp) -> Result<()> {
    if let Some((dependency, _)) = dead_dependency(tx, row.seq)? {
        return Err(StoreError::Refused(format!(
            "{}: it depends on {dependency}, which did not succeed; requeue that first",
            row.id
        )));
    }
    row.change(tx, &Change::Requeue, &EventBody::Enqueued { queue: row.queue.clone() }, at)?;
    events::append(tx, Some(row.seq), None, &EventBody::Noted { text: format!("requeued by {by}") }, at)
}

/// A fresh start: attempts keep counting up, none of them is charged.
pub(super) fn forget_failures(tx: &Tx, row: &mut Row) -> Result<()> {
    tx.prepare_cached("update task set charged = 0, environment_failures = 0, lost = 0 where seq = ?1")?
        .execute([row.seq])?;
    (row.charged, row.environment_failures) = (0, 0);
    Ok(())
}
