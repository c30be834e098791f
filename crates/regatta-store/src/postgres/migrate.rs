//! The schema and its versions.
//!
//! Invariant: a migration and its version number are written in one transaction that holds the project's lock, so that
//! any number of processes may start at once. A released migration is never edited: a change becomes the next version.

use super::connection::Connection;
use super::wire::{get, get_text, maybe_text};
use crate::program::{self, require_allowed, require_new_enough};
use crate::stored::from_json;
use crate::transfer::Mark;
use crate::{NodeInfo, Result, StoreError};

/// What each version adds; the first is version 1.
const MIGRATIONS: &[&str] = &[include_str!("schema/0001.sql"), include_str!("schema/0002.sql")];

/// Added to the version while the store has a mark. Older programs take it for a newer store.
pub(super) const MARKED: usize = 1_000_000;

/// The roles of a database: who owns the tables, who works with them, who only looks.
const ROLES: [&str; 3] = ["regatta_owner", "regatta_node", "regatta_viewer"];

/// Brings the schema to this program's version; a store with a mark keeps it. On an error the connection is in a
/// transaction and of no more use.
pub(super) async fn up(db: &Connection, schema: &str) -> Result<()> {
    let migrations = program::migrations(MIGRATIONS)?;
    if version(db, schema).await?.map(|found| found % MARKED) == Some(migrations.len()) {
        return Ok(());
    }
    db.batch(super::commit::BEGIN).await?;
    db.rows("select pg_advisory_xact_lock(hashtextextended($1, 0))", &[&schema]).await?;
    let found = version(db, schema).await?.unwrap_or(0) % MARKED;
    if found > migrations.len() {
        let rows = db.rows(&format!("select oldest_program from {schema}.project"), &[]).await?;
        let oldest = rows.first().map_or(Ok(0), |row| get::<i64>(row, 0))?;
        require_allowed(&format!("the schema {schema}"), found, u32::try_from(oldest).unwrap_or(u32::MAX))?;
        return db.batch("rollback").await;
    }
    let oldest = program::oldest_of_all(&migrations[found..]);
    if oldest > 0 && found > 0 {
        require_new_enough(&open_nodes(db, schema).await?, oldest)?;
    }
    apply(db, schema, found, &migrations).await.map_err(|error| match error {
        StoreError::Refused(why) => StoreError::Refused(format!(
            "the schema {schema} has to be created or migrated, and this role may not do that: {why}; an administrator \
             runs the SQL that `regatta store migrate --print` prints"
        )),
        error => error,
    })
}

