//! What the user should do next about a task, by its state.

use std::path::Path;

use regatta_core::attempt::Attempt;
use regatta_core::part::Part;
use regatta_core::plain::clean_line;
use regatta_core::state::{BlockReason, TaskState};
use regatta_store::{BOARD_QUEUE, MAIN_QUEUE, TaskRecord};

use super::park::waits_for_a_word;
use crate::project::shown;

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

/// What the user should do next, with the commands spelled out.
pub fn next_step(task: &TaskRecord, attempts: &[Attempt]) -> Option<String> {
    let id = &task.spec.id;
    let branch = id.branch();
    let (file, again) = (plan_file(task), again(task));
    let ran = !attempts.is_empty();
    Some(match &task.state {
        TaskState::Pending { .. } if !task.waiting_on.is_empty() => {
            let on = task.waiting_on.first().map_or("ID", |on| on.as_str());
            format!("look at what it waits for: `regatta status {on}`")
        }
        TaskState::Pending { .. } => format!("{} runs it, unless one is already running", heir(task)),
        TaskState::Claimed { .. } | TaskState::Running { .. } => {
            format!("`regatta logs -f {id}` follows it; `regatta cancel {id}` ends it")
        }
        TaskState::Judging { .. } => {
            format!("`regatta events -f --task {id}` shows the verdict when it comes")
        }
        TaskState::Landing { waiting: Some(why), .. } => {
            format!(
                "make way for it ({}; `git stash -u` takes untracked files too), then `regatta land {id}` lands it; \
                 a daemon or a run that is alive does so by itself",
                clean_line(why)
            )
        }
        TaskState::Landing { .. } => format!("`regatta events -f --task {id}` shows when it lands"),
        TaskState::Done { head: Some(_), .. }
            if matches!(task.spec.part, Some(Part::Builder { lands: true, .. })) =>
        {
            format!(
                "its links are checking it (`regatta list`); it lands when they pass, or now with `regatta land {id}`"
            )
        }
        TaskState::Done { head: Some(_), .. } if !task.spec.land => {
            format!("`regatta diff {id}` shows the work; `regatta land {id}` lands it")
        }
        TaskState::Done { .. } | TaskState::Landed { .. } => return None,
        TaskState::Failed { .. } if ran => format!("`regatta logs {id}` shows why; {again} tries again"),
        TaskState::Failed { .. } | TaskState::Cancelled { .. } => format!("{again} tries again"),
        TaskState::Skipped { dependency } => {
            format!("`regatta status {dependency}` shows why it did not succeed; {again} tries both again")
        }
        state if waits_for_a_word(state) => {
            format!("`regatta unpark {id}` lets it start, `regatta cancel {id}` cancels it")
        }
        TaskState::Parked { until, .. } => {
            let taker = match task.queue.as_str() {
                MAIN_QUEUE | BOARD_QUEUE => heir(task),
                _ => format!("its run, or {} once that is over,", heir(task)),
            };
            let until = crate::when::moment(*until);
            format!(
                "nothing: {taker} takes it up at {until}; `regatta unpark {id}` does so now, \
                 `regatta cancel {id}` cancels it"
            )
        }
        TaskState::Blocked { reason, .. } => match reason {
            BlockReason::Conflict => format!(
                "`regatta diff {id}` and `git log {branch}` show its work; merge {branch} by hand, \
                 or {again} does it over on what has landed since"
            ),
            BlockReason::Tests => {
                format!(
                    "`regatta diff {id}` shows the work that failed; fix the tests or the task, then {again}"
                )
            }
            BlockReason::Verdict => {
                format!(
                    "`regatta logs {id}` and `regatta diff {id}` show what it did; {again} tries again, \
                     `regatta land --accept {id}` lands it as it is"
                )
            }
            BlockReason::NeedsInput => {
                format!(
                    "`regatta send {id} \"…\"` answers it (`regatta logs {id}` shows the question); or write it into \
                     {file}, then {again}"
                )
            }
            BlockReason::Budget => format!("raise the budget in regatta.yaml, then {again}"),
            BlockReason::Changes => format!(
                "nothing: its builder gets the request, and then it checks again; `regatta logs {id}` shows what it asked for"
            ),
            BlockReason::Policy => format!("fix what it names (`regatta doctor` checks), then {again}"),
        },
    })
}
