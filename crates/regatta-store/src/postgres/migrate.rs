//! The schema and its versions.
//!
//! Invariant: a migration and its version number are written in one transaction that holds the project's lock, so that
//! any number of processes may start at once. A released migration is never edited: a change becomes the next version.

use super::connection::Connection;
use super::wire::get;
use crate::{Result, StoreError};

/// What each version adds; the first is version 1.
const MIGRATIONS: &[&str] = &[include_str!("schema/0001.sql")];

/// Brings the schema to this program's version. On an error the connection is in a transaction and of no more use.
pub(super) async fn up(db: &Connection, schema: &str) -> Result<()> {
    if version(db, schema).await? == Some(MIGRATIONS.len()) {
        return Ok(());
    }
    db.batch(super::commit::BEGIN).await?;
    db.rows("select pg_advisory_xact_lock(hashtextextended($1, 0))", &[&schema]).await?;
    let found = version(db, schema).await?.unwrap_or(0);
    if found > MIGRATIONS.len() {
        return Err(StoreError::Corrupt(format!(
            "the schema {schema} was written by a newer Regatta (schema {found}, this program knows {}); install \
             that version",
            MIGRATIONS.len()
        )));
    }
    if found == 0 {
        refuse_foreign(db, schema).await?;
        db.batch(&format!("create schema if not exists {schema}")).await?;
    }
    for migration in &MIGRATIONS[found..] {
        db.batch(migration).await?;
    }
    if found < MIGRATIONS.len() {
        let n = MIGRATIONS.len();
        db.batch(&format!(
            "insert into project(one, schema) values(true, {n}) on conflict(one) do update set schema = {n}"
        ))
        .await?;
    }
    db.batch("commit").await
}

/// Refuses a schema that another program fills.
async fn refuse_foreign(db: &Connection, schema: &str) -> Result<()> {
    match relations(db, schema, "%").await? {
        0 => Ok(()),
        _ => Err(StoreError::Corrupt(format!(
            "the schema {schema} belongs to some other program; name another project with project=NAME"
        ))),
    }
}

/// The version of the schema, if it is there.
async fn version(db: &Connection, schema: &str) -> Result<Option<usize>> {
    if relations(db, schema, "project").await? == 0 {
        return Ok(None);
    }
    let rows = db.rows(&format!("select schema from {schema}.project"), &[]).await?;
    let version: Option<i64> = rows.first().map(|row| get(row, 0)).transpose()?;
    Ok(version.and_then(|version| usize::try_from(version).ok()))
}

/// The number of tables and the like in the schema. Read from the catalogue's tables: what `to_regclass` says may be
/// older than the lock that this transaction waited for.
async fn relations(db: &Connection, schema: &str, name: &str) -> Result<i64> {
    let sql = "select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace \
        where n.nspname = $1::text and c.relname like $2::text";
    let rows = db.rows(sql, &[&schema, &name]).await?;
    rows.first().map_or(Ok(0), |row| get(row, 0))
}
