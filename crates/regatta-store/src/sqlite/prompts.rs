//! Reads follow-ups to a task's agent.

use regatta_core::id::TaskId;
use regatta_core::prompt::{Prompt, PromptState};
use regatta_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use super::rows;
use crate::Result;
use crate::rules::record::Task;
use crate::stored::unreadable;

pub(super) fn all(db: &Connection, task: &TaskId) -> Result<Vec<Prompt>> {
    let row = rows::require(db, task)?;
    let mut query =
        db.prepare_cached("select n, text, by, at, state, attempt from prompt where task = ?1 order by n")?;
    let mut rows = query.query([row.seq.cast_signed()])?;
    let mut prompts = Vec::new();
    while let Some(row) = rows.next()? {
        prompts.push(read(row)?);
    }
    Ok(prompts)
}

pub(super) fn read(row: &rusqlite::Row<'_>) -> Result<Prompt> {
    let state: String = row.get(4)?;
    Ok(Prompt {
        n: row.get(0)?,
        text: row.get(1)?,
        by: row.get(2)?,
        at: Timestamp::from_millis(row.get(3)?),
        state: PromptState::parse(&state)
            .ok_or_else(|| unreadable("a prompt", format!("it cannot be {state:?}")))?,
        attempt: row.get(5)?,
    })
}

/// The prompt that the current attempt has taken.
pub(super) fn taken(db: &Connection, row: &Task) -> Result<Option<Prompt>> {
    let mut query = db.prepare_cached(
        "select n, text, by, at, state, attempt from prompt \
         where task = ?1 and state = 'taken'",
    )?;
    query.query_row([row.seq.cast_signed()], |row| Ok(read(row))).optional()?.transpose()
}
