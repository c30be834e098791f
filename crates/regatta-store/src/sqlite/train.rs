//! The train: the lander, the cars, and their steps.
//!
//! Invariant: a car exists exactly while its task is landing. Every step compares the lander's term and session with
//! the role's in its own transaction, so that a replaced lander cannot move anything.

use regatta_core::attempt::Evidence;
use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::state::{Change, TaskState};
use regatta_core::time::Timestamp;
use regatta_core::train::{Car, CarStep, LandRequest, LandStep};
use rusqlite::{Connection, OptionalExtension, params};

use super::failure::unreadable;
use super::rows::{Row, bounded, from_json, to_json};
use super::writer::Tx;
use super::{events, prompts, sessions};
use crate::{Lander, Result, SessionId, StoreError};

/// Maximum number of trees that are kept.
const MOST_PASSES: i64 = 10_000;

pub(super) fn elect(tx: &Tx, role: &str, session: &SessionId) -> Result<Option<Lander>> {
    sessions::require_open(tx, session)?;
    let (holder, term) = holder(tx, role)?.unwrap_or((None, 0));
    let lander =
        |term: i64| Lander { role: role.to_owned(), session: session.clone(), term: term.cast_unsigned() };
    match holder {
        Some(holder) if holder == *session => return Ok(Some(lander(term))),
        Some(holder) if sessions::require_open(tx, &holder).is_ok() => return Ok(None),
        _ => {}
    }
    tx.prepare_cached(
        "insert into role(role, session, term) values(?1, ?2, ?3) \
         on conflict(role) do update set session = excluded.session, term = excluded.term",
    )?
    .execute(params![role, session.0, term + 1])?;
    Ok(Some(lander(term + 1)))
}

pub(super) fn resign(tx: &Tx, lander: &Lander) -> Result<()> {
    tx.prepare_cached("update role set session = null where role = ?1 and session = ?2 and term = ?3")?
        .execute(params![lander.role, lander.session.0, lander.term.cast_signed()])?;
    Ok(())
}

pub(super) fn holder(db: &Connection, role: &str) -> Result<Option<(Option<SessionId>, i64)>> {
    let mut query = db.prepare_cached("select session, term from role where role = ?1")?;
    let found =
        query.query_row([role], |row| Ok((row.get::<_, Option<String>>(0)?.map(SessionId), row.get(1)?)));
    Ok(found.optional()?)
}

pub(super) fn require_lander(tx: &Tx, lander: &Lander) -> Result<()> {
    sessions::require_open(tx, &lander.session)?;
    let (holder, term) = holder(tx, &lander.role)?.unwrap_or((None, 0));
    if holder.as_ref() == Some(&lander.session) && term.cast_unsigned() == lander.term {
        return Ok(());
    }
    Err(StoreError::Fenced(format!("{} is in term {term} by now, not in {}", lander.role, lander.term)))
}

pub(super) fn cars(db: &Connection, target: &str) -> Result<Vec<Car>> {
    let mut query = db.prepare_cached(
        "select t.id, c.attempt, t.rank, c.seq, c.request, c.step from car c join task t on t.seq = c.task \
         where c.target = ?1 order by c.seq",
    )?;
    let mut rows = query.query([target])?;
    let mut cars = Vec::new();
    while let Some(row) = rows.next()? {
        let task =
            TaskId::parse(&row.get::<_, String>(0)?).map_err(|error| unreadable("a task id", error))?;
        let priority =
            i32::try_from(-row.get::<_, i64>(2)?).map_err(|error| unreadable("a priority", error))?;
        let (request, step): (String, String) = (row.get(4)?, row.get(5)?);
        let read = from_json("a car's request", &request)
            .and_then(|request| Ok((request, from_json("a car's step", &step)?)));
        let (request, step) = match read {
            Ok(read) => read,
            // Only a newer version can read it, so that version has to move it. No version writes an id that is not one.
            Err(_) if has_valid_ids(&request) && has_valid_ids(&step) => continue,
            Err(error) => return Err(error),
        };
        cars.push(Car {
            task,
            attempt: row.get(1)?,
            priority,
            seq: row.get::<_, i64>(3)?.cast_unsigned(),
            request,
            step,
        });
    }
    Ok(cars)
}

