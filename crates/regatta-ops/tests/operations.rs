//! The operations through the library alone: no process is started but git.

#[path = "../examples/operations.rs"]
mod operations;

use insta::{assert_debug_snapshot, assert_snapshot};
use regatta_core::attempt::Attempt;
use regatta_core::crew::MemberName;
use regatta_core::id::TaskId;
use regatta_core::session::SessionKind;
use regatta_engine::clock;
use regatta_engine::git::{GitEnv, Oid, Repo};
use regatta_engine::plans::Plans;
use regatta_engine::session::this_node;
use regatta_ops::crew::{HeartbeatRequest, PushRequest, Speaker};
use regatta_ops::documents::plans::ProposalState;
use regatta_ops::plans::{ApproveRequest, PlanRequest, RejectRequest, Rejected, Then};
use regatta_ops::tasks::AddRequest;
use regatta_ops::{Crew, Operator, Project, ProjectOptions, Selection};
use regatta_store::{ClaimRequest, Outcome, RequestId, SessionId, Step, Store};
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

/// Does what an engine does with a task whose agent succeeded: claims it and settles it.
async fn settle(store: &dyn Store, id: &TaskId, base: Option<Oid>) {
    let (session, now) = (SessionId::fresh("test"), clock::now());
    store.open_session(&session, &this_node(SessionKind::Daemon, "test").unwrap()).await.unwrap();
    let claim = ClaimRequest {
        task: id.clone(),
        session: session.clone(),
        token_hash: "token".to_owned(),
        request: RequestId::fresh(),
        limits: None,
    };
    let claim = store.claim(&claim, now).await.unwrap().expect("nothing else claims it");
    let attempt = Attempt { base, ..Attempt::new(claim.attempt, "sim") };
    let step = Step::Settled { attempt, outcome: Outcome::Done { head: None } };
    store.advance(&claim, &step, &RequestId::fresh(), now).await.unwrap();
    store.close_session(&session, now).await.unwrap();
}

#[tokio::test]
async fn a_goal_becomes_a_proposal_which_is_approved_once() {
    let (_scratch, project) = project();
    let propose = async |id: TaskId| {
        let plan =
            "---\nname: api\ntasks:\n  - id: docs\n    agent: sim\n    prompt: Write docs/api.md.\n---\n";
        Plans::of(&project.repo.state_dir).propose(&id, plan).unwrap();
        settle(project.store().await.unwrap().as_ref(), &id, None).await;
    };
    assert_snapshot!(operations::proposals(&project, propose).await.unwrap().join("\n"), @r"
    PLAN-001 is proposed: 1 tasks
    docs is pending
    PLAN-001 was approved before
    PLAN-001 is approved, so it cannot be rejected (`regatta plan show PLAN-001` shows it)
    PLAN-001 is approved
    ");
}

#[tokio::test]
async fn a_rejected_proposal_is_closed() {
    let (_scratch, project) = project();
    let request =
        PlanRequest { goal: "Rest".to_owned(), agent: Some("sim".to_owned()), ..Default::default() };
    let planning = project.plan(&request).await.unwrap();
    planning.enqueue().await.unwrap();
    let reject = RejectRequest { plan: "1".to_owned(), why: None };
    let refusal = project.reject(&reject).await.err().unwrap();
    assert_snapshot!(refusal.message, @"PLAN-001 is planning, so it cannot be rejected: its planner is pending");
    let id = &planning.spec.id;
    Plans::of(&project.repo.state_dir).propose(id, "---\nid: rest\nagent: sim\n---\nRest.\n").unwrap();
    settle(planning.operator.store.as_ref(), id, None).await;
    let Rejected::Closed(document) = project.reject(&reject).await.unwrap() else {
        panic!("no reason was given")
    };
    assert_eq!(document.state, ProposalState::Rejected);
    let approve = ApproveRequest { plan: "plan-1".to_owned(), then: Then::Enqueue };
    let refusal = project.approve(&approve).await.err().unwrap();
    assert_snapshot!(refusal.message, @"PLAN-001 is rejected, so it cannot be approved");
    assert_snapshot!(refusal.hint(), @"`regatta plan show PLAN-001` shows it");
}

#[tokio::test]
async fn work_is_compared_waited_for_swept_and_restored() {
    let (scratch, project) = project();
    let base = Oid::parse(&scratch.commit_file("a.txt", "one\n", "base")).unwrap();
    let request = AddRequest { prompt: "Do it.".to_owned(), ..AddRequest::default() };
    let enqueued = project.add(&request).await.unwrap();
    let (id, store) = (&enqueued.tasks[0].id, enqueued.operator.store.as_ref());
    let lanes = project.lanes().unwrap().expect("there is a state directory");
    let lane = lanes.prepare(id, &base).unwrap();
    std::fs::write(lane.path.join("b.txt"), "two\n").unwrap();
    settle(store, id, Some(base)).await;
    assert_snapshot!(operations::work(&project, id).await.unwrap().join("\n"), @r#"
    GEN-001 changed b.txt
    {"event":"watching","task":"GEN-001","state":"done","pid":null}
    {"event":"exited","task":"GEN-001","state":"done","reason":null}
    every task is done or landed: true
    the lane of GEN-001 stays: uncommitted work in b.txt
    the lane of GEN-001 stays: uncommitted work in b.txt
    its lane is gone, and its work is in refs/regatta/salvage/GEN-001/1
    it is on branch regatta/GEN-001-salvage-1 now
    0 processes are gone
    "#);
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
