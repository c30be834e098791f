//! Reads the shared context.

use tokio_postgres::Row;

use super::connection::Connection;
use super::rows::time;
use super::wire::{get_text, get_u64, maybe_text};
use crate::Result;
use crate::crew::{ContextEntry, ContextQuery};

/// The columns that [`entry`] expects, of the alias `r`.
pub(super) const COLUMNS: &str = "r.key, r.value, r.version, r.change, r.author, r.at";

pub(super) fn entry(row: &Row, at: usize) -> Result<ContextEntry> {
    Ok(ContextEntry {
        key: get_text(row, at)?,
        value: maybe_text(row, at + 1)?,
        version: get_u64(row, at + 2)?,
        change: get_u64(row, at + 3)?,
        by: get_text(row, at + 4)?,
        at: time(row, at + 5)?,
    })
}

pub(super) async fn get(db: &Connection, key: &str) -> Result<Option<ContextEntry>> {
    // No key has a NUL, and PostgreSQL would refuse one.
    let key = super::wire::escaped(key);
    let sql = format!("select {COLUMNS} from context r where r.key = $1 and r.value is not null");
    let rows = db.rows(&sql, &[&key.as_ref()]).await?;
    rows.first().map(|row| entry(row, 0)).transpose()
}

pub(super) async fn list(db: &Connection, wanted: &ContextQuery) -> Result<Vec<ContextEntry>> {
    let order =
        if wanted.after.is_some() { "order by r.change" } else { "and r.value is not null order by r.key" };
    let sql = format!("select {COLUMNS} from context r where r.change > $1 {order}");
    let rows = db.rows(&sql, &[&wanted.after.unwrap_or(0).cast_signed()]).await?;
    let entries = rows.iter().map(|row| entry(row, 0)).collect::<Result<Vec<_>>>()?;
    Ok(entries.into_iter().filter(|entry| entry.key.starts_with(&wanted.prefix)).collect())
}