/// True for JSON in which every commit of a car is the id of one, as far as this version knows the fields.
fn has_valid_ids(text: &str) -> bool {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(text) else { return false };
    let ids = ["/base", "/head", "/candidate", "/intent/onto"].map(|field| value.pointer(field));
    ids.into_iter().flatten().filter_map(|id| id.as_str()).all(|id| Oid::parse(id).is_ok())
}

/// A new car at the end of its train.
pub(super) fn join(tx: &Tx, row: &Row, attempt: u32, request: &LandRequest) -> Result<()> {
    tx.prepare_cached("insert into car(task, target, attempt, request, step) values(?1, ?2, ?3, ?4, ?5)")?
        .execute(params![
            row.seq,
            request.target,
            attempt,
            bounded("the request to land", request)?,
            to_json(&CarStep::Queued)
        ])?;
    Ok(())
}

pub(super) fn leave(tx: &Tx, row: &Row) -> Result<()> {
    tx.prepare_cached("delete from car where task = ?1")?.execute([row.seq])?;
    Ok(())
}

pub(super) fn step_of(db: &Connection, row: &Row) -> Result<Option<CarStep>> {
    Ok(car_of(db, row)?.map(|(_, step)| step))
}

fn car_of(db: &Connection, row: &Row) -> Result<Option<(String, CarStep)>> {
    let mut query = db.prepare_cached("select target, step from car where task = ?1")?;
    let found = query
        .query_row([row.seq], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
        .optional()?;
    found.map(|(target, step)| Ok((target, from_json("a car's step", &step)?))).transpose()
}

pub(super) fn land_all(tx: &Tx, lander: &Lander, steps: &[(TaskId, LandStep)], at: Timestamp) -> Result<()> {
    require_lander(tx, lander)?;
    steps.iter().try_for_each(|(task, step)| land(tx, lander, task, step, at))
}

fn land(tx: &Tx, lander: &Lander, task: &TaskId, step: &LandStep, at: Timestamp) -> Result<()> {
    let mut row = Row::require(tx, task)?;
    let Some((target, car_step)) = car_of(tx, &row)? else {
        return if is_history(&row.state, step)
            || row.standing.as_ref().is_some_and(|stands| is_history(stands, step))
            || was_followed_up(tx, &row, step)?
        {
            Ok(())
        } else {
            Err(contradicts(&row, step, "has no car"))
        };
    };
    if lander.role != format!("train:{target}") {
        return Err(StoreError::Invalid(format!(
            "{task} lands on {target}, which is not for {}",
            lander.role
        )));
    }
    let event = EventBody::Landing { landing: step.clone(), target: Some(target.clone()) };
    match step {
        LandStep::Intend { intent } => {
            if matches!(&car_step, CarStep::Intended { intent: now } if now == intent) {
                return Ok(());
            }
            put_step(tx, &row, &CarStep::Intended { intent: intent.clone() })?;
            row.change(tx, &Change::Proceed, &event, at)
        }
        LandStep::Gate { candidate, .. } => match car_step {
            CarStep::Intended { intent } => {
                put_step(tx, &row, &CarStep::Gated { intent, candidate: candidate.clone() })?;
                row.change(tx, &Change::Proceed, &event, at)
            }
            CarStep::Gated { candidate: now, .. } if now == *candidate => Ok(()),
            CarStep::Gated { .. } => Err(contradicts(&row, step, "has another candidate")),
            CarStep::Queued => Err(contradicts(&row, step, "has no intent yet")),
        },
        LandStep::Tested { .. } => {
            events::append(tx, Some(row.seq), super::rows::live_attempt(&row.state), &event, at)
        }
        LandStep::Wait { why, held_by } => {
            if matches!(&row.state, TaskState::Landing { waiting: Some(now), .. } if now == why) {
                return Ok(());
            }
            row.change(tx, &Change::Wait { why: why.clone(), held_by: *held_by }, &event, at)
        }
        LandStep::Landed { commit } => match car_step {
            CarStep::Gated { candidate, .. } if candidate == *commit => {
                landed(tx, &mut row, commit, target, &event, at)
            }
            CarStep::Gated { .. } => Err(contradicts(&row, step, "was tested as another commit")),
            _ => Err(contradicts(&row, step, "has not passed its gate")),
        },
        LandStep::AlreadyIn { commit } => landed(tx, &mut row, commit, target, &event, at),
        LandStep::Bounce { onto, files, theirs, .. } => {
            leave(tx, &row)?;
            if let Some(n) = super::rows::live_attempt(&row.state) {
                let bounced =
                    Evidence::Bounced { onto: onto.clone(), files: files.clone(), theirs: theirs.clone() };
                if let Some(mut attempt) = row.attempt(tx, n)? {
                    attempt.evidence.push(bounced);
                    row.put_attempt(tx, &attempt)?;
                }
            }
            row.change(tx, &Change::Bounce, &event, at)?;
            super::dependents::skip_if_hopeless(tx, &mut row, at)
        }
        LandStep::Reject { reason, detail, .. } => {
            leave(tx, &row)?;
            events::append(tx, Some(row.seq), super::rows::live_attempt(&row.state), &event, at)?;
            if prompts::waiting(tx, &row)? > 0 {
                return prompts::follow_up(tx, &mut row, format!("blocked ({reason}): {detail}"), at);
            }
            let change = Change::Block { reason: *reason, detail: detail.clone() };
            row.change(tx, &change, &EventBody::Blocked { reason: *reason, detail: detail.clone() }, at)
        }
    }
}

fn put_step(tx: &Tx, row: &Row, step: &CarStep) -> Result<()> {
    tx.prepare_cached("update car set step = ?2 where task = ?1")?
        .execute(params![row.seq, to_json(step)])?;
    Ok(())
}

/// Whether a step that ends a landing has already been taken, with the same result.
fn is_history(state: &TaskState, step: &LandStep) -> bool {
    match (state, step) {
        (
            TaskState::Landed { commit: now, .. },
            LandStep::Landed { commit } | LandStep::AlreadyIn { commit },
        ) => now == commit,
        (TaskState::Pending { .. }, LandStep::Bounce { .. }) => true,
        (TaskState::Blocked { reason: now, detail: said }, LandStep::Reject { reason, detail, .. }) => {
            now == reason && said == detail
        }
        _ => false,
    }
}

/// Whether a follow-up made the task pending after this refusal.
fn was_followed_up(tx: &Tx, row: &Row, step: &LandStep) -> Result<bool> {
    let refused = matches!(step, LandStep::Reject { .. } | LandStep::Bounce { .. });
    Ok(refused && matches!(row.state, TaskState::Pending { .. }) && prompts::waiting(tx, row)? > 0)
}

/// It has landed; waiting follow-ups continue from there.
fn landed(
    tx: &Tx,
    row: &mut Row,
    commit: &Oid,
    target: String,
    event: &EventBody,
    at: Timestamp,
) -> Result<()> {
    leave(tx, row)?;
    row.change(tx, &Change::Land { commit: commit.clone(), target: Some(target) }, event, at)?;
    match prompts::waiting(tx, row)? {
        0 => Ok(()),
        _ => prompts::follow_up(tx, row, "landed".to_owned(), at),
    }
}

fn contradicts(row: &Row, step: &LandStep, why: &str) -> StoreError {
    StoreError::Conflict(format!(
        "{} ({}) {why}, so the step {} does not apply",
        row.id,
        row.state.name(),
        step.name()
    ))
}

/// Trees that passed a gate, newest first.
pub(super) fn passes(db: &Connection, gate: &str) -> Result<Vec<Oid>> {
    let mut query = db.prepare_cached("select tree from pass where gate = ?1 order by seq desc limit ?2")?;
    let rows = query.query_map(params![gate, MOST_PASSES], |row| row.get::<_, String>(0))?;
    let trees = rows.collect::<std::result::Result<Vec<_>, _>>()?;
    // A row that names no tree only costs another run of the gate.
    Ok(trees.iter().filter_map(|tree| Oid::parse(tree).ok()).collect())
}

/// Records one more tree that passed; the oldest are dropped.
pub(super) fn record_pass(tx: &Tx, gate: &str, tree: &Oid, at: Timestamp) -> Result<()> {
    tx.prepare_cached(
        "insert into pass(gate, tree, at) values(?1, ?2, ?3) on conflict(gate, tree) do nothing",
    )?
    .execute(params![gate, tree.as_str(), at.millis()])?;
    tx.prepare_cached("delete from pass where seq <= (select max(seq) from pass) - ?1")?
        .execute([MOST_PASSES])?;
    Ok(())
}
