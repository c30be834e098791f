//! Tasks as rows, and the only way to change a task's state.
//!
//! Invariant: [`Row::change`] is the only function that writes a state. It asks `regatta_core::state::apply`, writes
//! the event beside the state, and updates the dependents, all in the caller's transaction.

use regatta_core::attempt::Attempt;
use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::spec::TaskSpec;
use regatta_core::state::{BlockReason, Change, TaskState, apply};
use regatta_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::failure::unreadable;
use super::writer::Tx;
use super::{dependents, events, spending};
use crate::{RequestId, Result, SessionId, StoreError};

/// Longest value in bytes, so that every backend can store it (a znode is limited to 1 MiB).
pub(super) const MAX_VALUE: usize = 900 * 1024;

/// The fate of a task whose work is available.
pub(super) const MET: u8 = 1;
/// The fate of a task whose work will never be available.
pub(super) const DEAD: u8 = 2;

/// A task without its spec.
pub(super) struct Row {
    pub(super) seq: i64,
    pub(super) id: TaskId,
    pub(super) queue: String,
    pub(super) state: TaskState,
    pub(super) unmet: u32,
    pub(super) attempts: u32,
    pub(super) charged: u32,
    pub(super) environment_failures: u32,
    pub(super) fence: u64,
    pub(super) session: Option<SessionId>,
    pub(super) claim_request: Option<String>,
    pub(super) token_hash: Option<String>,
    pub(super) cancel_asked: Option<String>,
    pub(super) interrupt_asked: Option<String>,
    /// Done or landed work that remains valid while the task is followed up.
    pub(super) standing: Option<TaskState>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
}

/// The columns that [`Row::read`] expects, in its order, of the table or alias `t`.
pub(super) const COLUMNS: &str = "t.seq, t.id, t.queue, t.state, t.unmet, t.attempts, t.charged, \
    t.environment_failures, t.fence, t.session, t.claim_request, t.token_hash, t.cancel_asked, t.created_at, \
    t.updated_at, t.standing, t.interrupt_asked";

impl Row {
    /// The row of `task`, regardless of case.
    pub(super) fn find(db: &Connection, task: &TaskId) -> Result<Option<Self>> {
        let sql = format!("select {COLUMNS} from task t where t.folded = ?1");
        let mut query = db.prepare_cached(&sql)?;
        query.query_row([task.folded()], |row| Ok(Self::read(row))).optional()?.transpose()
    }

    pub(super) fn require(db: &Connection, task: &TaskId) -> Result<Self> {
        Self::find(db, task)?.ok_or_else(|| StoreError::NotFound(format!("task {task}")))
    }

    pub(super) fn by_seq(db: &Connection, seq: i64) -> Result<Self> {
        let sql = format!("select {COLUMNS} from task t where t.seq = ?1");
        db.prepare_cached(&sql)?.query_row([seq], |row| Ok(Self::read(row)))?
    }

    pub(super) fn read(row: &rusqlite::Row<'_>) -> Result<Self> {
        let id: String = row.get(1)?;
        Ok(Self {
            seq: row.get(0)?,
            id: TaskId::parse(&id).map_err(|error| unreadable(&format!("the task id {id:?}"), error))?,
            queue: row.get(2)?,
            state: state_of(&row.get::<_, String>(3)?)?,
            unmet: row.get(4)?,
            attempts: row.get(5)?,
            charged: row.get(6)?,
            environment_failures: row.get(7)?,
            fence: row.get::<_, i64>(8)?.cast_unsigned(),
            session: row.get::<_, Option<String>>(9)?.map(SessionId),
            claim_request: row.get(10)?,
            token_hash: row.get(11)?,
            cancel_asked: row.get(12)?,
            created_at: Timestamp::from_millis(row.get(13)?),
            updated_at: Timestamp::from_millis(row.get(14)?),
            standing: row.get::<_, Option<String>>(15)?.map(|state| state_of(&state)).transpose()?,
            interrupt_asked: row.get(16)?,
        })
    }

    /// Changes the state, appends `event`, and updates the dependents.
    pub(super) fn change(
        &mut self,
        tx: &Tx,
        change: &Change,
        event: &EventBody,
        at: Timestamp,
    ) -> Result<()> {
        let was = self.change_alone(tx, change, event, at)?;
        dependents::follow(tx, self, was, at)
    }

    /// Like [`Row::change`], for callers that update the dependents themselves. Returns the previous fate.
    pub(super) fn change_alone(
        &mut self,
        tx: &Tx,
        change: &Change,
        event: &EventBody,
        at: Timestamp,
    ) -> Result<u8> {
        let was = self.fate();
        let next = apply(&self.state, change)
            .map_err(|illegal| StoreError::Refused(format!("{}: {illegal}", self.id)))?;
        let attempt = live_attempt(&next).or_else(|| live_attempt(&self.state));
        events::append(tx, Some(self.seq), attempt, event, at)?;
        let old = std::mem::replace(&mut self.state, next);
        // Done or landed work remains valid until something replaces it.
        if self.state.is_met() {
            self.standing = None;
        } else if matches!(change, Change::FollowUp) && old.is_met() {
            self.standing = Some(old);
        }
        tx.prepare_cached(
            "update task set name = ?2, state = ?3, fate = ?4, wakes_at = ?5, updated_at = ?6, standing = ?7 \
             where seq = ?1",
        )?
        .execute(params![
            self.seq,
            self.state.name(),
            to_json(&self.state),
            self.fate(),
            self.state.wakes_at().map(Timestamp::millis),
            at.millis(),
            self.standing.as_ref().map(to_json),
        ])?;
        self.updated_at = at;
        Ok(was)
    }

