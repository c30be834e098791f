//! Operations on tasks that no session holds.

use std::sync::Arc;

use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::node::{Fact, Requirement};
use regatta_core::state::{Change, ParkReason, TaskState};
use regatta_core::time::{Timestamp, counted};
use regatta_core::train::LandRequest;
use serde_json::{Map, Value};

use super::dependents::dead_dependency;
use super::record::{Folded, Kept, Key, SetKey, Spec, StoredAttempt, Want, folded};
use super::{Call, Draft, Rule, claims, train};
use crate::stored::{Readable, bounded, from_json, to_json};
use crate::{Operation, RequestId, StoreError};

/// Carries out an operation.
pub(crate) fn operate<'a>(
    task: &'a TaskId,
    operation: &'a Operation,
    request: &'a RequestId,
    at: Timestamp,
) -> Call<'a, ()> {
    Call::new(
        at,
        move || wants(task, operation, request),
        move |draft| operate_in(draft, task, operation, request),
    )
}

fn wants(task: &TaskId, operation: &Operation, request: &RequestId) -> Vec<Want> {
    let task = folded(task);
    let mut wants = vec![
        Want::Record(Key::Task(Arc::clone(&task))),
        Want::Record(Key::Request(request.clone(), "operate", Some(Arc::clone(&task)))),
    ];
    match operation {
        Operation::Cancel { .. } => wants.push(Want::Fall(task)),
        Operation::Requeue { .. } => {
            wants.extend([Want::Record(Key::Deps(Arc::clone(&task))), Want::Rise(task)]);
        }
        Operation::Retry { .. } => wants.extend([
            Want::Record(Key::Deps(Arc::clone(&task))),
            Want::Record(Key::Spec(Arc::clone(&task))),
            Want::Rise(task),
        ]),
        Operation::Land { .. } => wants.push(Want::Record(Key::Car(task))),
        Operation::Accept { attempt, .. } => wants
            .extend([Want::Record(Key::Attempt(Arc::clone(&task), *attempt)), Want::Record(Key::Car(task))]),
        Operation::EndConversations => wants.push(Want::Set(SetKey::AttemptsOf(task))),
        Operation::Assign { .. } => wants.push(Want::Record(Key::Spec(task))),
        Operation::AskCancel { .. } | Operation::Due | Operation::Park { .. } => {}
    }
    wants
}

fn operate_in(draft: &mut Draft<'_>, task: &TaskId, operation: &Operation, request: &RequestId) -> Rule<()> {
    let task = draft.require(task)?;
    if !draft.remember(request, "operate", Some(&task))? {
        return Ok(());
    }
    draft.touch_task(&task)?;
    if let Operation::AskCancel { by } = operation {
        return ask_cancel(draft, &task, by);
    }
    let row = draft.task(&task)?;
    if row.state.is_claimed() {
        let text = format!("{}: a {} task is its holder's to change", row.id, row.state.name());
        return Err(StoreError::Refused(text).into());
    }
    match operation {
        Operation::AskCancel { .. } => Ok(()),
        Operation::Cancel { by } => cancel(draft, &task, by),
        Operation::Requeue { by } => requeue(draft, &task, by),
        Operation::Retry { by } => retry(draft, &task, by),
        Operation::Land { by, attempt, request } => {
            let head = request.head.clone();
            let change = Change::Board { attempt: *attempt, head: head.clone() };
            let event = EventBody::Noted { text: format!("sent to the train by {by}") };
            draft.append(Some(&row), Some(*attempt), &event)?;
            draft.change(&task, &change, &EventBody::Approved { head })?;
            train::join(draft, &task, *attempt, request)
        }
        Operation::Accept { by, attempt, request } => {
            let head = request.head.clone();
            let change = Change::Accept { attempt: *attempt, head: head.clone() };
            let event = EventBody::Noted { text: format!("accepted by {by} despite its verdict") };
            draft.append(Some(&row), Some(*attempt), &event)?;
            draft.change(&task, &change, &EventBody::Approved { head })?;
            keep_commits(draft, &task, *attempt, request)?;
            train::join(draft, &task, *attempt, request)
        }
        Operation::EndConversations => {
            for key in draft.members(&SetKey::AttemptsOf(Arc::clone(&task)))? {
                amend(draft, key, &[("conversation_over", Value::Bool(true))])?;
            }
            Ok(())
        }
        Operation::Due => draft.change(&task, &Change::Due, &EventBody::Due),
        Operation::Park { until, detail } => {
            let (until, why, detail) = (*until, ParkReason::Operator, detail.clone());
            let event = EventBody::Parked { until, why, detail: detail.clone() };
            draft.change(&task, &Change::Park { until, why, detail }, &event)
        }
        Operation::Assign { node, by } => assign(draft, &task, node.as_deref(), by),
    }
}

