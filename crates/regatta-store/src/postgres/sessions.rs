//! Reads sessions.

use std::time::Instant;

use regatta_core::time::Timestamp;

use super::connection::Connection;
use super::records::CLOCK;
use super::wire::{get, get_text, get_u64};
use crate::stored::from_json;
use crate::{Result, ServerTime, SessionId, SessionInfo};

/// Asks for the server's time.
pub(super) async fn time(db: &Connection) -> Result<Option<ServerTime>> {
    let begun = Instant::now();
    let rows = db.rows(&format!("select {CLOCK}"), &[]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(ServerTime::learned(Timestamp::from_millis(get(row, 0)?), begun))
}

pub(super) async fn list(db: &Connection) -> Result<Vec<SessionInfo>> {
    let rows = db.rows("select id, node, beat from session where ended is null order by id", &[]).await?;
    let mut sessions = Vec::new();
    for row in &rows {
        sessions.push(SessionInfo {
            session: SessionId(get_text(row, 0)?),
            node: from_json("a session's node", &get_text(row, 1)?)?,
            beat: get_u64(row, 2)?,
        });
    }
    Ok(sessions)
}
