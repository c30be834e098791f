//! The shared context: versioned values.
//!
//! Invariant: the version of a key and the number of changes only grow, also with deletions, so that neither a
//! comparing writer nor a following reader mistakes a new value for an old one.

use regatta_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::train;
use super::writer::Tx;
use crate::crew::{ContextEntry, ContextQuery, ContextWrite, MAX_CONTEXT_KEY, MAX_CONTEXT_VALUE};
use crate::{RequestId, Result, StoreError};

pub(super) fn set(tx: &Tx, write: &ContextWrite, request: &RequestId, at: Timestamp) -> Result<u64> {
    let mut query = tx.prepare_cached("select version from context_write where request = ?1")?;
    let before: Option<i64> = query.query_row([&request.0], |row| row.get(0)).optional()?;
    if let Some(version) = before {
        return Ok(version.cast_unsigned());
    }
    require_sizes(write)?;
    if let Some(leader) = &write.leader {
        train::require_lander(tx, leader)?;
    }
    let key = &write.key;
    let found = find(tx, key)?;
    let there = found.as_ref().filter(|entry| entry.value.is_some()).map_or(0, |entry| entry.version);
    if let Some(expected) = write.if_version.filter(|expected| *expected != there) {
        let state = match there {
            0 => "does not exist".to_owned(),
            version => format!("is at version {version}"),
        };
        return Err(StoreError::Conflict(format!("{key} {state}, not at version {expected}")));
    }
    let version = found.map_or(0, |entry| entry.version) + 1;
    tx.prepare_cached(
        "insert into context(key, value, version, change, author, at) \
         values(?1, ?2, ?3, (select coalesce(max(change), 0) + 1 from context), ?4, ?5) \
         on conflict(key) do update set value = excluded.value, version = excluded.version, \
         change = excluded.change, author = excluded.author, at = excluded.at",
    )?
    .execute(params![key, write.value, version.cast_signed(), write.by, at.millis()])?;
    tx.prepare_cached("insert into context_write(request, version) values(?1, ?2)")?
        .execute(params![request.0, version.cast_signed()])?;
    Ok(version)
}

fn require_sizes(write: &ContextWrite) -> Result<()> {
    let key = &write.key;
    if key.is_empty() || key.len() > MAX_CONTEXT_KEY || key.chars().any(char::is_control) {
        return Err(StoreError::Invalid(format!(
            "a key has 1 to {MAX_CONTEXT_KEY} bytes without control characters; this one has {}",
            key.len()
        )));
    }
    match &write.value {
        Some(value) if value.len() > MAX_CONTEXT_VALUE => Err(StoreError::Invalid(format!(
            "the value of {key} has {} bytes, more than the {MAX_CONTEXT_VALUE} that are allowed; put long text into a file and name it",
            value.len()
        ))),
        _ => Ok(()),
    }
}

fn find(db: &Connection, key: &str) -> Result<Option<ContextEntry>> {
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
