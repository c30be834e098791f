//! Reads reports of agents.

use regatta_core::id::TaskId;

use super::connection::Connection;
use super::rows;
use super::wire::maybe_text;
use crate::stored::from_json;
use crate::{Reported, Result};

pub(super) async fn reported(db: &Connection, task: &TaskId, attempt: u32) -> Result<Reported> {
    let task = rows::number(db, task).await?;
    let sql = "select statement, stuck from report where task = $1 and attempt = $2";
    let rows = db.rows(sql, &[&task, &i64::from(attempt)]).await?;
    let Some(row) = rows.first() else { return Ok(Reported::default()) };
    let statement = maybe_text(row, 0)?.map(|body| from_json("a verdict", &body)).transpose()?;
    Ok(Reported { statement, stuck: maybe_text(row, 1)? })
}
