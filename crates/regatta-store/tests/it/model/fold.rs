//! A task's state from its events alone, by the rules of the core.

use regatta_core::event::{Event, EventBody};
use regatta_core::state::{Change, TaskState, apply};
use regatta_core::train::LandStep;

/// The state that a task's events tell of.
pub(crate) fn fold(events: &[Event]) -> TaskState {
    let mut state = TaskState::pending();
    for (n, event) in events.iter().enumerate() {
        let Some(change) = change(&state, event, n == 0) else { continue };
        state = apply(&state, &change).unwrap_or_else(|illegal| panic!("{illegal}: {events:#?}"));
    }
    state
}

/// The change an event tells of; `None` for those that change nothing.
fn change(state: &TaskState, event: &Event, first: bool) -> Option<Change> {
    Some(match event.body.clone() {
        EventBody::Enqueued { .. } if first => return None,
        EventBody::Enqueued { .. } => Change::Requeue,
        EventBody::Claimed { .. } => {
            Change::Claim { attempt: event.attempt.expect("a claim has an attempt") }
        }
        EventBody::Started { .. } => Change::Start { at: event.at },
        EventBody::Exited { exit } => Change::Exit { exit },
        EventBody::Retrying { not_before, .. } => Change::Retry { not_before },
        EventBody::Released { .. } => Change::Release,
        EventBody::Parked { until, why, detail } => Change::Park { until, why, detail },
        EventBody::Due => Change::Due,
        EventBody::Approved { head } => match state {
            TaskState::Judging { .. } => Change::Approve { head },
            _ => Change::Board { attempt: event.attempt.expect("it was made by an attempt"), head },
        },
        EventBody::Done { head } => Change::Finish { head },
        EventBody::Landing { landing, target } => match landing {
            LandStep::Intend { .. }
            | LandStep::Gate { .. }
            | LandStep::Propose { .. }
            | LandStep::Proposed { .. }
            | LandStep::Merge { .. } => Change::Proceed,
            LandStep::Wait { why, held_by } => Change::Wait { why, held_by },
            LandStep::Landed { commit }
            | LandStep::AlreadyIn { commit }
            | LandStep::Merged { commit, .. } => Change::Land { commit, target },
            // Told by the event behind it.
            LandStep::Reject { .. } | LandStep::Tested { .. } => return None,
            LandStep::Bounce { .. } => Change::Bounce,
        },
        EventBody::Failed { why } => Change::Fail { why },
        EventBody::Blocked { reason, detail } => Change::Block { reason, detail },
        EventBody::Skipped { dependency, was } => Change::Skip { dependency, was },
        EventBody::Rearmed => Change::Rearm,
        EventBody::Cancelled { by } => Change::Cancel { by },
        EventBody::PromptQueued { rearmed: true, .. } | EventBody::FollowingUp { .. } => Change::FollowUp,
        EventBody::Stands { made_by, commit, target } => Change::Stand { attempt: made_by, commit, target },
        EventBody::LaneReady { .. }
        | EventBody::Progressed { .. }
        | EventBody::Reported { .. }
        | EventBody::Stuck { .. }
        | EventBody::Judged { .. }
        | EventBody::Adopted { .. }
        | EventBody::Salvaged { .. }
        | EventBody::ConflictAhead { .. }
        | EventBody::PromptQueued { rearmed: false, .. }
        | EventBody::Suspected { .. }
        | EventBody::WentOn { .. }
        | EventBody::BudgetWarned { .. }
        | EventBody::BudgetSpent { .. }
        | EventBody::MergeAllowed { .. }
        | EventBody::Noted { .. }
        | EventBody::Unserved { .. }
        | EventBody::Servable { .. }
        | EventBody::NodeJoined { .. }
        | EventBody::NodeLost { .. }
        | EventBody::TakenBack { .. }
        | EventBody::CancelAsked { .. }
        | EventBody::Assigned { .. }
        | EventBody::Unknown(_) => return None,
    })
}
