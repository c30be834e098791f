//! Claims: claiming a task and advancing it.
//!
//! Invariant: a step is taken only by the session that holds the task, with the current fence, in the attempt of the
//! claim; all three are compared by the plan that takes the step. Fences only grow.

use std::sync::Arc;

use regatta_core::attempt::Attempt;
use regatta_core::event::EventBody;
use regatta_core::exit::Exit;
use regatta_core::prompt::Prompt;
use regatta_core::spec::TaskSpec;
use regatta_core::state::{Change, ParkReason, TaskState, apply};
use regatta_core::time::Timestamp;

use super::dependents::skip_if_hopeless;
use super::queue::forget_failures;
use super::record::{Folded, Kept, Key, SetKey, Spec, StoredAttempt, Task, Want, folded};
use super::{Call, Draft, Rule, admission, era, prompts, sessions, train};
use crate::stored::Readable;
use crate::{Claim, ClaimRequest, Outcome, RequestId, Result, Step, StoreError};

/// Claims a task.
pub(crate) fn claim(wanted: &ClaimRequest, at: Timestamp) -> Call<'_, Option<Claim>> {
    Call::new(at, move || wants(wanted), move |draft| claim_in(draft, wanted))
}

/// Advances a claimed task.
pub(crate) fn advance<'a>(
    claim: &'a Claim,
    step: &'a Step,
    request: &'a RequestId,
    at: Timestamp,
) -> Call<'a, ()> {
    Call::new(
        at,
        move || wants_of_step(claim, step, request),
        move |draft| advance_in(draft, claim, step, request),
    )
}

/// What a claim reads.
pub(crate) fn wants(wanted: &ClaimRequest) -> Vec<Want> {
    let task = folded(&wanted.task);
    let mut wants = vec![
        Want::Record(Key::Session(wanted.session.clone())),
        Want::Record(Key::Holds(wanted.session.clone())),
        Want::Record(era::key()),
        Want::Record(Key::Starts),
        Want::Record(Key::Task(Arc::clone(&task))),
        Want::Record(Key::Spec(Arc::clone(&task))),
        Want::Set(SetKey::PromptsOf(task)),
    ];
    if wanted.limits.is_some() {
        wants.push(Want::Set(SetKey::Active));
    }
    wants
}

fn wants_of_step(claim: &Claim, step: &Step, request: &RequestId) -> Vec<Want> {
    let task = folded(&claim.task);
    let mut wants = vec![
        Want::Record(Key::Session(claim.session.clone())),
        Want::Record(Key::Task(Arc::clone(&task))),
        Want::Record(Key::Attempt(Arc::clone(&task), claim.attempt)),
        Want::Record(Key::Request(request.clone(), "advance", Some(Arc::clone(&task)))),
    ];
    let Step::Settled { outcome, .. } = step else { return wants };
    wants.push(Want::Set(SetKey::PromptsOf(Arc::clone(&task))));
    wants.push(match outcome {
        Outcome::Approve(_) => Want::Record(Key::Car(task)),
        Outcome::Done { .. } => Want::Set(SetKey::Children(task)),
        Outcome::Fail { .. } | Outcome::Cancel { .. } => Want::Fall(task),
        Outcome::Retry { .. } | Outcome::Release { .. } | Outcome::Park { .. } | Outcome::Block { .. } => {
            Want::Record(Key::Deps(task))
        }
    });
    wants
}

