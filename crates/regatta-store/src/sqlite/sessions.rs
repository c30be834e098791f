//! Sessions: presence, and the owners of claims.
//!
//! Invariant: a session ends once. Its row stays behind as a tombstone, so that it cannot be opened again, and the same
//! transaction moves or releases all its claims, so that none belongs to an ended session.

use regatta_core::event::EventBody;
use regatta_core::exit::Exit;
use regatta_core::id::TaskId;
use regatta_core::state::{BlockReason, Change, apply};
use regatta_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::dependents::skip_if_hopeless;
use super::rows::{COLUMNS, Row, from_json, live_attempt, to_json};
use super::writer::Tx;
use super::{claims, events, members, prompts};
use crate::{Beat, LOST_LEASES, NodeInfo, Result, SessionId, SessionInfo, StoreError};

struct StoredSession {
    node: NodeInfo,
    beat: Beat,
    /// The tasks it held at its end; `None` while it is open.
    ended: Option<Vec<TaskId>>,
}

fn find(db: &Connection, session: &SessionId) -> Result<Option<StoredSession>> {
    let mut query = db.prepare_cached("select node, beat, ended from session where id = ?1")?;
    let found = query.query_row([&session.0], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, Option<String>>(2)?))
    });
    let Some((node, beat, ended)) = found.optional()? else { return Ok(None) };
    Ok(Some(StoredSession {
        node: from_json("a session's node", &node)?,
        beat: beat.cast_unsigned(),
        ended: ended.map(|tasks| from_json("a session's tasks", &tasks)).transpose()?,
    }))
}

/// The node behind an open session; [`StoreError::SessionExpired`] if it is not open.
pub(super) fn require_open(db: &Connection, session: &SessionId) -> Result<NodeInfo> {
    match find(db, session)? {
        Some(StoredSession { node, ended: None, .. }) => Ok(node),
        _ => Err(StoreError::SessionExpired),
    }
}

pub(super) fn open(tx: &Tx, session: &SessionId, node: &NodeInfo) -> Result<()> {
    match find(tx, session)? {
        Some(StoredSession { ended: Some(_), .. }) => Err(StoreError::SessionExpired),
        Some(_) => Ok(()),
        None => {
            tx.prepare_cached("insert into session(id, node, beat) values(?1, ?2, 0)")?
                .execute(params![session.0, to_json(node)])?;
            Ok(())
        }
    }
}

pub(super) fn renew(tx: &Tx, session: &SessionId) -> Result<Beat> {
    let mut update = tx.prepare_cached(
        "update session set beat = beat + 1 where id = ?1 and ended is null returning beat",
    )?;
    let beat: Option<i64> = update.query_row([&session.0], |row| row.get(0)).optional()?;
    beat.map(i64::cast_unsigned).ok_or(StoreError::SessionExpired)
}

pub(super) fn list(db: &Connection) -> Result<Vec<SessionInfo>> {
    let mut query =
        db.prepare_cached("select id, node, beat from session where ended is null order by id")?;
    let mut rows = query.query([])?;
    let mut sessions = Vec::new();
    while let Some(row) = rows.next()? {
        sessions.push(SessionInfo {
            session: SessionId(row.get(0)?),
            node: from_json("a session's node", &row.get::<_, String>(1)?)?,
            beat: row.get::<_, i64>(2)?.cast_unsigned(),
        });
    }
    Ok(sessions)
}

pub(super) fn close(tx: &Tx, session: &SessionId, at: Timestamp) -> Result<()> {
    match find(tx, session)? {
        Some(StoredSession { ended: None, node, .. }) => {
            let why = format!("{} on {} closed its session", node.what, node.node);
            end(tx, session, None, End::Closed, &why, at).map(drop)
        }
        _ => Ok(()),
    }
}

pub(super) fn expire(
    tx: &Tx,
    session: &SessionId,
    beat: Beat,
    heir: Option<&SessionId>,
    at: Timestamp,
) -> Result<Vec<TaskId>> {
    if heir == Some(session) {
        return Err(StoreError::Invalid(format!("session {session} can not inherit from itself")));
    }
    let Some(found) = find(tx, session)? else { return Ok(Vec::new()) };
    if let Some(held) = found.ended {
        return Ok(held);
    }
    if found.beat != beat {
        return Err(StoreError::Conflict(format!("session {session} lives, its beat is {}", found.beat)));
    }
    if let Some(heir) = heir {
        require_open(tx, heir)?;
    }
    let why = format!("{} on {} went away", found.node.what, found.node.node);
    end(tx, session, heir, End::Expired, &why, at)
}

