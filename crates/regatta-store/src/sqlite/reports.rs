//! Reads reports of agents.

use regatta_core::id::TaskId;
use rusqlite::{Connection, OptionalExtension, params};

use super::rows;
use crate::rules::record::Said;
use crate::stored::from_json;
use crate::{Reported, Result};

pub(super) fn said(db: &Connection, seq: i64, attempt: u32) -> Result<Option<Said>> {
    let mut query =
        db.prepare_cached("select statement, stuck from report where task = ?1 and attempt = ?2")?;
    let found =
        query.query_row(params![seq, attempt], |row| Ok(Said { statement: row.get(0)?, stuck: row.get(1)? }));
    Ok(found.optional()?)
}

pub(super) fn reported(db: &Connection, task: &TaskId, attempt: u32) -> Result<Reported> {
    let row = rows::require(db, task)?;
    let Some(said) = said(db, row.seq.cast_signed(), attempt)? else { return Ok(Reported::default()) };
    let statement = said.statement.map(|body| from_json("a verdict", &body)).transpose()?;
    Ok(Reported { statement, stuck: said.stuck })
}
