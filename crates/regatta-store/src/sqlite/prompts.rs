//! Follow-ups to a task's agent.
//!
//! Invariant: a prompt is taken exactly while the attempt it names is claimed, by that attempt alone; at the end of the
//! claim, in the same transaction, it is delivered or queued again. Each claim takes an urgent prompt first, then the
//! one with the lowest number, so that a prompt that was queued again is the next of its urgency.

use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::prompt::{MAX_PROMPT, Prompt, PromptState};
use regatta_core::state::{BlockReason, Change, TaskState};
use regatta_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::dependents::{dead_dependency, skip_if_hopeless};
use super::events;
use super::failure::unreadable;
use super::queue::forget_failures;
use super::rows::{Row, live_attempt};
use super::writer::Tx;
use crate::{NewPrompt, Outcome, RequestId, Result, Sent, StoreError};

/// Checks everything that needs no access to the store.
pub(super) fn check(prompt: &NewPrompt) -> Result<()> {
    let n_bytes = prompt.text.len();
    if prompt.text.trim().is_empty() {
        return Err(StoreError::Invalid("there is nothing in the prompt to tell the agent".into()));
    }
    if n_bytes > MAX_PROMPT {
        return Err(StoreError::Invalid(format!(
            "the prompt takes {} KiB, more than the {} KiB that can be sent; put long text into a file and name it",
            n_bytes.div_ceil(1024),
            MAX_PROMPT / 1024
        )));
    }
    Ok(())
}

pub(super) fn send(
    tx: &Tx,
    task: &TaskId,
    prompt: &NewPrompt,
    request: &RequestId,
    at: Timestamp,
) -> Result<Sent> {
    let mut row = Row::require(tx, task)?;
    if let Some(sent) = answered(tx, &row, request)? {
        return Ok(sent);
    }
    let rearmed = match &row.state {
        TaskState::Cancelled { .. } | TaskState::Skipped { .. } => {
            return Err(StoreError::Refused(format!(
                "{}: a {} task cannot be sent a prompt",
                row.id,
                row.state.name()
            )));
        }
        TaskState::Pending { .. } | TaskState::Parked { .. } | TaskState::Landing { .. } => false,
        state => !state.is_claimed(),
    };
    if rearmed && let Some((dependency, _)) = dead_dependency(tx, row.seq)? {
        return Err(StoreError::Refused(format!(
            "{}: it depends on {dependency}, which did not succeed; requeue that first",
            row.id
        )));
    }
    let last: u32 = tx
        .prepare_cached("select coalesce(max(n), 0) from prompt where task = ?1")?
        .query_row([row.seq], |row| row.get(0))?;
    let before = if prompt.urgent { waiting_urgent(tx, &row)? } else { waiting(tx, &row)? };
    let sent = Sent { prompt: last + 1, position: before + 1, rearmed };
    tx.prepare_cached(
        "insert into prompt(task, n, text, by, at, state, request, place, rearmed, urgent) \
         values(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        row.seq,
        sent.prompt,
        prompt.text,
        prompt.by,
        at.millis(),
        PromptState::Queued.as_str(),
        request.0,
        sent.position,
        rearmed,
        prompt.urgent
    ])?;
    if prompt.urgent && row.state.is_claimed() {
        tx.prepare_cached("update task set interrupt_asked = ?2 where seq = ?1")?
            .execute(params![row.seq, prompt.by])?;
    }
    let (by, beginning) = (prompt.by.clone(), prompt.beginning.clone());
    let event = EventBody::PromptQueued { prompt: sent.prompt, by, beginning, rearmed };
    if !rearmed {
        events::append(tx, Some(row.seq), live_attempt(&row.state), &event, at)?;
        return Ok(sent);
    }
    if let Some(queue) = &prompt.queue {
        tx.prepare_cached("update task set queue = ?2 where seq = ?1")?.execute(params![row.seq, queue])?;
        row.queue.clone_from(queue);
    }
    forget_failures(tx, &mut row)?;
    row.change(tx, &Change::FollowUp, &event, at)?;
    Ok(sent)
}

/// The earlier answer to this request.
fn answered(db: &Connection, row: &Row, request: &RequestId) -> Result<Option<Sent>> {
    let mut query =
        db.prepare_cached("select n, place, rearmed from prompt where task = ?1 and request = ?2")?;
    let sent = query.query_row(params![row.seq, request.0], |row| {
        Ok(Sent { prompt: row.get(0)?, position: row.get(1)?, rearmed: row.get(2)? })
    });
    Ok(sent.optional()?)
}

