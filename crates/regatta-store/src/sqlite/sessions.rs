//! Reads sessions.

use rusqlite::{Connection, OptionalExtension};

use super::rows::{COLUMNS, read};
use crate::rules::record::{Session, Task};
use crate::stored::from_json;
use crate::{Result, SessionId, SessionInfo};

pub(super) fn find(db: &Connection, session: &SessionId) -> Result<Option<Session>> {
    let mut query = db.prepare_cached("select node, ended from session where id = ?1")?;
    let found =
        query.query_row([&session.0], |row| Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?)));
    let Some((node, ended)) = found.optional()? else { return Ok(None) };
    Ok(Some(Session {
        node: from_json("a session's node", &node)?,
        ended: ended.map(|tasks| from_json("a session's tasks", &tasks)).transpose()?,
    }))
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

/// The tasks held by a session, in order of arrival.
pub(super) fn held_by(db: &Connection, session: &SessionId) -> Result<Vec<Task>> {
    let sql = format!("select {COLUMNS} from task t where t.session = ?1 order by t.seq");
    let mut query = db.prepare_cached(&sql)?;
    let mut rows = query.query([&session.0])?;
    let mut held = Vec::new();
    while let Some(row) = rows.next()? {
        held.push(read(row)?);
    }
    Ok(held)
}
