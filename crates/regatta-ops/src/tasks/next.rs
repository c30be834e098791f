//! What can be done with a task now, by its state: acts for programs, a sentence for people.

use std::path::Path;

use regatta_core::part::Part;
use regatta_core::state::{BlockReason, TaskState};
use regatta_core::train::HeldBy;
use regatta_store::{BOARD_QUEUE, MAIN_QUEUE, TaskRecord};

use super::park::waits_for_a_word;
use crate::project::shown;
use crate::step::Act;

/// The file that the task came from.
fn plan_file(task: &TaskRecord) -> String {
    match task.spec.source.rsplit_once(':') {
        Some((file, _)) if !file.is_empty() => shown(Path::new(file)),
        _ => "PLAN".to_owned(),
    }
}

/// Who takes the task over if its holder is gone.
pub fn heir(task: &TaskRecord) -> String {
    match task.queue.as_str() {
        MAIN_QUEUE => "`regatta daemon`".to_owned(),
        BOARD_QUEUE => format!("`regatta task claim {}`", task.spec.id),
        _ => format!("`regatta run --resume {}`", plan_file(task)),
    }
}

/// How to try the task again.
fn again(task: &TaskRecord) -> String {
    match task.queue.as_str() {
        MAIN_QUEUE => format!("`regatta retry {}`", task.spec.id),
        BOARD_QUEUE => format!("`regatta task retry {}`", task.spec.id),
        _ => heir(task),
    }
}

/// What can be done with a task now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// The acts that its state allows, the most useful first. Refusals offer them.
    pub acts: &'static [Act],
    /// What a person should do, with the commands spelled out. `None` if nothing is left to do.
    pub advice: Option<String>,
}

/// What can be done with a task now: the one table behind every refusal and every screen. `ran` says whether it has
/// attempts.
pub fn next(task: &TaskRecord, ran: bool) -> Next {
    let id = &task.spec.id;
    let again = again(task);
    let (acts, advice): (&'static [Act], String) = match &task.state {
        TaskState::Pending { .. } => {
            let advice = match task.waiting_on.first() {
                Some(on) => format!("look at what it waits for: `{}`", Act::Status.command(on)),
                None if !task.spec.requires.is_empty() => {
                    "a running node that has what it requires takes it; `regatta node list` shows all nodes"
                        .into()
                }
                None => format!("{} runs it, unless one is already running", heir(task)),
            };
            (&[Act::Status, Act::Cancel], advice)
        }
        TaskState::Claimed { .. } | TaskState::Running { .. } => (
            &[Act::Wait, Act::Cancel],
            format!("`{}` follows it; `{}` ends it", Act::Follow.command(id), Act::Cancel.command(id)),
        ),
        TaskState::Judging { .. } => (
            &[Act::Wait, Act::Cancel],
            format!("`{}` shows the verdict when it comes", Act::Events.command(id)),
        ),
        TaskState::Landing { waiting: Some(_), held_by, .. } => (
            &[Act::Wait],
            format!(
                "{}, then `{}` lands it; a running daemon or run does so by itself",
                make_way(*held_by),
                Act::Land.command(id)
            ),
        ),
        TaskState::Landing { .. } => {
            (&[Act::Wait], format!("`{}` shows when it lands", Act::Events.command(id)))
        }
        TaskState::Done { head, .. } => {
            let land = Act::Land.command(id);
            let advice = match (head, &task.spec.part) {
                (Some(_), Some(Part::Builder { lands: true, .. })) => Some(format!(
                    "its links are checking it (`regatta list`); it lands when they pass, or now with `{land}`"
                )),
                (Some(_), _) if !task.spec.land => {
                    Some(format!("`{}` shows the work; `{land}` lands it", Act::Diff.command(id)))
                }
                _ => None,
            };
            return Next { acts: &[Act::Land, Act::Requeue], advice };
        }
        TaskState::Landed { .. } => return Next { acts: &[Act::Requeue], advice: None },
        TaskState::Failed { .. } if ran => (
            &[Act::Retry, Act::Requeue],
            format!("`{}` shows why; {again} tries again", Act::Logs.command(id)),
        ),
        TaskState::Failed { .. } | TaskState::Cancelled { .. } => {
            (&[Act::Retry, Act::Requeue], format!("{again} tries again"))
        }
        TaskState::Skipped { dependency, .. } => (
            &[Act::Status],
            format!(
                "`{}` shows why it did not succeed; {again} tries both again",
                Act::Status.command(dependency)
            ),
        ),
        TaskState::Parked { .. } => (&[Act::Unpark, Act::Cancel], parked(task)),
        TaskState::Blocked { reason, .. } => (&[Act::Retry, Act::Requeue], blocked(task, *reason, &again)),
    };
    Next { acts, advice: Some(advice) }
}

