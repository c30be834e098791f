//! Reads profiles: whose turn it is, and their limits.

use regatta_core::profiles::Cooling;
use rusqlite::{Connection, params};

use crate::stored::from_json;
use crate::{AccountKey, AccountRecord, Result};

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
