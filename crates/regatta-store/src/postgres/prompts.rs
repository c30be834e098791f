//! Reads follow-ups to a task's agent.

use regatta_core::id::TaskId;
use regatta_core::prompt::{Prompt, PromptState};
use tokio_postgres::Row;

use super::connection::Connection;
use super::rows::{self, time};
use super::wire::{get, get_text, get_u32};
use crate::rules::record::QueuedPrompt;
use crate::stored::unreadable;
use crate::{RequestId, Result};

/// The columns that [`queued`] expects, of the alias `r`.
pub(super) const COLUMNS: &str =
    "r.n, r.text, r.author, r.at, r.state, r.attempt, r.urgent, r.request, r.place, r.rearmed";

pub(super) async fn all(db: &Connection, task: &TaskId) -> Result<Vec<Prompt>> {
    let task = rows::number(db, task).await?;
    let rows =
        db.rows(&format!("select {COLUMNS} from prompt r where r.task = $1 order by r.n"), &[&task]).await?;
    rows.iter().map(|row| read(row, 0)).collect()
}

/// The prompt in a row that has the first six of [`COLUMNS`] from `at` on.
pub(super) fn read(row: &Row, at: usize) -> Result<Prompt> {
    let state = get_text(row, at + 4)?;
    let attempt: Option<i64> = get(row, at + 5)?;
    Ok(Prompt {
        n: get_u32(row, at)?,
        text: get_text(row, at + 1)?,
        by: get_text(row, at + 2)?,
        at: time(row, at + 3)?,
        state: PromptState::parse(&state)
            .ok_or_else(|| unreadable("a prompt", format!("it cannot be {state:?}")))?,
        attempt: attempt.and_then(|n| u32::try_from(n).ok()),
    })
}

pub(super) fn queued(row: &Row, at: usize) -> Result<QueuedPrompt> {
    Ok(QueuedPrompt {
        prompt: read(row, at)?,
        urgent: get(row, at + 6)?,
        request: RequestId(get_text(row, at + 7)?),
        position: get_u32(row, at + 8)?,
        rearmed: get(row, at + 9)?,
    })
}
