//! Reads members and the holders of roles.

use std::time::Duration;

use regatta_core::crew::{MemberName, Role};
use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;
use rusqlite::Connection;

use super::{sessions, train};
use crate::crew::Member;
use crate::rules::record::Holding;
use crate::stored::{from_json, unreadable};
use crate::{Lander, Result, SessionId};

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
            role: parse_role(&role)?,
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

pub(super) fn parse_role(role: &str) -> Result<Role> {
    role.parse().map_err(|error| unreadable(&format!("the role {role:?}"), error))
}

pub(super) fn holder(db: &Connection, role: &str) -> Result<Option<Lander>> {
    let Some(Holding { session: Some(session), term }) = train::holding(db, role)? else { return Ok(None) };
    let is_open = sessions::find(db, &session)?.is_some_and(|found| found.ended.is_none());
    Ok(is_open.then(|| Lander { role: role.to_owned(), session, term }))
}
