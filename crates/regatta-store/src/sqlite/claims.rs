//! Claims: claiming a task and advancing it.
//!
//! Invariant: a step is taken only by the session that holds the task, with the current fence, in the attempt of the
//! claim; all three are compared in the transaction that takes the step. Fences only grow.

use regatta_core::attempt::Attempt;
use regatta_core::event::EventBody;
use regatta_core::exit::Exit;
use regatta_core::state::{Change, ParkReason, TaskState, apply};
use regatta_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::dependents::skip_if_hopeless;
use super::queue::forget_failures;
use super::rows::{Row, live_attempt, remember};
use super::writer::Tx;
use super::{admission, events, prompts, sessions, train};
use crate::{Claim, ClaimRequest, Outcome, RequestId, Result, SessionId, Step, StoreError};

pub(super) fn claim(tx: &Tx, wanted: &ClaimRequest, at: Timestamp) -> Result<Option<Claim>> {
    let node = sessions::require_open(tx, &wanted.session)?;
    let mut row = Row::require(tx, &wanted.task)?;
    if row.claim_request.as_deref() == Some(&wanted.request.0) {
        // A repeated request: the same claim while it lasts, and no second one afterwards.
        let held = row.session.as_ref() == Some(&wanted.session);
        return if held { claim_of(tx, &row).map(Some) } else { Ok(None) };
    }
    let ready = matches!(row.state, TaskState::Pending { not_before: None }) && row.unmet == 0;
    if !ready {
        return Ok(None);
    }
    if let Some(limits) = &wanted.limits {
        if let Some(held) = admission::crossed(tx, &row, limits, at)? {
            return Err(StoreError::Held(Box::new(held)));
        }
        admission::started(tx, at)?;
    }
    row.attempts += 1;
    row.fence += 1;
    row.session = Some(wanted.session.clone());
    tx.prepare_cached(
        "update task set attempts = ?2, fence = ?3, session = ?4, claim_request = ?5, token_hash = ?6, \
         cancel_asked = null, interrupt_asked = null where seq = ?1",
    )?
    .execute(params![
        row.seq,
        row.attempts,
        row.fence.cast_signed(),
        wanted.session.0,
        wanted.request.0,
        wanted.token_hash
    ])?;
    row.change(
        tx,
        &Change::Claim { attempt: row.attempts },
        &EventBody::Claimed { node: node.holder().to_owned() },
        at,
    )?;
    prompts::take(tx, &row, row.attempts)?;
    let claim = claim_of(tx, &row)?;
    let prompt = claim.prompt.as_ref().map(|prompt| prompt.n);
    row.put_attempt(tx, &Attempt { prompt, ..Attempt::new(row.attempts, &claim.spec.agent) })?;
    Ok(Some(claim))
}

pub(super) fn claims_of(db: &Connection, session: &SessionId) -> Result<Vec<Claim>> {
    sessions::held_by(db, session)?.iter().map(|row| claim_of(db, row)).collect()
}

fn claim_of(db: &Connection, row: &Row) -> Result<Claim> {
    let (Some(attempt), Some(session)) = (live_attempt(&row.state), &row.session) else {
        return Err(StoreError::Corrupt(format!("{} is held without an attempt", row.id)));
    };
    Ok(Claim {
        task: row.id.clone(),
        fence: row.fence,
        attempt,
        session: session.clone(),
        spec: row.spec(db)?,
        charged: row.charged,
        environment_failures: row.environment_failures,
        prompt: prompts::taken(db, row)?,
        standing: row.standing.clone(),
    })
}

pub(super) fn advance(tx: &Tx, claim: &Claim, step: &Step, request: &RequestId, at: Timestamp) -> Result<()> {
    let mut row = Row::require(tx, &claim.task)?;
    if !remember(tx, request, "advance", Some(row.seq))? {
        return Ok(());
    }
    require_claim(tx, &row, claim)?;
    let (Step::LaneReady(attempt)
    | Step::Started { attempt, .. }
    | Step::Update(attempt)
    | Step::Exited { attempt, .. }
    | Step::Settled { attempt, .. }) = step;
    if attempt.n != claim.attempt {
        return Err(StoreError::Invalid(format!(
            "the record is of attempt {}, the claim on {} of attempt {}",
            attempt.n, row.id, claim.attempt
        )));
    }
    row.put_attempt(tx, attempt)?;
    match step {
        Step::LaneReady(attempt) => {
            if !matches!(row.state, TaskState::Claimed { .. }) {
                return Err(StoreError::Refused(format!(
                    "{}: a {} task cannot get a lane",
                    row.id,
                    row.state.name()
                )));
            }
            let lane = attempt.lane.as_ref().map(|lane| lane.display().to_string()).unwrap_or_default();
            let event = EventBody::LaneReady { lane, base: attempt.base.clone() };
            events::append(tx, Some(row.seq), Some(claim.attempt), &event, at)
        }
        Step::Started { pid, .. } => {
            row.change(tx, &Change::Start { at }, &EventBody::Started { pid: *pid }, at)
        }
        Step::Update(_) => Ok(()),
        Step::Exited { exit, .. } => exited(tx, &mut row, exit, at),
        Step::Settled { attempt, outcome } => settle(tx, &mut row, attempt, outcome, at),
    }
}