pub(super) fn all(db: &Connection, task: &TaskId) -> Result<Vec<Prompt>> {
    let row = Row::require(db, task)?;
    let mut query =
        db.prepare_cached("select n, text, by, at, state, attempt from prompt where task = ?1 order by n")?;
    let mut rows = query.query([row.seq])?;
    let mut prompts = Vec::new();
    while let Some(row) = rows.next()? {
        prompts.push(read(row)?);
    }
    Ok(prompts)
}

fn read(row: &rusqlite::Row<'_>) -> Result<Prompt> {
    let state: String = row.get(4)?;
    Ok(Prompt {
        n: row.get(0)?,
        text: row.get(1)?,
        by: row.get(2)?,
        at: Timestamp::from_millis(row.get(3)?),
        state: PromptState::parse(&state)
            .ok_or_else(|| unreadable("a prompt", format!("it cannot be {state:?}")))?,
        attempt: row.get(5)?,
    })
}

/// The number of waiting prompts.
pub(super) fn waiting(db: &Connection, row: &Row) -> Result<u32> {
    let mut query = db.prepare_cached("select count(*) from prompt where task = ?1 and state = 'queued'")?;
    Ok(query.query_row([row.seq], |row| row.get(0))?)
}

fn waiting_urgent(db: &Connection, row: &Row) -> Result<u32> {
    let mut query =
        db.prepare_cached("select count(*) from prompt where task = ?1 and state = 'queued' and urgent = 1")?;
    Ok(query.query_row([row.seq], |row| row.get(0))?)
}

/// The newly claimed attempt takes the oldest waiting prompt, an urgent one first.
pub(super) fn take(tx: &Tx, row: &Row, attempt: u32) -> Result<()> {
    tx.prepare_cached(
        "update prompt set state = 'taken', attempt = ?2 where task = ?1 and n = \
         (select n from prompt where task = ?1 and state = 'queued' order by urgent desc, n limit 1)",
    )?
    .execute(params![row.seq, attempt])?;
    Ok(())
}

/// The prompt that the current attempt has taken.
pub(super) fn taken(db: &Connection, row: &Row) -> Result<Option<Prompt>> {
    let mut query = db.prepare_cached(
        "select n, text, by, at, state, attempt from prompt \
         where task = ?1 and state = 'taken'",
    )?;
    query.query_row([row.seq], |row| Ok(read(row))).optional()?.transpose()
}

/// The claim ends: its prompt counts as delivered, or is the next to be taken.
pub(super) fn put_down(tx: &Tx, row: &Row, told: bool) -> Result<()> {
    let state = if told { PromptState::Told } else { PromptState::Queued };
    tx.prepare_cached("update prompt set state = ?2 where task = ?1 and state = 'taken'")?
        .execute(params![row.seq, state.as_str()])?;
    Ok(())
}

/// Whether an attempt has answered its prompt, with whatever result: one whose agent never started has not.
pub(super) fn answers(outcome: &Outcome, started: bool) -> bool {
    match outcome {
        Outcome::Approve(_) | Outcome::Done { .. } => true,
        Outcome::Fail { .. } => started,
        Outcome::Block { reason, .. } => {
            started && !matches!(reason, BlockReason::Policy | BlockReason::Budget)
        }
        Outcome::Retry { .. } | Outcome::Release { .. } | Outcome::Park { .. } | Outcome::Cancel { .. } => {
            false
        }
    }
}

/// Whether a running agent was interrupted for an urgent prompt: its own prompt has been delivered by then.
pub(super) fn interrupts(row: &Row, outcome: &Outcome, started: bool) -> bool {
    started && row.interrupt_asked.is_some() && matches!(outcome, Outcome::Release { .. })
}

/// The result the task would have had without waiting prompts.
pub(super) fn described(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Approve(_) => "it would be landing".to_owned(),
        Outcome::Block { reason, detail } => format!("blocked ({reason}): {detail}"),
        Outcome::Fail { why } => format!("failed: {why}"),
        Outcome::Release { why } => why.clone(),
        _ => "it would be done".to_owned(),
    }
}

/// A landing ended while prompts wait: the task continues with the next of them.
pub(super) fn follow_up(tx: &Tx, row: &mut Row, after: String, at: Timestamp) -> Result<()> {
    forget_failures(tx, row)?;
    row.change(tx, &Change::FollowUp, &EventBody::FollowingUp { after }, at)?;
    skip_if_hopeless(tx, row, at)
}