    /// What dependents need to know about it, as stored in the column `fate`.
    pub(super) fn fate(&self) -> u8 {
        if self.standing.is_some() { MET } else { fate(&self.state) }
    }

    /// Clears the claim: no session holds it any more.
    pub(super) fn end_claim(&mut self, tx: &Tx) -> Result<()> {
        tx.prepare_cached(
            "update task set session = null, token_hash = null, cancel_asked = null, interrupt_asked = null \
             where seq = ?1",
        )?
        .execute([self.seq])?;
        (self.session, self.token_hash, self.cancel_asked) = (None, None, None);
        self.interrupt_asked = None;
        Ok(())
    }

    pub(super) fn spec(&self, db: &Connection) -> Result<TaskSpec> {
        let mut query = db.prepare_cached("select body from spec where task = ?1")?;
        let body: String = query.query_row([self.seq], |row| row.get(0))?;
        from_json(&format!("the spec of {}", self.id), &body)
    }

    pub(super) fn attempt(&self, db: &Connection, n: u32) -> Result<Option<Attempt>> {
        let mut query = db.prepare_cached("select body from attempt where task = ?1 and n = ?2")?;
        let body: Option<String> = query.query_row([self.seq, i64::from(n)], |row| row.get(0)).optional()?;
        body.map(|body| from_json(&format!("attempt {n} of {}", self.id), &body)).transpose()
    }

    pub(super) fn put_attempt(&self, tx: &Tx, attempt: &Attempt) -> Result<()> {
        let body = bounded(&format!("the record of attempt {} of {}", attempt.n, self.id), attempt)?;
        tx.prepare_cached(
            "insert into attempt(task, n, body) values(?1, ?2, ?3) \
             on conflict(task, n) do update set body = excluded.body",
        )?
        .execute(params![self.seq, attempt.n, body])?;
        spending::put(tx, self.seq, attempt)
    }
}

/// The attempt that is claimed, running or in the train.
pub(super) fn live_attempt(state: &TaskState) -> Option<u32> {
    match state {
        TaskState::Claimed { attempt }
        | TaskState::Running { attempt, .. }
        | TaskState::Judging { attempt, .. }
        | TaskState::Landing { attempt, .. } => Some(*attempt),
        _ => None,
    }
}

/// What dependents need to know about a state by itself.
pub(super) fn fate(state: &TaskState) -> u8 {
    match (state.is_met(), state.is_dead()) {
        (true, _) => MET,
        (_, true) => DEAD,
        _ => 0,
    }
}

/// Records that `request` is being executed. False if it already was: then nothing is left to do.
pub(super) fn remember(tx: &Tx, request: &RequestId, kind: &str, task: Option<i64>) -> Result<bool> {
    let mut insert = tx.prepare_cached(
        "insert into request(request, kind, task) values(?1, ?2, ?3) on conflict do nothing",
    )?;
    Ok(insert.execute(params![request.0, kind, task.unwrap_or(0)])? == 1)
}

pub(super) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("core's types have string keys and no failing serialisers")
}

/// The value as JSON, if every backend can store its length.
pub(super) fn bounded(what: &str, value: &impl Serialize) -> Result<String> {
    let json = to_json(value);
    if json.len() > MAX_VALUE {
        return Err(StoreError::Invalid(format!(
            "{what} takes {} KiB, more than the {} KiB a store can hold; keep long text in a file and name it",
            json.len().div_ceil(1024),
            MAX_VALUE / 1024
        )));
    }
    Ok(json)
}

/// Parses a stored state. In a state that only a newer version knows, this version leaves the task alone: it waits for
/// a process that does know it.
pub(super) fn state_of(json: &str) -> Result<TaskState> {
    let error = match serde_json::from_str(json) {
        Ok(state) => return Ok(state),
        Err(error) => error,
    };
    let fields: Option<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(json).ok();
    match fields.as_ref().and_then(|fields| fields.get("state")?.as_str()) {
        Some(name) => Ok(TaskState::Blocked {
            reason: BlockReason::Policy,
            detail: format!("a newer version of Regatta has it as {name:?}; use that version"),
        }),
        None => Err(unreadable("the state of a task", error)),
    }
}

pub(super) fn from_json<'a, T: Deserialize<'a>>(what: &str, json: &'a str) -> Result<T> {
    serde_json::from_str(json).map_err(|error| unreadable(what, error))
}
