//! Events that callers append.

use std::sync::Arc;

use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;

use super::record::{Key, Task, Want, folded};
use super::{Call, Draft, Rule};
use crate::{RequestId, StoreError};

/// Appends an event from a caller, once.
pub(crate) fn append<'a>(
    task: Option<&'a TaskId>,
    attempt: Option<u32>,
    body: &'a EventBody,
    request: &'a RequestId,
    at: Timestamp,
) -> Call<'a, ()> {
    let wants = move || {
        let task = task.map(folded);
        let request = Want::Record(Key::Request(request.clone(), "append", task.clone()));
        task.map(|task| Want::Record(Key::Task(task))).into_iter().chain([request]).collect()
    };
    Call::new(at, wants, move |draft| append_in(draft, task, attempt, body, request))
}

fn append_in(
    draft: &mut Draft<'_>,
    task: Option<&TaskId>,
    attempt: Option<u32>,
    body: &EventBody,
    request: &RequestId,
) -> Rule<()> {
    if changes_state(body) {
        return Err(StoreError::Invalid(
            "such an event is written by the store itself, together with the state it tells of".into(),
        )
        .into());
    }
    let name = task.map(folded);
    let row = match (task, &name) {
        // Tasks never disappear, and the event says nothing about its state.
        (Some(task), Some(name)) => match draft.peek::<Task>(&Key::Task(Arc::clone(name)))? {
            Some(row) => Some(row),
            None => return Err(StoreError::NotFound(format!("task {task}")).into()),
        },
        _ => None,
    };
    if !draft.remember(request, "append", name.as_ref())? {
        return Ok(());
    }
    draft.append(row.as_deref(), attempt, body)
}

/// Whether an event is part of the history that makes up the state of a task or a node.
fn changes_state(body: &EventBody) -> bool {
    match body {
        EventBody::Enqueued { .. }
        | EventBody::Claimed { .. }
        | EventBody::Started { .. }
        | EventBody::Exited { .. }
        | EventBody::Retrying { .. }
        | EventBody::Released { .. }
        | EventBody::Parked { .. }
        | EventBody::Due
        | EventBody::Approved { .. }
        | EventBody::Done { .. }
        | EventBody::Landing { .. }
        | EventBody::Failed { .. }
        | EventBody::Blocked { .. }
        | EventBody::Skipped { .. }
        | EventBody::Rearmed
        | EventBody::Cancelled { .. }
        | EventBody::CancelAsked { .. }
        | EventBody::Assigned { .. }
        | EventBody::PromptQueued { .. }
        | EventBody::FollowingUp { .. }
        | EventBody::Stands { .. }
        | EventBody::Adopted { .. }
        | EventBody::NodeJoined { .. }
        | EventBody::NodeLost { .. } => true,
        EventBody::LaneReady { .. }
        | EventBody::Progressed { .. }
        | EventBody::Reported { .. }
        | EventBody::Stuck { .. }
        | EventBody::Judged { .. }
        | EventBody::ConflictAhead { .. }
        | EventBody::Suspected { .. }
        | EventBody::WentOn { .. }
        | EventBody::BudgetWarned { .. }
        | EventBody::BudgetSpent { .. }
        | EventBody::Salvaged { .. }
        | EventBody::TakenBack { .. }
        | EventBody::Unserved { .. }
        | EventBody::Servable { .. }
        | EventBody::MergeAllowed { .. }
        | EventBody::Noted { .. }
        | EventBody::Unknown(_) => false,
    }
}