/// Replaces the node that the task requires.
fn assign(draft: &mut Draft<'_>, task: &Folded, node: Option<&str>, by: &str) -> Rule<()> {
    let row = draft.task(task)?;
    if matches!(
        row.state,
        TaskState::Done { .. }
            | TaskState::Landed { .. }
            | TaskState::Landing { .. }
            | TaskState::Cancelled { .. }
    ) {
        let text = format!("{}: a {} task is not assigned to a node", row.id, row.state.name());
        return Err(StoreError::Refused(text).into());
    }
    if let Some(why) = row.left_to_newer() {
        return Err(StoreError::Refused(format!("{}: {why}", row.id)).into());
    }
    let stored = claims::spec(draft, task)?;
    let mut spec = stored.spec.clone();
    spec.requires.retain(|requirement| !matches!(requirement, Requirement::Is { fact: Fact::Node, .. }));
    spec.requires.extend(node.map(Requirement::node));
    // The rest stays as it is stored, with all that only a newer version knows.
    let mut fields: Map<String, Value> = from_json("a spec", &stored.body)?;
    fields.insert("requires".to_owned(), serde_json::json!(spec.requires));
    let body = bounded(&format!("the task {}", row.id), &fields)?;
    draft.put(Key::Spec(Arc::clone(task)), Spec { spec, body, readable: Readable::Whole }.record())?;
    let (node, by) = (node.map(str::to_owned), by.to_owned());
    draft.append(Some(&row), None, &EventBody::Assigned { node, by })
}

/// The attempt names the commits that a user accepted.
fn keep_commits(draft: &mut Draft<'_>, task: &Folded, attempt: u32, request: &LandRequest) -> Rule<()> {
    let text = |oid: &regatta_core::oid::Oid| Value::String(oid.as_str().to_owned());
    let fields = [("base", text(&request.base)), ("head", text(&request.head))];
    amend(draft, Key::Attempt(Arc::clone(task), attempt), &fields)
}

/// Sets fields of an attempt's record as it is stored, and leaves alone what only a newer version knows.
fn amend(draft: &mut Draft<'_>, key: Key, fields: &[(&str, Value)]) -> Rule<()> {
    let Some(stored) = draft.get::<StoredAttempt>(&key)? else { return Ok(()) };
    let mut record: Map<String, Value> = from_json("an attempt", &stored.body)?;
    for (field, value) in fields {
        record.insert((*field).to_owned(), value.clone());
    }
    let body = to_json(&record);
    draft.put(key, StoredAttempt::read("an attempt", body)?.record())
}

fn ask_cancel(draft: &mut Draft<'_>, task: &Folded, by: &str) -> Rule<()> {
    let row = draft.task(task)?;
    if !row.state.is_claimed() {
        return Err(StoreError::Refused(format!(
            "{}: a {} task is not held, so there is no one to ask",
            row.id,
            row.state.name()
        ))
        .into());
    }
    draft.edit_task(task)?.cancel_asked = Some(by.to_owned());
    draft.note(task, &EventBody::CancelAsked { by: by.to_owned() })
}

fn cancel(draft: &mut Draft<'_>, task: &Folded, by: &str) -> Rule<()> {
    let row = draft.task(task)?;
    if let TaskState::Landing { .. } = row.state {
        // The ref may have been moved already, or the pull request merged.
        if train::car_of(draft, task)?.is_some_and(|car| car.step.may_have_landed()) {
            return Err(StoreError::Refused(format!("{}: it is being landed at this moment", row.id)).into());
        }
        train::leave(draft, task)?;
    }
    draft.change(task, &Change::Cancel { by: by.to_owned() }, &EventBody::Cancelled { by: by.to_owned() })
}

fn retry(draft: &mut Draft<'_>, task: &Folded, by: &str) -> Rule<()> {
    let row = draft.task(task)?;
    if !matches!(row.state, TaskState::Failed { .. } | TaskState::Blocked { .. }) {
        let text = format!("{}: a {} task cannot be retried", row.id, row.state.name());
        return Err(StoreError::Refused(text).into());
    }
    let most = claims::spec(draft, task)?.spec.max_attempts;
    if row.charged >= most {
        return Err(StoreError::Refused(format!(
            "{}: it has failed {} of {}",
            row.id,
            row.charged,
            counted(most, "time")
        ))
        .into());
    }
    // A user who asks for it has seen why its holders were lost.
    draft.edit_task(task)?.lost = 0;
    again(draft, task, by)
}

fn requeue(draft: &mut Draft<'_>, task: &Folded, by: &str) -> Rule<()> {
    forget_failures(draft, task)?;
    again(draft, task, by)
}

fn again(draft: &mut Draft<'_>, task: &Folded, by: &str) -> Rule<()> {
    let row = draft.task(task)?;
    if let Some((dependency, _)) = dead_dependency(draft, task)? {
        return Err(StoreError::Refused(format!(
            "{}: it depends on {dependency}, which did not succeed; requeue that first",
            row.id
        ))
        .into());
    }
    draft.change(task, &Change::Requeue, &EventBody::Enqueued { queue: row.queue.clone() })?;
    draft.append(Some(&row), None, &EventBody::Noted { text: format!("requeued by {by}") })
}

/// A fresh start: attempts keep counting up, none of them is charged.
pub(crate) fn forget_failures(draft: &mut Draft<'_>, task: &Folded) -> Rule<()> {
    let row = draft.edit_task(task)?;
    row.charged = 0;
    row.environment_failures = 0;
    row.lost = 0;
    Ok(())
}
