//! The event log.
//!
//! Invariant: an event is appended in the transaction that makes it true. Since only one transaction writes at a time,
//! the order of `seq` is the order of commits, and a reader that continues from the last `seq` misses none.

use regatta_core::event::{Event, EventBody};
use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::failure::unreadable;
use super::rows::{Row, bounded, from_json, remember};
use super::writer::Tx;
use crate::{RequestId, Result, StoreError};

pub(super) fn append(
    tx: &Tx,
    task: Option<i64>,
    attempt: Option<u32>,
    body: &EventBody,
    at: Timestamp,
) -> Result<()> {
    let body = bounded("the event", body)?;
    tx.prepare_cached("insert into event(at, task, attempt, body) values(?1, ?2, ?3, ?4)")?
        .execute(params![at.millis(), task, attempt, body])?;
    Ok(())
}

/// Appends an event from a caller, once.
pub(super) fn append_once(
    tx: &Tx,
    task: Option<&TaskId>,
    attempt: Option<u32>,
    body: &EventBody,
    request: &RequestId,
    at: Timestamp,
) -> Result<()> {
    if changes_state(body) {
        return Err(StoreError::Invalid(
            "such an event is written by the store itself, together with the state it tells of".into(),
        ));
    }
    let task = task.map(|task| Row::require(tx, task)).transpose()?.map(|row| row.seq);
    if !remember(tx, request, "append", task)? {
        return Ok(());
    }
    append(tx, task, attempt, body, at)
}

/// Whether an event is part of the history that makes up a task's state.
fn changes_state(body: &EventBody) -> bool {
    match body {
        EventBody::Enqueued { .. }
        | EventBody::Claimed { .. }
        | EventBody::Started { .. }
        | EventBody::Exited { .. }
        | EventBody::Retrying { .. }
        | EventBody::Released { .. }
        | EventBody::Parked { .. }
        | EventBody::Due
        | EventBody::Approved { .. }
        | EventBody::Done { .. }
        | EventBody::Landing { .. }
        | EventBody::Failed { .. }
        | EventBody::Blocked { .. }
        | EventBody::Skipped { .. }
        | EventBody::Rearmed
        | EventBody::Cancelled { .. }
        | EventBody::CancelAsked { .. }
        | EventBody::PromptQueued { .. }
        | EventBody::FollowingUp { .. }
        | EventBody::Stands { .. }
        | EventBody::Adopted { .. } => true,
        EventBody::LaneReady { .. }
        | EventBody::Progressed { .. }
        | EventBody::Reported { .. }
        | EventBody::Stuck { .. }
        | EventBody::Judged { .. }
        | EventBody::ConflictAhead { .. }
        | EventBody::Suspected { .. }
        | EventBody::WentOn { .. }
        | EventBody::BudgetWarned { .. }
        | EventBody::BudgetSpent { .. }
        | EventBody::Salvaged { .. }
        | EventBody::TakenBack { .. }
        | EventBody::Noted { .. }
        | EventBody::Unknown(_) => false,
    }
}

pub(super) fn after(db: &Connection, seq: u64, task: Option<&TaskId>, limit: usize) -> Result<Vec<Event>> {
    let task = task.map(|task| Row::require(db, task)).transpose()?.map(|row| row.seq);
    let only = if task.is_some() { "e.task = ?3" } else { "?3 is null" };
    let sql = format!(
        "select e.seq, e.at, t.id, e.attempt, e.body from event e left join task t on t.seq = e.task \
         where {only} and e.seq > ?1 order by e.seq limit ?2"
    );
    let mut query = db.prepare_cached(&sql)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = query.query(params![seq.cast_signed(), limit, task])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let task: Option<String> = row.get(2)?;
        let task =
            task.map(|id| TaskId::parse(&id)).transpose().map_err(|error| unreadable("a task id", error))?;
        events.push(Event {
            seq: row.get::<_, i64>(0)?.cast_unsigned(),
            at: Timestamp::from_millis(row.get(1)?),
            task,
            attempt: row.get(3)?,
            body: from_json("an event", &row.get::<_, String>(4)?)?,
        });
    }
    Ok(events)
}

pub(super) fn last_seq(db: &Connection) -> Result<u64> {
    let seq: i64 =
        db.prepare_cached("select coalesce(max(seq), 0) from event")?.query_row([], |row| row.get(0))?;
    Ok(seq.cast_unsigned())
}
