//! Tasks as rows.

use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;
use regatta_core::writes::WritePath;
use rusqlite::{Connection, OptionalExtension};

use crate::rules::record::Task;
use crate::stored::{from_json, state_of, unreadable};
use crate::{Result, SessionId, StoreError};

/// The columns that [`read`] expects, in its order, of the table or alias `t`.
pub(super) const COLUMNS: &str = "t.seq, t.id, t.queue, t.state, t.unmet, t.attempts, t.charged, \
    t.environment_failures, t.fence, t.session, t.claim_request, t.token_hash, t.cancel_asked, t.created_at, \
    t.updated_at, t.standing, t.interrupt_asked, t.rank, t.lost, t.counted_from, t.concurrency_group, t.writes";

/// The task, regardless of case.
pub(super) fn find(db: &Connection, folded: &str) -> Result<Option<Task>> {
    let mut query = db.prepare_cached(&format!("select {COLUMNS} from task t where t.folded = ?1"))?;
    query.query_row([folded], |row| Ok(read(row))).optional()?.transpose()
}

pub(super) fn require(db: &Connection, task: &TaskId) -> Result<Task> {
    find(db, &task.folded())?.ok_or_else(|| StoreError::NotFound(format!("task {task}")))
}

/// The task in a row that has [`COLUMNS`].
pub(super) fn read(row: &rusqlite::Row<'_>) -> Result<Task> {
    let id: String = row.get(1)?;
    let writes: Option<String> = row.get(21)?;
    Ok(Task {
        seq: row.get::<_, i64>(0)?.cast_unsigned(),
        id: TaskId::parse(&id).map_err(|error| unreadable(&format!("the task id {id:?}"), error))?,
        queue: row.get(2)?,
        state: state_of(row.get_ref(3)?.as_str().map_err(|error| unreadable("a state", error))?)?,
        unmet: row.get(4)?,
        attempts: row.get(5)?,
        charged: row.get(6)?,
        environment_failures: row.get(7)?,
        fence: row.get::<_, i64>(8)?.cast_unsigned(),
        session: row.get::<_, Option<String>>(9)?.map(SessionId),
        claim_request: row.get(10)?,
        token_hash: row.get(11)?,
        cancel_asked: row.get(12)?,
        created_at: Timestamp::from_millis(row.get(13)?),
        updated_at: Timestamp::from_millis(row.get(14)?),
        standing: row.get::<_, Option<String>>(15)?.map(|state| state_of(&state)).transpose()?,
        interrupt_asked: row.get(16)?,
        priority: i32::try_from(-row.get::<_, i64>(17)?).map_err(|error| unreadable("a priority", error))?,
        lost: row.get(18)?,
        counted_from: Timestamp::from_millis(row.get(19)?),
        group: row.get(20)?,
        writes: match writes {
            None => Vec::<WritePath>::new(),
            Some(writes) => from_json("the writes of a task", &writes)?,
        },
    })
}

/// The spec of a task as it is stored.
pub(super) fn spec(db: &Connection, task: &Task) -> Result<String> {
    let mut query = db.prepare_cached("select body from spec where task = ?1")?;
    Ok(query.query_row([task.seq.cast_signed()], |row| row.get(0))?)
}
