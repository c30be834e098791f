//! The board of a reviewer: who acts next on a task.

use super::pull::Column;
use crate::state::{BlockReason, ParkReason, TaskState};
use crate::train::{CarStep, HeldBy};

/// What is known of a task.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// Its state, with what holds its car.
    pub state: &'a TaskState,
    /// Whether the links of its chain judge its finished work, and land it.
    pub is_judged: bool,
    /// The step of its car.
    pub step: Option<&'a CarStep>,
    /// The column of its pull request, as the last look showed it.
    pub pull: Option<Column>,
}

/// The column of a task; `None` once nothing is left to do about it.
pub fn column_of(task: &Standing<'_>) -> Option<Column> {
    Some(match task.state {
        TaskState::Pending { .. }
        | TaskState::Claimed { .. }
        | TaskState::Running { .. }
        | TaskState::Judging { .. } => Column::Working,
        // It comes back by itself, unless a person put it aside.
        TaskState::Parked { why: ParkReason::Operator, .. } => Column::NeedsYou,
        TaskState::Parked { .. } => Column::Working,
        // Its builder gets the findings by itself.
        TaskState::Blocked { reason: BlockReason::Changes, .. } => Column::Working,
        TaskState::Blocked { .. } | TaskState::Failed { .. } => Column::NeedsYou,
        TaskState::Done { head: Some(_), .. } if task.is_judged => Column::Working,
        // Nobody has landed it.
        TaskState::Done { head: Some(_), .. } => Column::NeedsYou,
        TaskState::Landing { waiting, held_by, .. } => in_train(task, waiting.as_ref().map(|_| *held_by)),
        TaskState::Done { head: None, .. }
        | TaskState::Landed { .. }
        | TaskState::Cancelled { .. }
        | TaskState::Skipped { .. } => return None,
    })
}

/// The column of a task with a car, given what holds it.
fn in_train(task: &Standing<'_>, held_by: Option<HeldBy>) -> Column {
    match (held_by, task.step) {
        (Some(HeldBy::Changes | HeldBy::Operation | HeldBy::Lock | HeldBy::Person | HeldBy::Other), _) => {
            Column::NeedsYou
        }
        (Some(HeldBy::Review), _) => Column::InReview,
        (Some(HeldBy::Ready), _) => Column::ReadyToMerge,
        (_, Some(CarStep::Merging { .. } | CarStep::Gated { .. })) => Column::ReadyToMerge,
        // The forge may be out of reach, or others are merged first: what the last look showed still holds.
        (Some(HeldBy::Forge), Some(CarStep::Proposed { .. })) => task.pull.unwrap_or(Column::InReview),
        (None, Some(CarStep::Proposed { .. })) => Column::InReview,
        (_, Some(CarStep::Queued | CarStep::Intended { .. } | CarStep::Proposing { .. }) | None) => {
            Column::Working
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use crate::id::TaskId;
    use crate::oid::Oid;
    use crate::time::Timestamp;
    use crate::train::{Intent, Strategy};

    fn at() -> Timestamp {
        Timestamp::from_millis(0)
    }

    fn head() -> Oid {
        Oid::sample("h1")
    }

    fn column(state: &TaskState) -> &'static str {
        title(&Standing { state, is_judged: false, step: None, pull: None })
    }

    fn title(task: &Standing<'_>) -> &'static str {
        column_of(task).map_or("over", Column::title)
    }

    #[test]
    fn the_state_decides_outside_the_train() {
        let blocked = |reason| TaskState::Blocked { reason, detail: String::new() };
        let parked = |why| TaskState::Parked { until: at(), why, detail: String::new() };
        let done = |head| TaskState::Done { attempt: 1, head };
        let rows = [
            (TaskState::pending(), "Working"),
            (TaskState::Claimed { attempt: 1 }, "Working"),
            (TaskState::Running { attempt: 1, since: at() }, "Working"),
            (TaskState::Judging { attempt: 1, exit: Exit::Exited { code: 0 } }, "Working"),
            (parked(ParkReason::RateLimited), "Working"),
            (parked(ParkReason::Environment), "Working"),
            (parked(ParkReason::Budget), "Working"),
            (parked(ParkReason::Operator), "Needs you"),
            (blocked(BlockReason::Changes), "Working"),
            (blocked(BlockReason::Verdict), "Needs you"),
            (blocked(BlockReason::NeedsInput), "Needs you"),
            (blocked(BlockReason::Conflict), "Needs you"),
            (blocked(BlockReason::Declined), "Needs you"),
            (TaskState::Failed { why: String::new() }, "Needs you"),
            (done(Some(head())), "Needs you"),
            (done(None), "over"),
            (TaskState::Landed { attempt: 1, commit: head(), target: None }, "over"),
            (TaskState::Cancelled { by: "ada".to_owned() }, "over"),
            (TaskState::Skipped { dependency: TaskId::parse("a").unwrap(), was: None }, "over"),
        ];
        for (state, expected) in rows {
            assert_eq!(column(&state), expected, "{state:?}");
        }
        let state = done(Some(head()));
        assert_eq!(title(&Standing { state: &state, is_judged: true, step: None, pull: None }), "Working");
    }

    #[test]
    fn in_the_train_what_holds_the_car_decides_and_then_its_step() {
        let intent = || Intent { onto: None, at: at() };
        let queued = CarStep::Queued;
        let intended = CarStep::Intended { intent: intent() };
        let gated = CarStep::Gated { intent: intent(), candidate: head() };
        let proposing = CarStep::Proposing { head: head() };
        let proposed = CarStep::Proposed { head: head() };
        let merging = CarStep::Merging { head: head(), method: Strategy::Squash };
        let rows = [
            (&queued, None, None, "Working"),
            (&intended, None, None, "Working"),
            (&gated, None, None, "Ready to merge"),
            (&proposing, None, None, "Working"),
            (&proposing, Some(HeldBy::Forge), None, "Working"),
            (&proposed, None, None, "In review"),
            // What is shown of an older commit does not count for the new one.
            (&proposed, None, Some(Column::NeedsYou), "In review"),
            (&proposed, Some(HeldBy::Forge), None, "In review"),
            (&proposed, Some(HeldBy::Forge), Some(Column::InReview), "In review"),
            (&proposed, Some(HeldBy::Forge), Some(Column::Working), "Working"),
            (&proposed, Some(HeldBy::Forge), Some(Column::ReadyToMerge), "Ready to merge"),
            (&proposed, Some(HeldBy::Review), Some(Column::ReadyToMerge), "In review"),
            (&proposed, Some(HeldBy::Ready), None, "Ready to merge"),
            (&proposed, Some(HeldBy::Person), Some(Column::InReview), "Needs you"),
            (&merging, None, None, "Ready to merge"),
            (&merging, Some(HeldBy::Forge), None, "Ready to merge"),
            (&gated, Some(HeldBy::Changes), None, "Needs you"),
            (&gated, Some(HeldBy::Operation), None, "Needs you"),
            (&gated, Some(HeldBy::Lock), None, "Needs you"),
            (&queued, Some(HeldBy::Other), None, "Needs you"),
        ];
        for (step, held_by, pull, expected) in rows {
            let state = TaskState::Landing {
                attempt: 1,
                head: head(),
                waiting: held_by.map(|_| "something".to_owned()),
                held_by: held_by.unwrap_or_default(),
            };
            let task = Standing { state: &state, is_judged: false, step: Some(step), pull };
            assert_eq!(title(&task), expected, "{step:?} {held_by:?} {pull:?}");
        }
    }
}
