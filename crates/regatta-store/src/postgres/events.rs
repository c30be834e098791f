//! Reads the event log.
//!
//! Invariant: an event's number comes from the row that the last statement of every commit locks, so that the order of
//! numbers is the order of commits, and a reader that continues from the last number misses none.

use regatta_core::event::Event;
use regatta_core::id::TaskId;

use super::connection::Connection;
use super::rows::{self, parse_id, time};
use super::wire::{get, get_text, get_u64, maybe_text, stored};
use crate::Result;
use crate::stored::from_json;

pub(super) async fn after(
    db: &Connection,
    seq: u64,
    task: Option<&TaskId>,
    limit: usize,
) -> Result<Vec<Event>> {
    let task = match task {
        Some(task) => Some(rows::number(db, task).await?),
        None => None,
    };
    let only = if task.is_some() { "e.task = $3" } else { "$3::bigint is null" };
    let sql = format!(
        "select e.seq, e.at, t.id, e.attempt, e.body from event e left join task t on t.seq = e.task \
         where {only} and e.seq > $1 order by e.seq limit $2"
    );
    let rows = db.rows(&sql, &[&seq.cast_signed(), &stored(limit), &task]).await?;
    let mut events = Vec::new();
    for row in &rows {
        events.push(Event {
            seq: get_u64(row, 0)?,
            at: time(row, 1)?,
            task: maybe_text(row, 2)?.map(|id| parse_id(&id)).transpose()?,
            attempt: get::<Option<i64>>(row, 3)?.and_then(|n| u32::try_from(n).ok()),
            body: from_json("an event", &get_text(row, 4)?)?,
        });
    }
    Ok(events)
}

pub(super) async fn last_seq(db: &Connection) -> Result<u64> {
    let rows = db.rows("select event_seq from project", &[]).await?;
    rows.first().map_or(Ok(0), |row| get_u64(row, 0))
}
