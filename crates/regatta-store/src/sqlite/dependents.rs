//! What a change to one task means for its dependents.
//!
//! Invariant, after every transaction and for every task: `unmet` is the number of its dependencies that are not met; a
//! pending or parked task has no dead dependency; a skipped task has one, and names it. The walk is breadth first over
//! a work list, so that a chain of any length needs no stack.

use std::collections::VecDeque;

use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::state::{Change, StateName, TaskState};
use regatta_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::rows::{DEAD, MET, Row};
use super::writer::Tx;
use crate::Result;

/// Updates everything that depends on `row`, whose fate was `was`.
pub(super) fn follow(tx: &Tx, row: &Row, was: u8, at: Timestamp) -> Result<()> {
    let mut moved = VecDeque::from([(row.seq, row.id.clone(), row.state.kind(), was, row.fate())]);
    while let Some((seq, id, name, was, is)) = moved.pop_front() {
        if was == is {
            continue;
        }
        if (was == MET) != (is == MET) {
            let by = if is == MET { -1 } else { 1 };
            tx.prepare_cached(
                "update task set unmet = unmet + ?2 where seq in (select child from dependency where parent = ?1)",
            )?
            .execute(params![seq, by])?;
        }
        if is == DEAD {
            for mut child in children(tx, seq, [StateName::Pending, StateName::Parked])? {
                let before = child.fate();
                skip(tx, &mut child, (&id, name), at)?;
                moved.push_back((child.seq, child.id.clone(), child.state.kind(), before, child.fate()));
            }
        } else if was == DEAD {
            for mut child in children(tx, seq, [StateName::Skipped, StateName::Skipped])? {
                let before = child.fate();
                rearm(tx, &mut child, &id, at)?;
                moved.push_back((child.seq, child.id.clone(), child.state.kind(), before, child.fate()));
            }
        }
    }
    Ok(())
}

/// Skips a task that has just been queued again if a dependency is dead.
pub(super) fn skip_if_hopeless(tx: &Tx, row: &mut Row, at: Timestamp) -> Result<()> {
    if !matches!(row.state, TaskState::Pending { .. } | TaskState::Parked { .. }) {
        return Ok(());
    }
    let Some((dependency, name)) = dead_dependency(tx, row.seq)? else { return Ok(()) };
    let was = skip(tx, row, (&dependency, name), at)?;
    follow(tx, row, was, at)
}

/// The first dead dependency and how it ended, if there is one.
pub(super) fn dead_dependency(db: &Connection, seq: i64) -> Result<Option<(TaskId, StateName)>> {
    let mut query = db.prepare_cached(
        "select t.seq from dependency d join task t on t.seq = d.parent \
         where d.child = ?1 and t.fate = 2 order by t.seq limit 1",
    )?;
    let dead: Option<i64> = query.query_row([seq], |row| row.get(0)).optional()?;
    let Some(dead) = dead else { return Ok(None) };
    let row = Row::by_seq(db, dead)?;
    Ok(Some((row.id, row.state.kind())))
}

/// Recounts the dependencies that are not met.
pub(super) fn recount(tx: &Tx, seq: i64) -> Result<()> {
    tx.prepare_cached(
        "update task set unmet = (select count(*) from dependency d join task p on p.seq = d.parent \
         where d.child = ?1 and p.fate <> 1) where seq = ?1",
    )?
    .execute([seq])?;
    Ok(())
}

fn skip(tx: &Tx, row: &mut Row, (dependency, name): (&TaskId, StateName), at: Timestamp) -> Result<u8> {
    let (dependency, was) = (dependency.clone(), Some(name));
    let change = Change::Skip { dependency: dependency.clone(), was };
    let event = EventBody::Skipped { dependency, was };
    row.change_alone(tx, &change, &event, at)
}

/// `parent` is available again. If another dependency is still dead, the task stays skipped and names that one.
fn rearm(tx: &Tx, child: &mut Row, parent: &TaskId, at: Timestamp) -> Result<()> {
    let other = dead_dependency(tx, child.seq)?;
    let named = matches!(&child.state, TaskState::Skipped { dependency, .. } if dependency == parent);
    if other.is_some() && !named {
        return Ok(());
    }
    child.change_alone(tx, &Change::Rearm, &EventBody::Rearmed, at)?;
    if let Some((other, name)) = other {
        skip(tx, child, (&other, name), at)?;
    }
    Ok(())
}

fn children(db: &Connection, parent: i64, names: [StateName; 2]) -> Result<Vec<Row>> {
    let mut query = db.prepare_cached(
        "select t.seq from dependency d join task t on t.seq = d.child \
         where d.parent = ?1 and t.name in (?2, ?3) order by t.seq",
    )?;
    let seqs: Vec<i64> = query
        .query_map(params![parent, names[0].as_str(), names[1].as_str()], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    seqs.into_iter().map(|seq| Row::by_seq(db, seq)).collect()
}
