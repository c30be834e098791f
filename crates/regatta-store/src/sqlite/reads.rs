//! Reading tasks. Nothing here decides anything.

use regatta_core::attempt::Attempt;
use regatta_core::id::TaskId;
use regatta_core::state::TaskState;
use rusqlite::{Connection, params};

use super::failure::unreadable;
use super::rows::{COLUMNS, Row, from_json, to_json};
use crate::{Result, TaskQuery, TaskRecord};

pub(super) fn task(db: &Connection, task: &TaskId) -> Result<TaskRecord> {
    record(db, Row::require(db, task)?)
}

pub(super) fn tasks(db: &Connection, query: &TaskQuery) -> Result<Vec<TaskRecord>> {
    let sql = format!(
        "select {COLUMNS} from task t where t.seq > ?1 \
         and (?2 is null or t.queue = ?2) \
         and (?3 is null or t.name in (select value from json_each(?3))) \
         and (?4 is null or substr(t.folded, 1, length(?4)) = ?4) \
         order by t.seq limit ?5"
    );
    let states = (!query.states.is_empty()).then(|| to_json(&query.states));
    let prefix = query.prefix.as_ref().map(|prefix| prefix.to_ascii_lowercase());
    let limit = if query.limit == 0 { -1 } else { i64::try_from(query.limit).unwrap_or(-1) };
    let mut select = db.prepare_cached(&sql)?;
    let mut rows =
        select.query(params![query.after.unwrap_or(0).cast_signed(), query.queue, states, prefix, limit])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        records.push(record(db, Row::read(row)?)?);
    }
    Ok(records)
}

pub(super) fn counts(db: &Connection, queue: Option<&str>) -> Result<Vec<(String, u64)>> {
    let mut query =
        db.prepare_cached("select name, count(*) from task where ?1 is null or queue = ?1 group by name")?;
    let mut counts: Vec<(String, u64)> = query
        .query_map([queue], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned())))?
        .collect::<rusqlite::Result<_>>()?;
    counts.sort_by_key(|(name, _)| TaskState::NAMES.iter().position(|known| known == name));
    Ok(counts)
}

pub(super) fn attempts(db: &Connection, task: &TaskId) -> Result<Vec<Attempt>> {
    let row = Row::require(db, task)?;
    let mut query = db.prepare_cached("select body from attempt where task = ?1 order by n")?;
    let mut rows = query.query([row.seq])?;
    let mut attempts = Vec::new();
    while let Some(found) = rows.next()? {
        attempts.push(from_json(&format!("an attempt of {}", row.id), &found.get::<_, String>(0)?)?);
    }
    Ok(attempts)
}

fn record(db: &Connection, row: Row) -> Result<TaskRecord> {
    Ok(TaskRecord {
        spec: row.spec(db)?,
        waiting_on: if row.unmet == 0 { Vec::new() } else { waiting_on(db, row.seq)? },
        seq: row.seq.cast_unsigned(),
        state: row.state,
        queue: row.queue,
        attempts: row.attempts,
        charged: row.charged,
        environment_failures: row.environment_failures,
        session: row.session,
        fence: row.fence,
        cancel_asked: row.cancel_asked,
        created_at: row.created_at,
        updated_at: row.updated_at,
    })
}

fn waiting_on(db: &Connection, seq: i64) -> Result<Vec<TaskId>> {
    let mut query = db.prepare_cached(
        "select p.id from dependency d join task p on p.seq = d.parent \
         where d.child = ?1 and p.fate <> 1 order by p.seq",
    )?;
    let mut rows = query.query([seq])?;
    let mut ids = Vec::new();
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        ids.push(TaskId::parse(&id).map_err(|error| unreadable("a task id", error))?);
    }
    Ok(ids)
}
