//! Reads sessions.

use super::connection::Connection;
use super::wire::{get_text, get_u64};
use crate::stored::from_json;
use crate::{Result, SessionId, SessionInfo};

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
