//! The train: the lander, the cars, and their steps.
//!
//! Invariant: a car exists exactly while its task is landing. Every step compares the lander's term and session with
//! the role's in its own plan, so that a replaced lander cannot move anything.

use std::sync::Arc;

use regatta_core::attempt::Evidence;
use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::state::{Change, TaskState};
use regatta_core::time::Timestamp;
use regatta_core::train::{CarStep, LandRequest, LandStep, Via};
use serde::Deserialize;

use super::dependents::skip_if_hopeless;
use super::record::{Folded, Holding, Kept, Key, Pass, SetKey, StoredCar, Task, Want, folded};
use super::{Call, Draft, Rule, era, prompts, sessions};
use crate::stored::{bounded, from_json};
use crate::{Lander, SessionId, StoreError};

/// Makes a session the holder of a role.
pub(crate) fn elect<'a>(role: &'a str, session: &'a SessionId) -> Call<'a, Option<Lander>> {
    let wants = move || {
        vec![
            Want::Record(Key::Session(session.clone())),
            Want::Record(Key::Role(role.to_owned())),
            Want::Record(era::key()),
        ]
    };
    Call::timeless(wants, move |draft| elect_in(draft, role, session))
}

/// Gives a role back.
pub(crate) fn resign(lander: &Lander) -> Call<'_, ()> {
    let key = Key::Role(lander.role.clone());
    let wants = vec![Want::Record(key.clone())];
    Call::timeless(
        move || wants.clone(),
        move |draft| {
            let held = draft.get::<Holding>(&key)?;
            let is_own = |held: &Arc<Holding>| {
                held.session.as_ref() == Some(&lander.session) && held.term == lander.term
            };
            if held.as_ref().is_some_and(is_own) {
                draft.edit::<Holding>(&key)?.session = None;
            }
            Ok(())
        },
    )
}

/// Takes steps of cars, all or none.
pub(crate) fn land_all<'a>(
    lander: &'a Lander,
    steps: &'a [(TaskId, LandStep)],
    at: Timestamp,
) -> Call<'a, ()> {
    Call::new(
        at,
        move || wants_of_steps(lander, steps),
        move |draft| {
            require_lander(draft, lander)?;
            steps.iter().try_for_each(|(task, step)| land(draft, lander, task, step))
        },
    )
}

/// Records that a tree passed a gate.
pub(crate) fn record_pass<'a>(gate: &'a str, tree: &'a Oid, at: Timestamp) -> Call<'a, ()> {
    let key = Key::Pass(gate.to_owned(), tree.clone());
    let wants = vec![Want::Record(key.clone())];
    Call::new(
        at,
        move || wants.clone(),
        move |draft| {
            if draft.has(&key)? {
                return Ok(());
            }
            draft.put(key.clone(), Pass { at }.record())
        },
    )
}

fn wants_of_steps(lander: &Lander, steps: &[(TaskId, LandStep)]) -> Vec<Want> {
    let mut wants = vec![
        Want::Record(Key::Session(lander.session.clone())),
        Want::Record(Key::Role(lander.role.clone())),
    ];
    for (task, step) in steps {
        let task = folded(task);
        wants.push(Want::Record(Key::Task(Arc::clone(&task))));
        wants.push(Want::Record(Key::Car(Arc::clone(&task))));
        match step {
            LandStep::Landed { .. } | LandStep::AlreadyIn { .. } | LandStep::Merged { .. } => {
                wants.push(Want::Set(SetKey::PromptsOf(Arc::clone(&task))));
                wants.push(Want::Set(SetKey::Children(task)));
            }
            LandStep::Reject { .. } => wants.push(Want::Set(SetKey::PromptsOf(task))),
            LandStep::Bounce { .. } => wants.push(Want::Record(Key::Deps(task))),
            LandStep::Intend { .. }
            | LandStep::Gate { .. }
            | LandStep::Tested { .. }
            | LandStep::Propose { .. }
            | LandStep::Proposed { .. }
            | LandStep::Merge { .. }
            | LandStep::Wait { .. } => {}
        }
    }
    wants
}

pub(crate) fn elect_in(draft: &mut Draft<'_>, role: &str, session: &SessionId) -> Rule<Option<Lander>> {
    sessions::require_open(draft, session)?;
    let key = Key::Role(role.to_owned());
    let held = holding(draft, role)?;
    let lander = |term: u64| Lander { role: role.to_owned(), session: session.clone(), term };
    match &held.session {
        Some(holder) if holder == session => return Ok(Some(lander(held.term))),
        Some(holder) if sessions::opened(draft, holder)?.is_some() => return Ok(None),
        _ => {}
    }
    let term = era::above(draft, held.term)?;
    draft.put(key, Holding { session: Some(session.clone()), term }.record())?;
    Ok(Some(lander(term)))
}

