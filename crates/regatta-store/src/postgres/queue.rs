//! Ready tasks and timers.
//!
//! Invariant: a task is ready exactly if it is in the partial index `task_ready`: pending, with no time to wait for,
//! all dependencies met. Both readers here walk an index and touch only the rows they return.

use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;

use super::connection::Connection;
use super::rows::{parse_id, priority, time};
use super::wire::{escaped, get_text, get_u64, stored};
use crate::stored::spec_of;
use crate::{Ready, ReadyKey, Result};

pub(super) async fn ready(
    db: &Connection,
    queue: &str,
    after: Option<&ReadyKey>,
    limit: usize,
) -> Result<Vec<Ready>> {
    let (mut ready, mut after) = (Vec::new(), after.cloned());
    loop {
        let wanted = limit - ready.len();
        let (read, last) = page(db, queue, after.as_ref(), wanted, &mut ready).await?;
        // What only a newer version can read is left to that version, and others take its place.
        if read < wanted || ready.len() == limit {
            return Ok(ready);
        }
        after = last;
    }
}

/// Adds the next ready tasks. Returns how many were read, and the position of the last one.
async fn page(
    db: &Connection,
    queue: &str,
    after: Option<&ReadyKey>,
    limit: usize,
    ready: &mut Vec<Ready>,
) -> Result<(usize, Option<ReadyKey>)> {
    let (rank, seq) = after.map_or((i64::MIN, 0), |key| (-i64::from(key.priority), key.seq.cast_signed()));
    let sql = "select t.rank, t.seq, s.body from task t join spec s on s.task = t.seq \
        where t.queue = $1 and t.name = 'pending' and t.wakes_at is null and t.unmet = 0 \
        and (t.rank, t.seq) > ($2, $3) order by t.rank, t.seq limit $4";
    let rows = db.rows(sql, &[&escaped(queue).as_ref(), &rank, &seq, &stored(limit)]).await?;
    let mut last = None;
    for row in &rows {
        let key = ReadyKey { priority: priority(row, 0)?, seq: get_u64(row, 1)? };
        last = Some(key.clone());
        if let Some(spec) = spec_of("a spec", &get_text(row, 2)?)? {
            ready.push(Ready { key, spec });
        }
    }
    Ok((rows.len(), last))
}

pub(super) async fn timers(db: &Connection, queue: &str, limit: usize) -> Result<Vec<(TaskId, Timestamp)>> {
    let sql = "select id, wakes_at from task where queue = $1 and wakes_at is not null \
        order by wakes_at, seq limit $2";
    let rows = db.rows(sql, &[&escaped(queue).as_ref(), &stored(limit)]).await?;
    rows.iter().map(|row| Ok((parse_id(&get_text(row, 0)?)?, time(row, 1)?))).collect()
}
