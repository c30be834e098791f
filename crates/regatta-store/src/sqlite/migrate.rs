//! The schema and its versions.
//!
//! Invariant: a migration and its version number are written in one transaction that holds the write lock, so that any
//! number of processes may start at once. A released migration is never edited: a change becomes the next version.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::{Result, StoreError};

/// What each version adds; the first is version 1.
const MIGRATIONS: &[&str] = &[
    include_str!("schema/0001.sql"),
    include_str!("schema/0002.sql"),
    include_str!("schema/0003.sql"),
    include_str!("schema/0004.sql"),
    include_str!("schema/0005.sql"),
    include_str!("schema/0006.sql"),
    include_str!("schema/0007.sql"),
    include_str!("schema/0008.sql"),
    include_str!("schema/0009.sql"),
    include_str!("schema/0010.sql"),
];

/// Refuses another program's database before touching it.
pub(super) fn refuse_foreign(db: &Connection, path: &Path) -> Result<()> {
    let sql =
        "select count(*), count(*) filter (where name in ('task', 'attempt', 'event')) from sqlite_schema";
    let (all, ours): (u32, u32) = db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if all > 0 && ours < 3 {
        return Err(StoreError::Corrupt(format!(
            "{} is a database of some other program, not a Regatta store",
            path.display()
        )));
    }
    Ok(())
}

/// Brings the schema to this program's version.
pub(super) fn up(db: &mut Connection, path: &Path) -> Result<()> {
    if version(db)? == MIGRATIONS.len() {
        return Ok(());
    }
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = version(&tx)?;
    if found > MIGRATIONS.len() {
        return Err(StoreError::Corrupt(format!(
            "{} was written by a newer Regatta (schema {found}, this program knows {}); install that version",
            path.display(),
            MIGRATIONS.len()
        )));
    }
    for migration in &MIGRATIONS[found..] {
        tx.execute_batch(migration)?;
    }
    tx.pragma_update(None, "user_version", MIGRATIONS.len() as u32)?;
    tx.commit()?;
    Ok(())
}

fn version(db: &Connection) -> Result<usize> {
    Ok(db.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0))? as usize)
}