/// Who holds a role.
pub(crate) fn holding(draft: &mut Draft<'_>, role: &str) -> Rule<Holding> {
    let held = draft.get::<Holding>(&Key::Role(role.to_owned()))?;
    Ok(held.map_or_else(Holding::default, |held| (*held).clone()))
}

pub(crate) fn require_lander(draft: &mut Draft<'_>, lander: &Lander) -> Rule<()> {
    sessions::require_open(draft, &lander.session)?;
    let Holding { session, term } = holding(draft, &lander.role)?;
    if session.as_ref() == Some(&lander.session) && term == lander.term {
        return Ok(());
    }
    let text = format!("{} is in term {term} by now, not in {}", lander.role, lander.term);
    Err(StoreError::Fenced(text).into())
}

/// A new car at the end of its train.
pub(crate) fn join(draft: &mut Draft<'_>, task: &Folded, attempt: u32, request: &LandRequest) -> Rule<()> {
    let car = StoredCar {
        target: request.target.clone(),
        attempt,
        request: bounded("the request to land", request)?,
        step: CarStep::Queued,
    };
    draft.touch_task(task)?;
    draft.put(Key::Car(Arc::clone(task)), car.record())
}

pub(crate) fn leave(draft: &mut Draft<'_>, task: &Folded) -> Rule<()> {
    draft.delete(Key::Car(Arc::clone(task)))
}

pub(crate) fn car_of(draft: &mut Draft<'_>, task: &Folded) -> Rule<Option<Arc<StoredCar>>> {
    draft.get(&Key::Car(Arc::clone(task)))
}

fn land(draft: &mut Draft<'_>, lander: &Lander, id: &TaskId, step: &LandStep) -> Rule<()> {
    let task = &draft.require(id)?;
    let row = draft.task(task)?;
    let Some(car) = car_of(draft, task)? else {
        let is_past = is_history(&row.state, step)
            || row.standing.as_ref().is_some_and(|stands| is_history(stands, step))
            || was_followed_up(draft, task, step)?;
        return if is_past { Ok(()) } else { Err(contradicts(&row, step, "has no car").into()) };
    };
    let target = car.target.clone();
    if lander.role != role_of(&car)? {
        let text = format!("{id} lands on {target}, which is not for {}", lander.role);
        return Err(StoreError::Invalid(text).into());
    }
    let event = EventBody::Landing { landing: step.clone(), target: Some(target.clone()) };
    match step {
        LandStep::Intend { intent } => {
            if matches!(&car.step, CarStep::Intended { intent: now } if now == intent) {
                return Ok(());
            }
            put_step(draft, task, CarStep::Intended { intent: intent.clone() })?;
            draft.change(task, &Change::Proceed, &event)
        }
        LandStep::Gate { candidate, .. } => match &car.step {
            CarStep::Intended { intent } => {
                let gated = CarStep::Gated { intent: intent.clone(), candidate: candidate.clone() };
                put_step(draft, task, gated)?;
                draft.change(task, &Change::Proceed, &event)
            }
            CarStep::Gated { candidate: now, .. } if now == candidate => Ok(()),
            CarStep::Gated { .. } => Err(contradicts(&row, step, "has another candidate").into()),
            CarStep::Queued => Err(contradicts(&row, step, "has no intent yet").into()),
            CarStep::Proposing { .. } | CarStep::Proposed { .. } | CarStep::Merging { .. } => {
                Err(contradicts(&row, step, "has a pull request").into())
            }
        },
        LandStep::Propose { head, .. } => match &car.step {
            CarStep::Proposing { head: now } if now == head => Ok(()),
            CarStep::Merging { .. } => Err(contradicts(&row, step, "is being merged").into()),
            _ => {
                put_step(draft, task, CarStep::Proposing { head: head.clone() })?;
                draft.change(task, &Change::Proceed, &event)
            }
        },
        LandStep::Proposed { head, .. } => match &car.step {
            CarStep::Proposed { head: now } if now == head => Ok(()),
            CarStep::Proposing { head: now } | CarStep::Merging { head: now, .. } if now == head => {
                put_step(draft, task, CarStep::Proposed { head: head.clone() })?;
                draft.change(task, &Change::Proceed, &event)
            }
            _ => Err(contradicts(&row, step, "was to be proposed at another commit").into()),
        },
        LandStep::Merge { head, method } => match &car.step {
            CarStep::Proposed { head: now } if now == head => {
                put_step(draft, task, CarStep::Merging { head: head.clone(), method: *method })?;
                draft.change(task, &Change::Proceed, &event)
            }
            CarStep::Merging { head: now, method: by } if now == head && by == method => Ok(()),
            _ => Err(contradicts(&row, step, "is not proposed at this commit").into()),
        },
        LandStep::Merged { commit, .. } => landed(draft, task, commit, target, &event),
        LandStep::Tested { .. } => draft.note(task, &event),
        LandStep::Wait { why, held_by } => {
            if matches!(&row.state, TaskState::Landing { waiting: Some(now), .. } if now == why) {
                return Ok(());
            }
            draft.change(task, &Change::Wait { why: why.clone(), held_by: *held_by }, &event)
        }
        LandStep::Landed { commit } => match &car.step {
            CarStep::Gated { candidate, .. } if candidate == commit => {
                landed(draft, task, commit, target, &event)
            }
            CarStep::Gated { .. } => Err(contradicts(&row, step, "was tested as another commit").into()),
            _ => Err(contradicts(&row, step, "has not passed its gate").into()),
        },
        LandStep::AlreadyIn { commit } => landed(draft, task, commit, target, &event),
        LandStep::Bounce { onto, files, theirs, .. } => {
            leave(draft, task)?;
            if let Some(n) = row.live_attempt() {
                let bounced =
                    Evidence::Bounced { onto: onto.clone(), files: files.clone(), theirs: theirs.clone() };
                if let Some(mut attempt) = draft.attempt(task, n)? {
                    attempt.evidence.push(bounced);
                    draft.put_attempt(task, &attempt)?;
                }
            }
            draft.change(task, &Change::Bounce, &event)?;
            skip_if_hopeless(draft, task)
        }
        LandStep::Reject { reason, detail, .. } => {
            leave(draft, task)?;
            draft.note(task, &event)?;
            if prompts::waiting(draft, task)? > 0 {
                return prompts::follow_up(draft, task, format!("blocked ({reason}): {detail}"));
            }
            let change = Change::Block { reason: *reason, detail: detail.clone() };
            draft.change(task, &change, &EventBody::Blocked { reason: *reason, detail: detail.clone() })
        }
    }
}