async fn apply(
    db: &Connection,
    schema: &str,
    found: usize,
    migrations: &[std::borrow::Cow<'static, str>],
) -> Result<()> {
    if found == 0 {
        refuse_foreign(db, schema).await?;
        // A role that may use the schema need not have the right to create one.
        if relations(db, schema, None).await? == 0 {
            db.batch(&format!("create schema if not exists {schema}")).await?;
        }
    }
    for migration in &migrations[found..] {
        db.batch(migration).await?;
    }
    db.batch(&finish(found, migrations)).await?;
    db.batch("commit").await
}

/// Records the version. A store with a mark keeps it.
fn finish(found: usize, migrations: &[std::borrow::Cow<'static, str>]) -> String {
    let (n, oldest) = (migrations.len(), program::oldest_of_all(&migrations[found..]));
    format!(
        "insert into project(one, schema, oldest_program) values(true, {n}, {oldest}) on conflict(one) do update \
         set schema = project.schema - project.schema % {MARKED} + {n}, oldest_program = greatest(project.oldest_program, {oldest});"
    )
}

/// The SQL that an administrator runs instead: roles, pending migrations, and rights. It can be run again.
pub(super) async fn script(db: &Connection, schema: &str) -> Result<String> {
    let migrations = program::migrations(MIGRATIONS)?;
    let found = (version(db, schema).await?.unwrap_or(0) % MARKED).min(migrations.len());
    let [owner, node, viewer] = ROLES;
    let mut sql = format!(
        "-- Regatta: {schema}, from version {found} to {}. Run it as a superuser, or as a role that may create roles.\n\
         begin;\n",
        migrations.len()
    );
    for role in ROLES {
        sql.push_str(&format!(
            "do $$ begin\n  if not exists (select from pg_roles where rolname = '{role}') then create role {role} nologin; \
             end if;\nend $$;\n"
        ));
    }
    sql.push_str(&format!("create schema if not exists {schema} authorization {owner};\n"));
    // What it creates belongs to the owner of the schema.
    let owned = "select nspowner::regrole::text from pg_namespace where nspname = $1::text";
    let rows = db.rows(owned, &[&schema]).await?;
    let owner = rows.first().map_or_else(|| Ok(owner.to_owned()), |row| get_text(row, 0))?;
    sql.push_str(&format!("set local role {owner};\n"));
    sql.push_str(&format!("set local search_path = {schema};\n"));
    for (n, migration) in migrations.iter().enumerate().skip(found) {
        sql.push_str(&format!("\n-- Migration {}\n{}\n", n + 1, migration.trim_end()));
    }
    if found < migrations.len() {
        sql.push_str(&format!("\n{}\n", finish(found, &migrations)));
    }
    sql.push_str(&format!(
        "\n-- Rights: {node} works with the rows, {viewer} reads them.\n\
         grant usage on schema {schema} to {node}, {viewer};\n\
         grant select, insert, update, delete on all tables in schema {schema} to {node};\n\
         grant usage, select on all sequences in schema {schema} to {node};\n\
         grant execute on all functions in schema {schema} to {node};\n\
         grant select on all tables in schema {schema} to {viewer};\n\
         commit;\n"
    ));
    Ok(sql)
}

/// Refuses a store that has a mark.
pub(super) async fn refuse_marked(db: &Connection, schema: &str, address: &str) -> Result<()> {
    if version(db, schema).await?.unwrap_or(0) < MARKED {
        return Ok(());
    }
    let rows = db.rows("select mark from project", &[]).await?;
    let mark = rows.first().map_or(Ok(None), |row| maybe_text(row, 0))?;
    match mark.map(|mark| Mark::parse(&mark)).transpose()? {
        Some(mark) => Err(mark.refusal(address)),
        None => Ok(()),
    }
}

/// The most projects that are named.
const MOST_PROJECTS: i64 = 20;

/// Whether the schema has a store.
pub(super) async fn exists(db: &Connection, schema: &str) -> Result<bool> {
    Ok(version(db, schema).await?.is_some())
}

/// The names of the projects in this database; a store without a name is left out.
pub(super) async fn projects(db: &Connection) -> Result<Vec<String>> {
    let sql = "select substr(n.nspname::text, 9) from pg_namespace n where n.nspname like 'regatta\\_%' and exists \
        (select from pg_class c where c.relnamespace = n.oid and c.relname = 'project') order by 1 limit $1";
    db.rows(sql, &[&MOST_PROJECTS]).await?.iter().map(|row| get_text(row, 0)).collect()
}

/// The versions of the schema and of this program: what is there, what this program knows, and the oldest program that
/// may use it.
pub(super) async fn versions(db: &Connection, schema: &str) -> Result<(usize, usize)> {
    let known = program::migrations(MIGRATIONS)?.len();
    Ok((version(db, schema).await?.unwrap_or(0) % MARKED, known))
}

async fn open_nodes(db: &Connection, schema: &str) -> Result<Vec<NodeInfo>> {
    let rows = db.rows(&format!("select node from {schema}.session where ended is null"), &[]).await?;
    rows.iter().map(|row| from_json("a session's node", &get_text(row, 0)?)).collect()
}

/// Refuses a schema that another program fills.
async fn refuse_foreign(db: &Connection, schema: &str) -> Result<()> {
    match relations(db, schema, Some("%")).await? {
        0 => Ok(()),
        _ => Err(StoreError::Corrupt(format!(
            "the schema {schema} belongs to some other program; name another project with project=NAME"
        ))),
    }
}

/// The version of the schema, if it is there; raised by [`MARKED`] if the store has a mark.
async fn version(db: &Connection, schema: &str) -> Result<Option<usize>> {
    if relations(db, schema, Some("project")).await? == 0 {
        return Ok(None);
    }
    let rows = db.rows(&format!("select schema from {schema}.project"), &[]).await?;
    let version: Option<i64> = rows.first().map(|row| get(row, 0)).transpose()?;
    Ok(version.and_then(|version| usize::try_from(version).ok()))
}

/// The number of tables and the like in the schema; without a name the number of such schemas. Read from the catalogue's
/// tables: what `to_regclass` says may be older than the lock that this transaction waited for.
async fn relations(db: &Connection, schema: &str, name: Option<&str>) -> Result<i64> {
    let Some(name) = name else {
        let rows = db.rows("select count(*) from pg_namespace where nspname = $1::text", &[&schema]).await?;
        return rows.first().map_or(Ok(0), |row| get(row, 0));
    };
    let sql = "select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace \
        where n.nspname = $1::text and c.relname like $2::text";
    let rows = db.rows(sql, &[&schema, &name]).await?;
    rows.first().map_or(Ok(0), |row| get(row, 0))
}
