//! Profiles: whose turn it is, and their limits.

use rusqlite::{Connection, params};

use super::rows::{bounded, from_json};
use super::writer::Tx;
use crate::{AccountKey, AccountRecord, Result};
use regatta_core::profiles::Cooling;

pub(super) fn list(db: &Connection) -> Result<Vec<AccountRecord>> {
    let mut accounts = Vec::new();
    let mut query = db.prepare_cached("select name, agent, turn from profile order by name, agent")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let key = AccountKey { profile: row.get(0)?, agent: row.get(1)? };
        accounts.push(AccountRecord {
            coolings: coolings(db, &key)?,
            key,
            turn: row.get::<_, i64>(2)?.cast_unsigned(),
        });
    }
    Ok(accounts)
}

fn coolings(db: &Connection, key: &AccountKey) -> Result<Vec<Cooling>> {
    let sql = "select body from cooling where name = ?1 and agent = ?2 order by \"limit\"";
    let mut query = db.prepare_cached(sql)?;
    let mut rows = query.query(params![key.profile, key.agent])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(from_json("a profile's limit", &row.get::<_, String>(0)?)?);
    }
    Ok(found)
}

pub(super) fn take_turn(tx: &Tx, key: &AccountKey) -> Result<()> {
    tx.prepare_cached(
        "insert into profile(name, agent, turn) values(?1, ?2, (select coalesce(max(turn), 0) + 1 from profile)) \
         on conflict(name, agent) do update set turn = excluded.turn",
    )?
    .execute(params![key.profile, key.agent])?;
    Ok(())
}

pub(super) fn cool(tx: &Tx, key: &AccountKey, cooling: &Cooling) -> Result<()> {
    let body = bounded("a profile's limit", cooling)?;
    tx.prepare_cached("insert or ignore into profile(name, agent, turn) values(?1, ?2, 0)")?
        .execute(params![key.profile, key.agent])?;
    tx.prepare_cached(
        "insert into cooling(name, agent, \"limit\", body) values(?1, ?2, ?3, ?4) \
         on conflict(name, agent, \"limit\") do update set body = excluded.body",
    )?
    .execute(params![key.profile, key.agent, cooling.limit, body])?;
    Ok(())
}

pub(super) fn warm(tx: &Tx, profile: &str) -> Result<()> {
    tx.prepare_cached("delete from cooling where name = ?1")?.execute([profile])?;
    Ok(())
}