/// The role of the lander that moves a car. Pull requests have their own: no other car waits for their server.
fn role_of(car: &StoredCar) -> Rule<String> {
    #[derive(Deserialize)]
    struct Way {
        #[serde(default)]
        via: Via,
    }
    let Way { via } = from_json("a request to land", &car.request)?;
    Ok(match via {
        Via::Pr => format!("forge:{}", car.target),
        Via::Here | Via::Push => format!("train:{}", car.target),
    })
}

fn put_step(draft: &mut Draft<'_>, task: &Folded, step: CarStep) -> Rule<()> {
    draft.edit::<StoredCar>(&Key::Car(Arc::clone(task)))?.step = step;
    Ok(())
}

/// Whether a step that ends a landing has already been taken, with the same result.
fn is_history(state: &TaskState, step: &LandStep) -> bool {
    match (state, step) {
        (
            TaskState::Landed { commit: now, .. },
            LandStep::Landed { commit } | LandStep::AlreadyIn { commit } | LandStep::Merged { commit, .. },
        ) => now == commit,
        (TaskState::Pending { .. }, LandStep::Bounce { .. }) => true,
        (TaskState::Blocked { reason: now, detail: said }, LandStep::Reject { reason, detail, .. }) => {
            now == reason && said == detail
        }
        _ => false,
    }
}

/// Whether a follow-up made the task pending after this refusal.
fn was_followed_up(draft: &mut Draft<'_>, task: &Folded, step: &LandStep) -> Rule<bool> {
    let refused = matches!(step, LandStep::Reject { .. } | LandStep::Bounce { .. });
    let is_pending = matches!(draft.task(task)?.state, TaskState::Pending { .. });
    Ok(refused && is_pending && prompts::waiting(draft, task)? > 0)
}

/// It has landed; waiting follow-ups continue from there.
fn landed(draft: &mut Draft<'_>, task: &Folded, commit: &Oid, target: String, event: &EventBody) -> Rule<()> {
    leave(draft, task)?;
    draft.change(task, &Change::Land { commit: commit.clone(), target: Some(target) }, event)?;
    match prompts::waiting(draft, task)? {
        0 => Ok(()),
        _ => prompts::follow_up(draft, task, "landed".to_owned()),
    }
}

fn contradicts(row: &Task, step: &LandStep, why: &str) -> StoreError {
    StoreError::Conflict(format!(
        "{} ({}) {why}, so the step {} does not apply",
        row.id,
        row.state.name(),
        step.name()
    ))
}