/// How a session ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Closed by its own process.
    Closed,
    /// Ended by others: its process is gone without closing it.
    Expired,
}

/// Ends the session, and passes on or releases its claims.
fn end(
    tx: &Tx,
    session: &SessionId,
    heir: Option<&SessionId>,
    how: End,
    why: &str,
    at: Timestamp,
) -> Result<Vec<TaskId>> {
    let held = held_by(tx, session)?;
    let ids: Vec<TaskId> = held.iter().map(|row| row.id.clone()).collect();
    tx.prepare_cached("update session set ended = ?2 where id = ?1")?
        .execute(params![session.0, to_json(&ids)])?;
    members::left(tx, session, why, at)?;
    for mut row in held {
        tx.prepare_cached("update task set fence = fence + 1 where seq = ?1")?.execute([row.seq])?;
        match heir {
            Some(heir) => adopt(tx, &row, heir, at)?,
            None => release(tx, &mut row, how, why, at)?,
        }
    }
    Ok(ids)
}

fn adopt(tx: &Tx, row: &Row, heir: &SessionId, at: Timestamp) -> Result<()> {
    tx.prepare_cached("update task set session = ?2 where seq = ?1")?.execute(params![row.seq, heir.0])?;
    let event = EventBody::Adopted { session: heir.0.clone() };
    events::append(tx, Some(row.seq), live_attempt(&row.state), &event, at)
}

/// Queues the task again, uncharged, and closes the attempt's record. A task whose holders are lost repeatedly may be
/// what kills them, so it is blocked for a user.
fn release(tx: &Tx, row: &mut Row, how: End, why: &str, at: Timestamp) -> Result<()> {
    if let Some(mut attempt) = live_attempt(&row.state).map_or(Ok(None), |n| row.attempt(tx, n))? {
        attempt.exit = attempt.exit.or(Some(Exit::Lost));
        attempt.ended_at = attempt.ended_at.or(Some(at));
        row.put_attempt(tx, &attempt)?;
    }
    prompts::put_down(tx, row, false)?;
    let asked = row.cancel_asked.take();
    row.end_claim(tx)?;
    let lost = if how == End::Expired { lost_again(tx, row)? } else { 0 };
    if lost >= LOST_LEASES && asked.is_none() {
        let detail = format!(
            "{lost} in a row who worked on it have gone without a word, last: {why}; look at what it does, then \
             `regatta requeue {}`",
            row.id
        );
        let (reason, told) = (BlockReason::Policy, detail.clone());
        let change = Change::Block { reason, detail };
        if apply(&row.state, &change).is_err() {
            claims::exited(tx, row, &Exit::Lost, at)?;
        }
        return row.change(tx, &change, &EventBody::Blocked { reason, detail: told }, at);
    }
    row.change(tx, &Change::Release, &EventBody::Released { why: why.to_owned() }, at)?;
    claims::cancel_if_asked(tx, row, asked, at)?;
    skip_if_hopeless(tx, row, at)
}

/// How often in a row its holders were lost, including this time.
fn lost_again(tx: &Tx, row: &Row) -> Result<u32> {
    let mut update = tx.prepare_cached("update task set lost = lost + 1 where seq = ?1 returning lost")?;
    Ok(update.query_row([row.seq], |row| row.get(0))?)
}

/// The tasks held by a session, in order of arrival.
pub(super) fn held_by(db: &Connection, session: &SessionId) -> Result<Vec<Row>> {
    let sql = format!("select {COLUMNS} from task t where t.session = ?1 order by t.seq");
    let mut query = db.prepare_cached(&sql)?;
    let mut rows = query.query([&session.0])?;
    let mut held = Vec::new();
    while let Some(row) = rows.next()? {
        held.push(Row::read(row)?);
    }
    Ok(held)
}
