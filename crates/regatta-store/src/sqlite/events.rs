//! The event log.
//!
//! Invariant: an event is appended in the transaction that makes it true. Since only one transaction writes at a time,
//! the order of `seq` is the order of commits, and a reader that continues from the last `seq` misses none.

use regatta_core::event::Event;
use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::rows;
use super::writer::Tx;
use crate::Result;
use crate::rules::plan::NewEvent;
use crate::stored::{from_json, unreadable};

pub(super) fn append(tx: &Tx, event: &NewEvent) -> Result<()> {
    let task = event.task.as_ref().map(|(seq, _)| seq.cast_signed());
    tx.prepare_cached("insert into event(at, task, attempt, body) values(?1, ?2, ?3, ?4)")?
        .execute(params![event.at.millis(), task, event.attempt, event.body])?;
    Ok(())
}

pub(super) fn after(db: &Connection, seq: u64, task: Option<&TaskId>, limit: usize) -> Result<Vec<Event>> {
    let task = task.map(|task| rows::require(db, task)).transpose()?.map(|row| row.seq.cast_signed());
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
