//! The operations through the library alone: no process is started but git.

#[allow(dead_code)]
#[path = "../examples/operations.rs"]
mod operations;

use insta::{assert_debug_snapshot, assert_snapshot};
use regatta_core::crew::MemberName;
use regatta_engine::git::{GitEnv, Repo};
use regatta_ops::crew::{HeartbeatRequest, PushRequest, Speaker};
use regatta_ops::tasks::AddRequest;
use regatta_ops::{Crew, Operator, Project, ProjectOptions, Selection};
use regatta_testkit::repo::ScratchRepo;

/// A project whose git and whose records see nothing of this machine.
fn project() -> (ScratchRepo, Project) {
    let scratch = ScratchRepo::new();
    let options = ProjectOptions { project: Some(scratch.root().to_owned()), ..ProjectOptions::default() };
    let repo = Repo::discover_in(scratch.root(), None, GitEnv::new(scratch.env())).unwrap();
    let project = Project { repo, ..Project::open(&options).unwrap() };
    (scratch, project)
}

#[tokio::test]
async fn tasks_are_enqueued_parked_cancelled_and_started_over() {
    let (_scratch, project) = project();
    assert_snapshot!(operations::tasks(&project).await.unwrap().join("\n"), @r"
    docs is pending
    GEN-001 is pending, behind docs
    docs is parked until `regatta unpark docs`
    docs is pending again
    docs stays as it is: docs is pending, so it cannot be unparked: it is not waiting for a time
      next: `regatta status docs` shows its state
      next: `regatta cancel docs` cancels it
    docs cancelled
    docs is pending again
    ");
}

#[tokio::test]
async fn members_share_a_board_messages_and_context() {
    let (_scratch, project) = project();
    assert_snapshot!(operations::crew(&project).await.unwrap().join("\n"), @r"
    ada is in the crew as leader, and is idle
    bob is in the crew as developer, and is idle
    TASK-001 is pending on the board: Ask the users
    TASK-001 is claimed, held by bob
    TASK-001 is done
    bob wrote to ada: they want it
    users/want-it is yes, version 1, by ada
    ");
}

#[tokio::test]
async fn a_refusal_has_its_kind_the_state_and_the_next_steps() {
    let (_scratch, project) = project();
    let request = AddRequest { prompt: "Do it.".to_owned(), ..AddRequest::default() };
    project.add(&request).await.unwrap();
    let operator = Operator::open(&project).await.unwrap();
    let tasks = Selection::Named(vec!["GEN-001".to_owned()]);
    let refusal = operator.unpark(&tasks).await.unwrap().only().unwrap_err();
    assert_debug_snapshot!(refusal, @r#"
    Refusal {
        kind: Refused,
        message: "GEN-001 is pending, so it cannot be unparked: it is not waiting for a time",
        task: Some(
            (
                TaskId(
                    "GEN-001",
                ),
                "pending",
            ),
        ),
        next: [
            Act {
                act: Status,
                task: TaskId(
                    "GEN-001",
                ),
            },
            Act {
                act: Cancel,
                task: TaskId(
                    "GEN-001",
                ),
            },
        ],
        diagnostics: [],
    }
    "#);
    assert_snapshot!(refusal.hint(), @"`regatta status GEN-001` shows its state; `regatta cancel GEN-001` cancels it");

    let crew = Crew::of(&project, operator.store.clone());
    let who = Speaker { name: Some(MemberName::parse("carl").unwrap()) };
    let unknown = crew.heartbeat(&HeartbeatRequest { who, task: None }).await.unwrap_err();
    assert_debug_snapshot!(unknown, @r#"
    Refusal {
        kind: NotFound,
        message: "no crew member is named carl",
        task: None,
        next: [
            Advice(
                "`regatta crew list` shows the members, `regatta crew register carl` adds one",
            ),
        ],
        diagnostics: [],
    }
    "#);

    let deps = vec!["nowhere".to_owned()];
    let request = PushRequest { title: "Next".to_owned(), deps, ..PushRequest::default() };
    assert_debug_snapshot!(crew.push(&request).await.unwrap_err(), @r#"
    Refusal {
        kind: Usage,
        message: "unknown dependency nowhere: there is no such task; nothing was changed",
        task: None,
        next: [
            Advice(
                "`regatta enqueue nowhere` first; `regatta list --status all` shows all tasks",
            ),
        ],
        diagnostics: [],
    }
    "#);
}
