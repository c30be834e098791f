//! Tasks as rows.

use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;
use regatta_core::writes::WritePath;
use tokio_postgres::Row;

use super::connection::Connection;
use super::wire::{get, get_text, get_u32, get_u64, maybe_text};
use crate::rules::record::Task;
use crate::stored::{from_json, state_of, unreadable};
use crate::{Result, SessionId, StoreError};

/// The columns that [`read`] expects, in its order, of the table or alias `t`.
pub(super) const COLUMNS: &str = "t.seq, t.id, t.queue, t.state, t.unmet, t.attempts, t.charged, \
    t.environment_failures, t.fence, t.session, t.claim_request, t.token_hash, t.cancel_asked, t.created_at, \
    t.updated_at, t.standing, t.interrupt_asked, t.rank, t.lost, t.counted_from, t.concurrency_group, t.writes, \
    t.version";

/// How many there are.
pub(super) const WIDTH: usize = 23;

/// The task in a row that has [`COLUMNS`] from `at` on, and its version.
pub(super) fn read(row: &Row, at: usize) -> Result<(Task, u64)> {
    let task = Task {
        seq: get_u64(row, at)?,
        id: parse_id(&get_text(row, at + 1)?)?,
        queue: get_text(row, at + 2)?,
        state: state_of(&get_text(row, at + 3)?)?,
        unmet: get_u32(row, at + 4)?,
        attempts: get_u32(row, at + 5)?,
        charged: get_u32(row, at + 6)?,
        environment_failures: get_u32(row, at + 7)?,
        fence: get_u64(row, at + 8)?,
        session: maybe_text(row, at + 9)?.map(SessionId),
        claim_request: maybe_text(row, at + 10)?,
        token_hash: maybe_text(row, at + 11)?,
        cancel_asked: maybe_text(row, at + 12)?,
        created_at: time(row, at + 13)?,
        updated_at: time(row, at + 14)?,
        standing: maybe_text(row, at + 15)?.map(|state| state_of(&state)).transpose()?,
        interrupt_asked: maybe_text(row, at + 16)?,
        priority: priority(row, at + 17)?,
        lost: get_u32(row, at + 18)?,
        counted_from: time(row, at + 19)?,
        group: maybe_text(row, at + 20)?,
        writes: match maybe_text(row, at + 21)? {
            None => Vec::<WritePath>::new(),
            Some(writes) => from_json("the writes of a task", &writes)?,
        },
    };
    Ok((task, get_u64(row, at + 22)?))
}

/// The same where the row may have no task.
pub(super) fn maybe(row: &Row, at: usize) -> Result<Option<(Task, u64)>> {
    match get::<Option<i64>>(row, at)? {
        None => Ok(None),
        Some(_) => read(row, at).map(Some),
    }
}

pub(super) fn time(row: &Row, n: usize) -> Result<Timestamp> {
    Ok(Timestamp::from_millis(get(row, n)?))
}

pub(super) fn maybe_time(row: &Row, n: usize) -> Result<Option<Timestamp>> {
    Ok(get::<Option<i64>>(row, n)?.map(Timestamp::from_millis))
}

/// The priority from a column that has it negated.
pub(super) fn priority(row: &Row, n: usize) -> Result<i32> {
    i32::try_from(-get::<i64>(row, n)?).map_err(|error| unreadable("a priority", error))
}

pub(super) fn parse_id(text: &str) -> Result<TaskId> {
    TaskId::parse(text).map_err(|error| unreadable(&format!("the task id {text:?}"), error))
}

/// The number of a task that must exist.
pub(super) async fn number(db: &Connection, task: &TaskId) -> Result<i64> {
    let rows = db.rows("select seq from task where folded = $1", &[&task.folded()]).await?;
    match rows.first() {
        Some(row) => get(row, 0),
        None => Err(StoreError::NotFound(format!("task {task}"))),
    }
}
