//! Reads the shared context.

use regatta_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use crate::Result;
use crate::crew::{ContextEntry, ContextQuery};

pub(super) fn find(db: &Connection, key: &str) -> Result<Option<ContextEntry>> {
    let mut query =
        db.prepare_cached("select key, value, version, change, author, at from context where key = ?1")?;
    Ok(query.query_row([key], read).optional()?)
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<ContextEntry> {
    Ok(ContextEntry {
        key: row.get(0)?,
        value: row.get(1)?,
        version: row.get::<_, i64>(2)?.cast_unsigned(),
        change: row.get::<_, i64>(3)?.cast_unsigned(),
        by: row.get(4)?,
        at: Timestamp::from_millis(row.get(5)?),
    })
}

pub(super) fn get(db: &Connection, key: &str) -> Result<Option<ContextEntry>> {
    Ok(find(db, key)?.filter(|entry| entry.value.is_some()))
}

pub(super) fn list(db: &Connection, wanted: &ContextQuery) -> Result<Vec<ContextEntry>> {
    let sql = match wanted.after {
        None => {
            "select key, value, version, change, author, at from context \
                 where value is not null and change > ?1 order by key"
        }
        Some(_) => {
            "select key, value, version, change, author, at from context where change > ?1 order by change"
        }
    };
    let mut query = db.prepare_cached(sql)?;
    let after = wanted.after.unwrap_or(0).cast_signed();
    let entries = query.query_map([after], read)?.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(entries.into_iter().filter(|entry| entry.key.starts_with(&wanted.prefix)).collect())
}
