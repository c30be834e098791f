//! Reads messages and inboxes.

use regatta_core::crew::MemberName;
use regatta_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::members::parse;
use crate::crew::{InboxQuery, Message, Posted};
use crate::stored::from_json;
use crate::{RequestId, Result};

/// The answer to an earlier request.
pub(super) fn posted(db: &Connection, request: &RequestId) -> Result<Option<Posted>> {
    let mut query = db.prepare_cached("select seq from message where request = ?1")?;
    let Some(seq) = query.query_row([&request.0], |row| row.get::<_, i64>(0)).optional()? else {
        return Ok(None);
    };
    let mut query = db.prepare_cached("select name from delivery where message = ?1 order by folded")?;
    let mut rows = query.query([seq])?;
    let mut to = Vec::new();
    while let Some(row) = rows.next()? {
        to.push(parse(&row.get::<_, String>(0)?)?);
    }
    Ok(Some(Posted { id: seq.cast_unsigned(), to }))
}

pub(super) fn inbox(db: &Connection, name: &MemberName, wanted: &InboxQuery) -> Result<Vec<Message>> {
    let mut query = db.prepare_cached(
        "select m.seq, m.at, m.author, d.name, m.kind, m.body, m.reply_to, d.read_at \
         from delivery d join message m on m.seq = d.message \
         where d.folded = ?1 and d.message > ?2 and d.dismissed_at is null \
         and (?3 = 0 or d.read_at is null) order by d.message limit ?4",
    )?;
    let limit = match wanted.limit {
        0 => i64::MAX,
        limit => i64::try_from(limit).unwrap_or(i64::MAX),
    };
    let mut rows = query.query(params![name.folded(), wanted.after.cast_signed(), wanted.unread, limit])?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        messages.push(message(row)?);
    }
    Ok(messages)
}

pub(super) fn correspondence(db: &Connection, after: u64, limit: usize) -> Result<Vec<Message>> {
    // The oldest one is looked up first: usually there is none, and deliveries are scanned only if there is.
    let mut query = db.prepare_cached(
        "select min(seq) from (select seq from message where seq > ?1 order by seq desc limit ?2)",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let oldest: Option<i64> = query.query_row(params![after.cast_signed(), limit], |row| row.get(0))?;
    let Some(oldest) = oldest else { return Ok(Vec::new()) };
    let mut query = db.prepare_cached(
        "select m.seq, m.at, m.author, d.name, m.kind, m.body, m.reply_to, d.read_at \
         from delivery d cross join message m on m.seq = d.message where d.message >= ?1 \
         order by d.message, d.folded",
    )?;
    let mut rows = query.query([oldest])?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        messages.push(message(row)?);
    }
    Ok(messages)
}

fn message(row: &rusqlite::Row<'_>) -> Result<Message> {
    Ok(Message {
        id: row.get::<_, i64>(0)?.cast_unsigned(),
        at: Timestamp::from_millis(row.get(1)?),
        from: parse(&row.get::<_, String>(2)?)?,
        to: parse(&row.get::<_, String>(3)?)?,
        kind: from_json("a message's kind", &row.get::<_, String>(4)?)?,
        text: row.get(5)?,
        reply_to: row.get::<_, Option<i64>>(6)?.map(i64::cast_unsigned),
        read_at: row.get::<_, Option<i64>>(7)?.map(Timestamp::from_millis),
    })
}
