//! Messages and inboxes.
//!
//! Invariant: a message and all its deliveries are one transaction, and its request id is stored with it: a repeated
//! call returns the same number, and no recipient gets the message twice.

use regatta_core::crew::{MemberName, Role};
use regatta_core::state::TaskState;
use regatta_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::members::parse;
use super::rows::{Row, from_json, live_attempt, to_json};
use super::sessions;
use super::writer::Tx;
use crate::crew::{
    Author, Authority, InboxQuery, MAX_MESSAGE, Mark, Message, NewMessage, Posted, Recipients,
};
use crate::{RequestId, Result, StoreError};

pub(super) fn post(tx: &Tx, new: &NewMessage, request: &RequestId, at: Timestamp) -> Result<Posted> {
    if let Some(posted) = posted_before(tx, request)? {
        return Ok(posted);
    }
    if new.text.len() > MAX_MESSAGE {
        return Err(StoreError::Invalid(format!(
            "the message has {} bytes, more than the {MAX_MESSAGE} that are allowed; put long text into a file and name it",
            new.text.len()
        )));
    }
    require_author(tx, &new.author)?;
    if let Some(answered) = new.reply_to {
        let mut query = tx.prepare_cached("select 1 from message where seq = ?1")?;
        if !query.exists([answered.cast_signed()])? {
            return Err(StoreError::NotFound(format!("message {answered}")));
        }
    }
    let to = recipients(tx, &new.to, &new.author.name)?;
    tx.prepare_cached(
        "insert into message(request, at, author, kind, reply_to, body) values(?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        request.0,
        at.millis(),
        new.author.name.as_str(),
        to_json(&new.kind),
        new.reply_to.map(u64::cast_signed),
        new.text,
    ])?;
    let seq = tx.last_insert_rowid();
    for name in &to {
        tx.prepare_cached("insert into delivery(folded, message, name) values(?1, ?2, ?3)")?
            .execute(params![name.folded(), seq, name.as_str()])?;
    }
    Ok(Posted { id: seq.cast_unsigned(), to })
}

fn posted_before(db: &Connection, request: &RequestId) -> Result<Option<Posted>> {
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

/// Checks that the author currently has the right to its name.
fn require_author(tx: &Tx, author: &Author) -> Result<()> {
    match &author.authority {
        Authority::Outside => Ok(()),
        Authority::Member(session) => sessions::require_open(tx, session).map(drop),
        Authority::Attempt { attempt, token_hash } => {
            let row = Row::require(tx, author.name.as_task())?;
            let is_live = matches!(row.state, TaskState::Claimed { .. } | TaskState::Running { .. })
                && live_attempt(&row.state) == Some(*attempt);
            if is_live && row.token_hash.as_deref() == Some(token_hash) {
                return Ok(());
            }
            Err(StoreError::Fenced(format!("attempt {attempt} of {} is over", row.id)))
        }
    }
}

/// The recipients of a message, each once, by name.
fn recipients(db: &Connection, to: &Recipients, author: &MemberName) -> Result<Vec<MemberName>> {
    let role = match to {
        Recipients::One(name) => return one(db, name).map(|name| vec![name]),
        Recipients::Everybody => None,
        Recipients::Role(role) => Some(role),
    };
    let mut names = Vec::new();
    let mut query = db.prepare_cached(
        "select m.name from member m join session s on s.id = m.session \
         where s.ended is null and (?1 is null or m.role = ?1)",
    )?;
    let mut rows = query.query([role.map(Role::as_str)])?;
    while let Some(row) = rows.next()? {
        names.push(parse(&row.get::<_, String>(0)?)?);
    }
    // Running agents are implicit members; a task held by a member has no agent.
    if role.is_none_or(|role| role.as_str() == Role::AGENT) {
        let mut query = db.prepare_cached(
            "select t.id from task t where t.session is not null and t.name in ('claimed', 'running') \
             and not exists (select 1 from member m where m.session = t.session)",
        )?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            names.push(parse(&row.get::<_, String>(0)?)?);
        }
    }
    names.retain(|name| !name.is(author));
    names.sort_by_key(MemberName::folded);
    names.dedup_by_key(|name| name.folded());
    Ok(names)
}

fn one(db: &Connection, name: &MemberName) -> Result<MemberName> {
    let mut query = db.prepare_cached("select name from member where folded = ?1")?;
    let member: Option<String> = query.query_row([name.folded()], |row| row.get(0)).optional()?;
    if let Some(member) = member {
        return parse(&member);
    }
    match Row::find(db, name.as_task())? {
        Some(row) => Ok(MemberName::from(row.id)),
        None => Err(StoreError::NotFound(format!("member or task {name}"))),
    }
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

pub(super) fn mark(tx: &Tx, name: &MemberName, ids: &[u64], mark: Mark, at: Timestamp) -> Result<()> {
    let sql = match mark {
        Mark::Read => {
            "update delivery set read_at = coalesce(read_at, ?3) where folded = ?1 and message = ?2"
        }
        Mark::Dismissed => {
            "update delivery set read_at = coalesce(read_at, ?3), dismissed_at = coalesce(dismissed_at, ?3) \
             where folded = ?1 and message = ?2"
        }
    };
    let mut update = tx.prepare_cached(sql)?;
    for id in ids {
        if update.execute(params![name.folded(), id.cast_signed(), at.millis()])? == 0 {
            return Err(StoreError::NotFound(format!("message {id} in the inbox of {name}")));
        }
    }
    Ok(())
}
