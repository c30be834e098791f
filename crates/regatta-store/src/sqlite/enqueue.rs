//! Adding tasks.
//!
//! Invariant: after a successful call, every dependency of every task exists and no task depends on itself through any
//! number of others; after a failed call, nothing has changed.

use std::collections::HashMap;

use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::state::{Change, TaskState};
use regatta_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::dependents::{recount, skip_if_hopeless};
use super::rows::{Row, bounded, fate, remember, to_json};
use super::writer::Tx;
use super::{cycle, events, queue, spending};
use crate::{IfPresent, NewTask, RequestId, Result, StoreError};

/// A task with its spec as it will be stored.
pub(super) struct Prepared {
    task: NewTask,
    body: String,
}

/// Checks everything that needs no access to the store.
pub(super) fn prepare(tasks: &[NewTask]) -> Result<Vec<Prepared>> {
    let mut seen: HashMap<String, &TaskId> = HashMap::new();
    for task in tasks {
        let id = &task.spec.id;
        if let Some(other) = seen.insert(id.folded(), id) {
            return Err(StoreError::Invalid(format!("{other} and {id} are one id, named twice in one call")));
        }
    }
    tasks
        .iter()
        .map(|task| {
            let body = bounded(&format!("the task {}", task.spec.id), &task.spec)?;
            Ok(Prepared { task: task.clone(), body })
        })
        .collect()
}

/// What happens to one task of the call.
enum Entry {
    New,
    /// Pending again.
    Restarted,
    /// New spec and queue, same state.
    Respecified,
}

pub(super) fn enqueue(tx: &Tx, tasks: &[Prepared], request: &RequestId, at: Timestamp) -> Result<()> {
    let mut entries = Vec::new();
    for prepared in tasks {
        if let Some((seq, entry)) = enter(tx, prepared, request, at)? {
            entries.push((seq, entry, &prepared.task));
        }
    }
    for (seq, _, task) in &entries {
        depend(tx, *seq, task)?;
    }
    refuse_cycles(tx, &entries)?;
    for (seq, _, _) in &entries {
        recount(tx, *seq)?;
    }
    for (seq, entry, task) in &entries {
        let enqueued = EventBody::Enqueued { queue: task.queue.clone() };
        match entry {
            Entry::New => events::append(tx, Some(*seq), None, &enqueued, at)?,
            Entry::Restarted => {
                let mut row = Row::by_seq(tx, *seq)?;
                queue::forget_failures(tx, &mut row)?;
                row.change(tx, &Change::Requeue, &enqueued, at)?;
            }
            Entry::Respecified => {}
        }
    }
    for (seq, _, task) in &entries {
        if !task.spec.deps.is_empty() {
            skip_if_hopeless(tx, &mut Row::by_seq(tx, *seq)?, at)?;
        }
    }
    Ok(())
}

/// Writes the row and the spec; the state of an existing task is changed later. `None` if this call has nothing more to
/// do for the task.
fn enter(tx: &Tx, prepared: &Prepared, request: &RequestId, at: Timestamp) -> Result<Option<(i64, Entry)>> {
    let task = &prepared.task;
    let id = &task.spec.id;
    let Some(row) = Row::find(tx, id)? else {
        let seq = insert(tx, task, at)?;
        remember(tx, request, "enqueue", Some(seq))?;
        put_spec(tx, seq, prepared)?;
        return Ok(Some((seq, Entry::New)));
    };
    if row.id != *id {
        return Err(StoreError::Conflict(format!(
            "{id} differs only in case from {}, which already exists",
            row.id
        )));
    }
    if !remember(tx, request, "enqueue", Some(row.seq))? {
        return Ok(None);
    }
    let busy = row.state.is_busy();
    let entry = match task.if_present {
        IfPresent::Refuse => {
            return Err(StoreError::Conflict(format!(
                "task {id} already exists and is {}",
                row.state.name()
            )));
        }
        IfPresent::Restart if busy => {
            return Err(StoreError::Refused(format!(
                "{id}: a {} task cannot be restarted",
                row.state.name()
            )));
        }
        IfPresent::Resume if busy => {
            tx.prepare_cached("update task set queue = ?2 where seq = ?1")?
                .execute(params![row.seq, task.queue])?;
            return Ok(None);
        }
        // A follow-up on good work continues unchanged.
        IfPresent::Resume if row.state.is_met() || row.standing.is_some() => Entry::Respecified,
        IfPresent::Restart | IfPresent::Resume => Entry::Restarted,
    };
    tx.prepare_cached("update task set queue = ?2, rank = ?3 where seq = ?1")?.execute(params![
        row.seq,
        task.queue,
        -i64::from(task.spec.priority)
    ])?;
    if task.if_present == IfPresent::Restart {
        spending::count_from(tx, row.seq, at)?;
    }
    put_spec(tx, row.seq, prepared)?;
    Ok(Some((row.seq, entry)))
}

