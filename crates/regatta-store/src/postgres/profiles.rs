//! Reads profiles: whose turn it is, and their limits.

use super::connection::Connection;
use super::records::{self, ACCOUNT};
use super::wire::get_text;
use crate::stored::from_json;
use crate::{AccountKey, AccountRecord, Result};

pub(super) async fn list(db: &Connection) -> Result<Vec<AccountRecord>> {
    let sql = format!("select r.name, r.agent, {ACCOUNT} from profile r order by r.name, r.agent");
    let mut accounts = Vec::new();
    for row in &db.rows(&sql, &[]).await? {
        let account = records::account(row, 2)?;
        let coolings = account.coolings.iter().map(|(_, body)| from_json("a profile's limit", body));
        accounts.push(AccountRecord {
            key: AccountKey { profile: get_text(row, 0)?, agent: get_text(row, 1)? },
            coolings: coolings.collect::<Result<_>>()?,
            turn: account.turn,
        });
    }
    Ok(accounts)
}