pub(crate) fn claim_in(draft: &mut Draft<'_>, wanted: &ClaimRequest) -> Rule<Option<Claim>> {
    let node = sessions::require_open(draft, &wanted.session)?;
    let task = draft.require(&wanted.task)?;
    let row = draft.task(&task)?;
    if row.claim_request.as_deref() == Some(&wanted.request.0) {
        // A repeated request: the same claim while it lasts, and no second one afterwards.
        let held = row.session.as_ref() == Some(&wanted.session);
        return if held { current_claim(draft, &task).map(Some) } else { Ok(None) };
    }
    let ready = matches!(row.state, TaskState::Pending { not_before: None }) && row.unmet == 0;
    if !ready {
        return Ok(None);
    }
    if let Some(limits) = &wanted.limits {
        if let Some(held) = admission::crossed(draft, &row, limits)? {
            return Err(StoreError::Held(Box::new(held)).into());
        }
        admission::started(draft)?;
    } else if !node.is_member() {
        sessions::guard_starts(draft)?;
    }
    let fence = era::above(draft, row.fence)?;
    drop(row);
    draft.guard(Key::Holds(wanted.session.clone()))?;
    let row = draft.edit_task(&task)?;
    row.attempts += 1;
    row.fence = fence;
    row.session = Some(wanted.session.clone());
    row.claim_request = Some(wanted.request.0.clone());
    row.token_hash = Some(wanted.token_hash.clone());
    row.cancel_asked = None;
    row.interrupt_asked = None;
    let attempt = row.attempts;
    draft.change(
        &task,
        &Change::Claim { attempt },
        &EventBody::Claimed { node: node.holder().to_owned() },
    )?;
    prompts::take(draft, &task, attempt)?;
    let claim = current_claim(draft, &task)?;
    let prompt = claim.prompt.as_ref().map(|prompt| prompt.n);
    let record = Attempt { prompt, ..Attempt::new(attempt, &claim.spec.agent) };
    draft.create(Key::Attempt(task, attempt), StoredAttempt::new(&claim.task, &record)?.record());
    Ok(Some(claim))
}

fn current_claim(draft: &mut Draft<'_>, task: &Folded) -> Rule<Claim> {
    let row = draft.task(task)?;
    let spec = spec(draft, task)?.spec.clone();
    let prompt = prompts::taken(draft, task)?;
    Ok(claim_of(&row, spec, prompt)?)
}

/// The spec of a task.
pub(crate) fn spec(draft: &mut Draft<'_>, task: &Folded) -> Rule<Arc<Spec>> {
    let found = draft.get::<Spec>(&Key::Spec(Arc::clone(task)))?;
    let found = found.ok_or_else(|| StoreError::Corrupt(format!("the spec of {task} is missing")))?;
    if found.readable == Readable::ByNewer {
        let why = format!("{task}: only a newer version of Regatta can read it; use that version");
        return Err(StoreError::Refused(why).into());
    }
    Ok(found)
}

/// The claim on a held task.
pub(crate) fn claim_of(row: &Task, spec: TaskSpec, prompt: Option<Prompt>) -> Result<Claim> {
    let (Some(attempt), Some(session)) = (row.live_attempt(), &row.session) else {
        return Err(StoreError::Corrupt(format!("{} is held without an attempt", row.id)));
    };
    Ok(Claim {
        task: row.id.clone(),
        fence: row.fence,
        attempt,
        session: session.clone(),
        spec,
        charged: row.charged,
        environment_failures: row.environment_failures,
        prompt,
        standing: row.standing.clone(),
    })
}

fn advance_in(draft: &mut Draft<'_>, claim: &Claim, step: &Step, request: &RequestId) -> Rule<()> {
    let task = draft.require(&claim.task)?;
    if !draft.remember(request, "advance", Some(&task))? {
        return Ok(());
    }
    require_claim(draft, &task, claim)?;
    let (Step::LaneReady(attempt)
    | Step::Started { attempt, .. }
    | Step::Update(attempt)
    | Step::Exited { attempt, .. }
    | Step::Settled { attempt, .. }) = step;
    let row = draft.task(&task)?;
    if attempt.n != claim.attempt {
        return Err(StoreError::Invalid(format!(
            "the record is of attempt {}, the claim on {} of attempt {}",
            attempt.n, row.id, claim.attempt
        ))
        .into());
    }
    draft.put_attempt(&task, attempt)?;
    match step {
        Step::LaneReady(attempt) => {
            if !matches!(row.state, TaskState::Claimed { .. }) {
                let text = format!("{}: a {} task cannot get a lane", row.id, row.state.name());
                return Err(StoreError::Refused(text).into());
            }
            let lane = attempt.lane.as_ref().map(|lane| lane.display().to_string()).unwrap_or_default();
            let event = EventBody::LaneReady { lane, base: attempt.base.clone() };
            draft.append(Some(&row), Some(claim.attempt), &event)
        }
        Step::Started { pid, .. } => {
            draft.change(&task, &Change::Start { at: draft.at }, &EventBody::Started { pid: *pid })
        }
        Step::Update(_) => Ok(()),
        Step::Exited { exit, .. } => exited(draft, &task, exit),
        Step::Settled { attempt, outcome } => settle(draft, &task, attempt, outcome),
    }
}