fn insert(tx: &Tx, task: &NewTask, at: Timestamp) -> Result<i64> {
    let state = TaskState::pending();
    tx.prepare_cached(
        "insert into task(id, folded, queue, rank, name, state, fate, unmet, attempts, charged, \
         environment_failures, fence, created_at, updated_at) \
         values(?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0, 0, 0, 0, ?8, ?8)",
    )?
    .execute(params![
        task.spec.id.as_str(),
        task.spec.id.folded(),
        task.queue,
        -i64::from(task.spec.priority),
        state.name(),
        to_json(&state),
        fate(&state),
        at.millis()
    ])?;
    Ok(tx.last_insert_rowid())
}

/// Writes the spec, and copies what lists and limits need into columns of the task.
fn put_spec(tx: &Tx, seq: i64, prepared: &Prepared) -> Result<()> {
    tx.prepare_cached(
        "insert into spec(task, body) values(?1, ?2) on conflict(task) do update set body = excluded.body",
    )?
    .execute(params![seq, prepared.body])?;
    let spec = &prepared.task.spec;
    let labels = (!spec.labels.is_empty()).then(|| to_json(&spec.labels));
    let part = spec.part.as_ref().map(to_json);
    let writes = (!spec.writes.is_empty()).then(|| to_json(&spec.writes));
    tx.prepare_cached(
        "update task set title = ?2, agent = ?3, labels = ?4, part = ?5, read_only = ?6, \
         concurrency_group = ?7, writes = ?8 where seq = ?1",
    )?
    .execute(params![
        seq,
        spec.title,
        spec.agent,
        labels,
        part,
        spec.read_only,
        spec.concurrency_group,
        writes
    ])?;
    Ok(())
}

/// Replaces the task's dependencies.
fn depend(tx: &Tx, seq: i64, task: &NewTask) -> Result<()> {
    tx.prepare_cached("delete from dependency where child = ?1")?.execute([seq])?;
    for dependency in &task.spec.deps {
        let Some(parent) = seq_of(tx, dependency)? else {
            return Err(StoreError::Invalid(format!(
                "{} depends on {dependency}, which does not exist",
                task.spec.id
            )));
        };
        tx.prepare_cached("insert into dependency(child, parent) values(?1, ?2) on conflict do nothing")?
            .execute([seq, parent])?;
    }
    Ok(())
}

fn seq_of(db: &Connection, task: &TaskId) -> Result<Option<i64>> {
    use rusqlite::OptionalExtension;
    let mut query = db.prepare_cached("select seq from task where folded = ?1")?;
    Ok(query.query_row([task.folded()], |row| row.get(0)).optional()?)
}

fn refuse_cycles(tx: &Tx, entries: &[(i64, Entry, &NewTask)]) -> Result<()> {
    let starts = entries.iter().filter(|(_, _, task)| !task.spec.deps.is_empty()).map(|(seq, _, _)| *seq);
    let parents = |seq: i64| -> Result<Vec<i64>> {
        let mut query = tx.prepare_cached("select parent from dependency where child = ?1")?;
        let parents = query.query_map([seq], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        Ok(parents)
    };
    let Some(path) = cycle::find(starts, parents)? else { return Ok(()) };
    let names: Vec<String> =
        path.iter().map(|seq| Ok(Row::by_seq(tx, *seq)?.id.to_string())).collect::<Result<_>>()?;
    Err(StoreError::Invalid(format!("these tasks wait for each other: {}", names.join(" → "))))
}