/// Checks that the caller still owns what it writes.
fn require_claim(tx: &Tx, row: &Row, claim: &Claim) -> Result<()> {
    sessions::require_open(tx, &claim.session)?;
    let fenced = |why: String| Err(StoreError::Fenced(why));
    let Some(holder) = &row.session else {
        return fenced(format!("{} is no longer held, it is {}", row.id, row.state.name()));
    };
    if *holder != claim.session {
        return fenced(format!("{} is held by session {holder}", row.id));
    }
    if row.fence != claim.fence {
        return fenced(format!("{} has fence {} by now, the claim has {}", row.id, row.fence, claim.fence));
    }
    if live_attempt(&row.state) != Some(claim.attempt) {
        return fenced(format!("{} is not in attempt {} any more", row.id, claim.attempt));
    }
    Ok(())
}

pub(super) fn exited(tx: &Tx, row: &mut Row, exit: &Exit, at: Timestamp) -> Result<()> {
    row.change(tx, &Change::Exit { exit: exit.clone() }, &EventBody::Exited { exit: exit.clone() }, at)
}

fn settle(tx: &Tx, row: &mut Row, attempt: &Attempt, outcome: &Outcome, at: Timestamp) -> Result<()> {
    let started = attempt.started_at.is_some();
    let answered = prompts::answers(outcome, started) || prompts::interrupts(row, outcome, started);
    prompts::put_down(tx, row, answered)?;
    let goes_on = answered && prompts::waiting(tx, row)? > 0;
    let (change, event) = match (goes_on, outcome, &row.standing) {
        (true, ..) => (Change::FollowUp, EventBody::FollowingUp { after: prompts::described(outcome) }),
        // A follow-up without changes leaves the earlier landing in place.
        (false, Outcome::Done { head: None }, Some(TaskState::Landed { attempt, commit, target })) => (
            Change::Stand { attempt: *attempt, commit: commit.clone(), target: target.clone() },
            EventBody::Stands { made_by: *attempt, commit: commit.clone(), target: target.clone() },
        ),
        (false, Outcome::Done { head: None }, Some(TaskState::Done { head, .. })) => {
            (Change::Finish { head: head.clone() }, EventBody::Done { head: head.clone() })
        }
        (false, outcome, _) => consequence(outcome),
    };
    // An outcome of judging implies that the agent has exited, whether or not that was recorded before.
    if apply(&row.state, &change).is_err() && !matches!(row.state, TaskState::Judging { .. }) {
        exited(tx, row, attempt.exit.as_ref().unwrap_or(&Exit::Lost), at)?;
    }
    if let Some(verdict) = attempt.verdict {
        let judged = EventBody::Judged { verdict, summary: attempt.summary.clone() };
        events::append(tx, Some(row.seq), Some(attempt.n), &judged, at)?;
    }
    let environment = matches!(outcome, Outcome::Park { why: ParkReason::Environment, .. });
    row.charged += u32::from(attempt.charged);
    row.environment_failures = if environment { row.environment_failures + 1 } else { 0 };
    // An attempt that ended by itself, with whatever result, is not a loss.
    let is_end = !matches!(outcome, Outcome::Release { .. });
    tx.prepare_cached(
        "update task set charged = ?2, environment_failures = ?3, lost = iif(?4, 0, lost) where seq = ?1",
    )?
    .execute(params![row.seq, row.charged, row.environment_failures, is_end])?;
    if goes_on {
        forget_failures(tx, row)?;
    } else if let Outcome::Approve(request) = outcome {
        train::join(tx, row, attempt.n, request)?;
    }
    let asked = row.cancel_asked.take();
    row.end_claim(tx)?;
    row.change(tx, &change, &event, at)?;
    cancel_if_asked(tx, row, asked, at)?;
    skip_if_hopeless(tx, row, at)
}

/// Cancels a task that goes back to waiting although its cancellation was requested: it has no owner left to obey.
pub(super) fn cancel_if_asked(tx: &Tx, row: &mut Row, asked: Option<String>, at: Timestamp) -> Result<()> {
    let waits = matches!(row.state, TaskState::Pending { .. } | TaskState::Parked { .. });
    match asked {
        Some(by) if waits => {
            row.change(tx, &Change::Cancel { by: by.clone() }, &EventBody::Cancelled { by }, at)
        }
        _ => Ok(()),
    }
}

/// The change of state for an outcome, and its event.
fn consequence(outcome: &Outcome) -> (Change, EventBody) {
    match outcome.clone() {
        Outcome::Approve(request) => {
            (Change::Approve { head: request.head.clone() }, EventBody::Approved { head: request.head })
        }
        Outcome::Done { head } => (Change::Finish { head: head.clone() }, EventBody::Done { head }),
        Outcome::Retry { not_before, class, why } => {
            (Change::Retry { not_before }, EventBody::Retrying { not_before, class, why })
        }
        Outcome::Release { why } => (Change::Release, EventBody::Released { why }),
        Outcome::Park { until, why, detail } => {
            (Change::Park { until, why, detail: detail.clone() }, EventBody::Parked { until, why, detail })
        }
        Outcome::Block { reason, detail } => {
            (Change::Block { reason, detail: detail.clone() }, EventBody::Blocked { reason, detail })
        }
        Outcome::Fail { why } => (Change::Fail { why: why.clone() }, EventBody::Failed { why }),
        Outcome::Cancel { by } => (Change::Cancel { by: by.clone() }, EventBody::Cancelled { by }),
    }
}
