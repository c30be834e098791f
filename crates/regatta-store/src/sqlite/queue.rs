//! Ready tasks and timers.
//!
//! Invariant: a task is ready exactly if it is in the partial index `task_ready`: pending, with no time to wait for,
//! all dependencies met. Both readers here walk an index and touch only the rows they return.

use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;
use rusqlite::{Connection, params};

use crate::stored::{spec_of, unreadable};
use crate::{Ready, ReadyKey, Result};

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
    let (mut ready, mut after) = (Vec::new(), after.cloned());
    loop {
        let wanted = limit - ready.len();
        let (read, last) = page(db, queue, after.as_ref(), wanted, &mut ready)?;
        // What only a newer version can read is left to that version, and others take its place.
        if read < wanted || ready.len() == limit {
            return Ok(ready);
        }
        after = last;
    }
}

/// Adds the next ready tasks. Returns how many were read, and the position of the last one.
fn page(
    db: &Connection,
    queue: &str,
    after: Option<&ReadyKey>,
    limit: usize,
    ready: &mut Vec<Ready>,
) -> Result<(usize, Option<ReadyKey>)> {
    let (rank, seq) = after.map_or((i64::MIN, 0), |key| (-i64::from(key.priority), key.seq.cast_signed()));
    let (mut read, mut last) = (0, None);
    for sql in READY {
        let left = i64::try_from(limit.saturating_sub(read)).unwrap_or(i64::MAX);
        let mut query = db.prepare_cached(sql)?;
        let mut rows = query.query(params![queue, rank, seq, left])?;
        while let Some(row) = rows.next()? {
            read += 1;
            let priority =
                i32::try_from(-row.get::<_, i64>(0)?).map_err(|error| unreadable("a priority", error))?;
            let key = ReadyKey { priority, seq: row.get::<_, i64>(1)?.cast_unsigned() };
            last = Some(key.clone());
            if let Some(spec) = spec_of("a spec", &row.get::<_, String>(2)?)? {
                ready.push(Ready { key, spec });
            }
        }
    }
    Ok((read, last))
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
