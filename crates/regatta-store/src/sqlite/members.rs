//! Members, and the right to lead them.
//!
//! Invariant: a member is present exactly while its session is open. Its row outlives the session, so that tasks
//! assigned to a member who has left can be distinguished from tasks that wait for one who has not registered yet.

use std::time::Duration;

use regatta_core::crew::MemberName;
use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::state::{Change, TaskState};
use regatta_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::failure::unreadable;
use super::rows::{Row, from_json};
use super::writer::Tx;
use super::{claims, events, sessions, train};
use crate::crew::{LEADER_ROLE, Member, NewMember};
use crate::{Claim, ClaimRequest, Lander, Result, SessionId, StoreError};

pub(super) fn register(tx: &Tx, new: &NewMember, at: Timestamp) -> Result<()> {
    let (name, session) = (&new.name, &new.session);
    if let Some((held, _)) = session_of(tx, name)? {
        if held == *session {
            // A repeated call, unless the member has left in between.
            return sessions::require_open(tx, session).map(drop);
        }
        if let Ok(node) = sessions::require_open(tx, &held) {
            let by = match node.pid {
                0 => "heartbeats".to_owned(),
                pid => format!("process {pid} on {}", node.node),
            };
            return Err(StoreError::Conflict(format!("{name} is already registered, by {by}")));
        }
    }
    if Row::find(tx, name.as_task())?.is_some() {
        return Err(StoreError::Refused(format!(
            "a task is named {name}, and messages to {name} go to its agent"
        )));
    }
    sessions::open(tx, session, &new.node)?;
    if new.role.is_leader() && train::elect(tx, LEADER_ROLE, session)?.is_none() {
        let leader = holder(tx, LEADER_ROLE)?.and_then(|lander| name_of(tx, &lander.session).transpose());
        let leader = leader.transpose()?.map_or_else(|| "another member".to_owned(), |name| name.to_string());
        return Err(StoreError::Refused(format!("{leader} is the leader; there is one at a time")));
    }
    tx.prepare_cached(
        "insert into member(folded, name, role, session, lease_ms, since) values(?1, ?2, ?3, ?4, ?5, ?6) \
         on conflict(folded) do update set name = excluded.name, role = excluded.role, \
         session = excluded.session, lease_ms = excluded.lease_ms, since = excluded.since",
    )?
    .execute(params![
        name.folded(),
        name.as_str(),
        new.role.as_str(),
        session.0,
        new.lease.map(|lease| i64::try_from(lease.as_millis()).unwrap_or(i64::MAX)),
        at.millis(),
    ])?;
    let text = format!("{name} joined the crew ({})", new.role);
    events::append(tx, None, None, &EventBody::Noted { text }, at)
}

/// The session of a name, and the name's spelling.
fn session_of(db: &Connection, name: &MemberName) -> Result<Option<(SessionId, String)>> {
    let mut query = db.prepare_cached("select session, name from member where folded = ?1")?;
    let found = query.query_row([name.folded()], |row| Ok((SessionId(row.get(0)?), row.get(1)?)));
    Ok(found.optional()?)
}

/// The member of a session.
pub(super) fn name_of(db: &Connection, session: &SessionId) -> Result<Option<MemberName>> {
    let mut query = db.prepare_cached("select name from member where session = ?1")?;
    let name: Option<String> = query.query_row([&session.0], |row| row.get(0)).optional()?;
    name.map(|name| parse(&name)).transpose()
}

/// Logs that a member left, if the ended session belonged to one.
pub(super) fn left(tx: &Tx, session: &SessionId, why: &str, at: Timestamp) -> Result<()> {
    let Some(name) = name_of(tx, session)? else { return Ok(()) };
    let text = format!("{name} left the crew: {why}");
    events::append(tx, None, None, &EventBody::Noted { text }, at)
}

pub(super) fn parse(name: &str) -> Result<MemberName> {
    MemberName::parse(name).map_err(|error| unreadable(&format!("the name {name:?}"), error))
}

pub(super) fn members(db: &Connection) -> Result<Vec<Member>> {
    let mut query = db.prepare_cached(
        "select m.name, m.role, m.session, m.lease_ms, m.since, s.node, s.beat, s.ended is null \
         from member m join session s on s.id = m.session order by m.folded",
    )?;
    let mut rows = query.query([])?;
    let mut members = Vec::new();
    while let Some(row) = rows.next()? {
        let role: String = row.get(1)?;
        let session = SessionId(row.get(2)?);
        let lease: Option<i64> = row.get(3)?;
        members.push(Member {
            name: parse(&row.get::<_, String>(0)?)?,
            role: role.parse().map_err(|error| unreadable(&format!("the role {role:?}"), error))?,
            lease: lease.map(|millis| Duration::from_millis(millis.cast_unsigned())),
            since: Timestamp::from_millis(row.get(4)?),
            node: from_json("a member's node", &row.get::<_, String>(5)?)?,
            beat: row.get::<_, i64>(6)?.cast_unsigned(),
            is_there: row.get(7)?,
            tasks: tasks_of(db, &session)?,
            session,
        });
    }
    Ok(members)
}

fn tasks_of(db: &Connection, session: &SessionId) -> Result<Vec<TaskId>> {
    Ok(sessions::held_by(db, session)?.into_iter().map(|row| row.id).collect())
}

pub(super) fn holder(db: &Connection, role: &str) -> Result<Option<Lander>> {
    let Some((Some(session), term)) = train::holder(db, role)? else { return Ok(None) };
    let is_open = sessions::require_open(db, &session).is_ok();
    Ok(is_open.then(|| Lander { role: role.to_owned(), session, term: term.cast_unsigned() }))
}

/// A claim that also takes a blocked task.
pub(super) fn take_up(tx: &Tx, wanted: &ClaimRequest, at: Timestamp) -> Result<Option<Claim>> {
    let mut row = Row::require(tx, &wanted.task)?;
    let repeat = row.claim_request.as_deref() == Some(&wanted.request.0);
    if matches!(row.state, TaskState::Blocked { .. }) && !repeat {
        sessions::require_open(tx, &wanted.session)?;
        row.change(tx, &Change::Requeue, &EventBody::Enqueued { queue: row.queue.clone() }, at)?;
    }
    claims::claim(tx, wanted, at)
}