/// Checks that the caller still owns what it writes.
fn require_claim(draft: &mut Draft<'_>, task: &Folded, claim: &Claim) -> Rule<()> {
    sessions::require_open(draft, &claim.session)?;
    let row = draft.task(task)?;
    let fenced = |why: String| Err(StoreError::Fenced(why).into());
    let Some(holder) = &row.session else {
        return fenced(format!("{} is no longer held, it is {}", row.id, row.state.name()));
    };
    if *holder != claim.session {
        return fenced(format!("{} is held by session {holder}", row.id));
    }
    if row.fence != claim.fence {
        return fenced(format!("{} has fence {} by now, the claim has {}", row.id, row.fence, claim.fence));
    }
    if row.live_attempt() != Some(claim.attempt) {
        return fenced(format!("{} is not in attempt {} any more", row.id, claim.attempt));
    }
    Ok(())
}

pub(crate) fn exited(draft: &mut Draft<'_>, task: &Folded, exit: &Exit) -> Rule<()> {
    draft.change(task, &Change::Exit { exit: exit.clone() }, &EventBody::Exited { exit: exit.clone() })
}

fn settle(draft: &mut Draft<'_>, task: &Folded, attempt: &Attempt, outcome: &Outcome) -> Rule<()> {
    let started = attempt.started_at.is_some();
    let row = draft.task(task)?;
    let answered = prompts::answers(outcome, started) || prompts::interrupts(&row, outcome, started);
    prompts::put_down(draft, task, answered)?;
    let goes_on = answered && prompts::waiting(draft, task)? > 0;
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
        exited(draft, task, attempt.exit.as_ref().unwrap_or(&Exit::Lost))?;
    }
    if let Some(verdict) = attempt.verdict {
        let judged = EventBody::Judged { verdict, summary: attempt.summary.clone() };
        draft.append(Some(&row), Some(attempt.n), &judged)?;
    }
    drop(row);
    let environment = matches!(outcome, Outcome::Park { why: ParkReason::Environment, .. });
    // An attempt that ended by itself, with whatever result, is not a loss.
    let is_end = !matches!(outcome, Outcome::Release { .. });
    let row = draft.edit_task(task)?;
    row.charged += u32::from(attempt.charged);
    row.environment_failures = if environment { row.environment_failures + 1 } else { 0 };
    if is_end {
        row.lost = 0;
    }
    if goes_on {
        forget_failures(draft, task)?;
    } else if let Outcome::Approve(request) = outcome {
        train::join(draft, task, attempt.n, request)?;
    }
    let asked = draft.edit_task(task)?.cancel_asked.take();
    draft.end_claim(task)?;
    draft.change(task, &change, &event)?;
    cancel_if_asked(draft, task, asked)?;
    skip_if_hopeless(draft, task)
}

/// Cancels a task that goes back to waiting although its cancellation was requested: it has no owner left to obey.
pub(crate) fn cancel_if_asked(draft: &mut Draft<'_>, task: &Folded, asked: Option<String>) -> Rule<()> {
    let Some(by) = asked else { return Ok(()) };
    match draft.task(task)?.state {
        TaskState::Pending { .. } | TaskState::Parked { .. } => {
            draft.change(task, &Change::Cancel { by: by.clone() }, &EventBody::Cancelled { by })
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