/// What lets a car land that waits. The reason itself is shown with the state.
fn make_way(held_by: HeldBy) -> &'static str {
    match held_by {
        HeldBy::Changes => "commit or stash the changes (`git stash -u` includes untracked files)",
        HeldBy::Operation => "finish what git has begun in the checkout, or abort it",
        HeldBy::Lock => "wait for the other git process, or close it; if none is running, remove its lock",
        HeldBy::Forge => "nothing: it goes on by itself",
        HeldBy::Review => "review its pull request, or ask for a review",
        HeldBy::Ready => "merge its pull request, or run `regatta merge`",
        HeldBy::Person | HeldBy::Other => "resolve what it waits for",
    }
}

fn parked(task: &TaskRecord) -> String {
    let id = &task.spec.id;
    let (unpark, cancel) = (Act::Unpark.command(id), Act::Cancel.command(id));
    let until = match &task.state {
        TaskState::Parked { until, .. } if !waits_for_a_word(&task.state) => crate::when::moment(*until),
        _ => return format!("`{unpark}` lets it start, `{cancel}` cancels it"),
    };
    let taker = match task.queue.as_str() {
        MAIN_QUEUE | BOARD_QUEUE => heir(task),
        _ => format!("its run, or {} once that is over,", heir(task)),
    };
    format!("nothing: {taker} takes it up at {until}; `{unpark}` does so now, `{cancel}` cancels it")
}

fn blocked(task: &TaskRecord, reason: BlockReason, again: &str) -> String {
    let id = &task.spec.id;
    let (diff, logs) = (Act::Diff.command(id), Act::Logs.command(id));
    match reason {
        BlockReason::Conflict => {
            let branch = id.branch();
            format!(
                "`{diff}` and `git log {branch}` show its work; merge {branch} by hand, or {again} redoes it on top of what \
                 has landed since"
            )
        }
        BlockReason::Tests => {
            format!("`{diff}` shows the work that failed; fix the tests or the task, then {again}")
        }
        BlockReason::Verdict => format!(
            "`{logs}` and `{diff}` show what it did; {again} tries again, `{}` lands it as it is",
            Act::Accept.command(id)
        ),
        BlockReason::NeedsInput => format!(
            "`{}` answers it (`{logs}` shows the question); or write it into {}, then {again}",
            Act::Send.command(id),
            plan_file(task)
        ),
        BlockReason::Budget => format!("raise the budget in regatta.yaml, then {again}"),
        BlockReason::Changes => format!(
            "nothing: its builder gets the request, and then it checks again; `{logs}` shows what it asked for"
        ),
        BlockReason::Declined => format!(
            "`{}` continues the work, `regatta land {id}` proposes it again; opening the pull request again does too",
            Act::Send.command(id)
        ),
        BlockReason::Newer => "use the version of Regatta that wrote it: this one leaves it alone \
             (`regatta node list` has the version of each node)"
            .to_owned(),
        BlockReason::Policy => format!("fix what it names (`regatta doctor` checks), then {again}"),
    }
}
