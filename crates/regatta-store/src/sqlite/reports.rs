//! Reports of agents.
//!
//! Invariant: a report counts only while its attempt is claimed or running, and only with that attempt's token; both
//! are compared in the transaction that stores it.

use regatta_core::id::TaskId;
use regatta_core::state::TaskState;
use regatta_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::events;
use super::rows::{Row, bounded, from_json, remember};
use super::writer::Tx;
use crate::{Reported, RequestId, Result, StoreError, Word, WorkerReport};

pub(super) fn report(tx: &Tx, report: &WorkerReport, request: &RequestId, at: Timestamp) -> Result<()> {
    let row = Row::require(tx, &report.task)?;
    if !remember(tx, request, "report", Some(row.seq))? {
        return Ok(());
    }
    let fenced = |why: String| Err(StoreError::Fenced(why));
    let (TaskState::Claimed { attempt } | TaskState::Running { attempt, .. }) = row.state else {
        return fenced(format!("{} is {}: no agent is working on it", row.id, row.state.name()));
    };
    if attempt != report.attempt {
        return fenced(format!("{} is in attempt {attempt} by now, not in {}", row.id, report.attempt));
    }
    if row.token_hash.as_deref() != Some(&report.token_hash) {
        return fenced(format!("the token is not that of attempt {attempt} of {}", row.id));
    }
    match &report.word {
        Word::Done(statement) => {
            let body = bounded("the verdict", statement)?;
            tx.prepare_cached(
                "insert into report(task, attempt, statement) values(?1, ?2, ?3) \
                 on conflict(task, attempt) do update set statement = excluded.statement, stuck = null",
            )?
            .execute(params![row.seq, attempt, body])?;
        }
        Word::Stuck(why) => {
            tx.prepare_cached(
                "insert into report(task, attempt, stuck) values(?1, ?2, ?3) \
                 on conflict(task, attempt) do update set stuck = excluded.stuck",
            )?
            .execute(params![row.seq, attempt, why])?;
        }
        Word::Progress { .. } => {}
    }
    events::append(tx, Some(row.seq), Some(attempt), &report.word.event(), at)
}

pub(super) fn reported(db: &Connection, task: &TaskId, attempt: u32) -> Result<Reported> {
    let row = Row::require(db, task)?;
    let mut query =
        db.prepare_cached("select statement, stuck from report where task = ?1 and attempt = ?2")?;
    let found = query
        .query_row(params![row.seq, attempt], |row| {
            Ok((row.get::<_, Option<String>>(0)?, row.get::<_, Option<String>>(1)?))
        })
        .optional()?;
    let Some((statement, stuck)) = found else { return Ok(Reported::default()) };
    let statement = statement.map(|body| from_json("a verdict", &body)).transpose()?;
    Ok(Reported { statement, stuck })
}
