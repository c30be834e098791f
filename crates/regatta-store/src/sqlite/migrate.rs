//! The schema and its versions.
//!
//! Invariant: a migration and its version number are written in one transaction that holds the write lock, so that any
//! number of processes may start at once. A released migration is never edited: a change becomes the next version.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use crate::program::{self, require_allowed, require_new_enough};
use crate::stored::from_json;
use crate::transfer::Mark;
use crate::{NodeInfo, Result, StoreError};

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
    include_str!("schema/0011.sql"),
];

/// Added to the version while the store has a mark. Older programs take it for a newer store.
pub(super) const MARKED: usize = 1_000_000;

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

/// Brings the schema to this program's version. A store with a mark keeps it.
pub(super) fn up(db: &mut Connection, path: &Path) -> Result<()> {
    let migrations = program::migrations(MIGRATIONS)?;
    if version(db)? % MARKED == migrations.len() {
        return Ok(());
    }
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version = version(&tx)?;
    let (found, marked) = (version % MARKED, version - version % MARKED);
    if found > migrations.len() {
        return require_allowed(&path.display().to_string(), found, oldest(&tx)?);
    }
    let pending = &migrations[found..];
    let oldest = program::oldest_of_all(pending);
    if oldest > 0 && found > 0 {
        require_new_enough(&open_nodes(&tx)?, oldest)?;
    }
    for migration in pending {
        tx.execute_batch(migration)?;
    }
    tx.execute("update project set oldest_program = max(oldest_program, ?1)", [oldest])?;
    tx.pragma_update(None, "user_version", (marked + migrations.len()) as u32)?;
    tx.commit()?;
    Ok(())
}

/// The version of the schema, raised by [`MARKED`] if the store has a mark.
pub(super) fn version(db: &Connection) -> Result<usize> {
    let mut query = db.prepare_cached("pragma user_version")?;
    Ok(query.query_row([], |row| row.get::<_, u32>(0))? as usize)
}

/// The version of the schema at a path, without a mark, and the one that this program knows.
pub(super) fn versions(path: &Path) -> Result<(usize, usize)> {
    let known = program::migrations(MIGRATIONS)?.len();
    if !path.try_exists().unwrap_or(true) {
        return Ok((0, known));
    }
    Ok((version(&super::open::reader(path)?)? % MARKED, known))
}

/// The mark of the store.
pub(super) fn mark(db: &Connection) -> Result<Option<Mark>> {
    if version(db)? < MARKED {
        return Ok(None);
    }
    let mark: Option<String> = db.query_row("select mark from project", [], |row| row.get(0))?;
    mark.map(|mark| Mark::parse(&mark)).transpose()
}

/// Refuses a store that has a mark.
pub(super) fn refuse_marked(db: &Connection, path: &Path) -> Result<()> {
    match mark(db)? {
        Some(mark) => Err(mark.refusal(&format!("sqlite:{}", path.display()))),
        None => Ok(()),
    }
}

fn oldest(db: &Connection) -> Result<u32> {
    let has_project = "select 1 from sqlite_schema where name = 'project'";
    if db.query_row(has_project, [], |_| Ok(())).optional()?.is_none() {
        return Ok(u32::MAX);
    }
    Ok(db.query_row("select oldest_program from project", [], |row| row.get(0))?)
}

fn open_nodes(db: &Connection) -> Result<Vec<NodeInfo>> {
    let mut query = db.prepare("select node from session where ended is null")?;
    let nodes = query.query_map([], |row| row.get::<_, String>(0))?;
    nodes.map(|node| from_json("a session's node", &node?)).collect()
}
