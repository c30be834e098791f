//! The operations through the library alone: no process is started but git.

#[path = "../examples/operations.rs"]
mod operations;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use insta::{assert_debug_snapshot, assert_snapshot};
use regatta_core::attempt::Attempt;
use regatta_core::crew::{MemberName, Role};
use regatta_core::event::Event;
use regatta_core::id::TaskId;
use regatta_core::report::describe;
use regatta_core::session::SessionKind;
use regatta_core::state::StateName;
use regatta_engine::clock;
use regatta_engine::git::{GitEnv, Oid, Repo};
use regatta_engine::plans::Plans;
use regatta_engine::process::Line;
use regatta_engine::session::this_node;
use regatta_ops::crew::{
    Heard, HeartbeatRequest, PostRequest, PushRequest, RegisterRequest, SetContextRequest, Speaker, Stands,
    StayRequest,
};
use regatta_ops::documents::TrustItem;
use regatta_ops::documents::plans::ProposalState;
use regatta_ops::look::events::EventsRequest;
use regatta_ops::look::listing::{ListWatch, left_out};
use regatta_ops::look::logs::{AttemptLog, LogHeading, LogView, LogsRequest, ReadFrom, WaitingForLog};
use regatta_ops::look::radar::RadarWatch;
use regatta_ops::parallel::{ParallelOptions, ParallelWaitRequest, ParallelWaited};
use regatta_ops::plans::{ApproveRequest, PlanRequest, RejectRequest, Rejected, Then};
use regatta_ops::setup::{AgentHomes, SetupAgent, SetupRequest, SetupScope};
use regatta_ops::tasks::AddRequest;
use regatta_ops::{Crew, Operator, Project, ProjectOptions, Selection};
use regatta_store::{
    ClaimRequest, MessageKind, Outcome, Recipients, RequestId, SessionId, Step, Store, TaskQuery,
};
use regatta_testkit::repo::ScratchRepo;
use tokio::sync::Notify;

/// A project whose git and whose records see nothing of this machine.
fn project() -> (ScratchRepo, Project) {
    let scratch = ScratchRepo::new();
    let project = opened(&scratch);
    (scratch, project)
}

fn opened(scratch: &ScratchRepo) -> Project {
    let options = ProjectOptions { project: Some(scratch.root().to_owned()), ..ProjectOptions::default() };
    let repo = Repo::discover_in(scratch.root(), None, GitEnv::new(scratch.env())).unwrap();
    Project { repo, ..Project::open(&options).unwrap() }
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
    let node = this_node(SessionKind::Daemon, "test").unwrap();
    store.open_session(&session, &node, clock::now()).await.unwrap();
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
async fn a_repository_is_trusted_item_by_item_until_that_is_revoked() {
    let (scratch, _) = project();
    scratch.commit_file("regatta.yaml", "land:\n  test_command: make test\n", "a gate");
    let project = opened(&scratch);
    let items = async || -> Vec<String> {
        let items = project.trust_items().await.unwrap();
        let line = |item: TrustItem| format!("{:?} {} trusted: {}", item.kind, item.what, item.trusted);
        items.into_iter().map(line).collect()
    };
    let mut told = items().await;
    project.revoke_trust().unwrap();
    told.push("revoked".to_owned());
    told.extend(items().await);
    told.extend(project.require_trust().await.err().map(|refusal| refusal.hint()));
    project.trust_everything().unwrap();
    told.push("trusted".to_owned());
    told.extend(items().await);
    assert_snapshot!(told.join("\n"), @r"
    File land.test_command trusted: true
    revoked
    File land.test_command trusted: false
    read it, then `regatta trust` records that you agree; in scripts: --trust, or REGATTA_TRUST=1
    trusted
    File land.test_command trusted: true
    ");
}

#[test]
fn regatta_comes_to_an_agent_and_goes_and_the_users_files_stay() {
    let (scratch, _) = project();
    let root = scratch.root();
    let mut told = Vec::new();
    let mut set_up = |agent, remove, dry_run| {
        let request = SetupRequest { agent, scope: SetupScope::Repository(root.into()), remove, dry_run };
        for step in regatta_ops::setup::set_up(&request).unwrap().files {
            told.push(format!("{:?} {}", step.done, step.path.strip_prefix(root).unwrap().display()));
        }
    };
    set_up(SetupAgent::Claude, false, true);
    assert!(!root.join(".claude").exists(), "a dry run changes nothing");
    set_up(SetupAgent::Claude, false, false);
    std::fs::write(root.join(".claude/commands/regatta-run.md"), "mine\n").unwrap();
    set_up(SetupAgent::Claude, true, false);
    let homes = AgentHomes { claude: root.join("home/.claude"), codex: root.join("home/.codex") };
    let scope = SetupScope::User(homes);
    let request = SetupRequest { agent: SetupAgent::Claude, scope, remove: false, dry_run: true };
    told.extend(regatta_ops::setup::set_up(&request).unwrap().by_hand.map(str::to_owned));
    assert_snapshot!(told.join("\n"), @r"
    Written .claude/skills/regatta/SKILL.md
    Written .claude/commands/regatta-run.md
    Written .claude/commands/regatta-report.md
    Written .claude/commands/regatta-review.md
    Written .mcp.json
    Written .claude/skills/regatta/SKILL.md
    Written .claude/commands/regatta-run.md
    Written .claude/commands/regatta-report.md
    Written .claude/commands/regatta-review.md
    Written .mcp.json
    Removed .claude/skills/regatta/SKILL.md
    Kept .claude/commands/regatta-run.md
    Removed .claude/commands/regatta-report.md
    Removed .claude/commands/regatta-review.md
    Removed .mcp.json
    claude mcp add --scope user regatta -- regatta mcp
    ");
}

#[tokio::test]
async fn the_board_the_context_the_list_and_the_radar_are_followed() {
    let (scratch, project) = project();
    scratch.commit_file("a.txt", "one\n", "base");
    let crew = Crew::open(&project).await.unwrap();
    let mut board = crew.watch_board().await.unwrap();
    let mut context = crew.watch_context(vec!["plan".to_owned()]).await.unwrap();
    let query = TaskQuery { limit: 1, latest: true, ..TaskQuery::default() };
    let mut list = ListWatch::new(&project, crew.store.as_ref(), (&query, false)).await.unwrap();
    assert!(board.next().await.unwrap().is_empty() && context.next().await.unwrap().is_empty());
    assert!(list.next().await.unwrap().1.is_empty());

    crew.push(&PushRequest { title: "Ask".to_owned(), ..PushRequest::default() }).await.unwrap();
    let changed = board.next().await.unwrap();
    assert_eq!((changed.len(), changed[0].task.title.as_str()), (1, "Ask"));
    for key in ["other", "plan"] {
        let who = Speaker { name: None };
        let value = "yes".to_owned();
        let request = SetContextRequest { who, key: key.to_owned(), value, ..SetContextRequest::default() };
        crew.set_context(&request).await.unwrap();
    }
    let changed = context.next().await.unwrap();
    assert_eq!(changed.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), ["plan"]);

    let request = AddRequest { prompt: "Do it.".to_owned(), ..AddRequest::default() };
    project.add(&request).await.unwrap();
    let (listed, documents) = list.next().await.unwrap();
    assert_eq!((listed.tasks.len(), documents[0].id.as_str()), (1, "GEN-001"));
    let left = left_out(crew.store.as_ref(), &query, 1).await.unwrap().expect("one of two is listed");
    assert_eq!((left.n, left.counts), (1, vec![(StateName::Pending, 2)]));

    let only = BTreeSet::new();
    let mut radar = RadarWatch::new(&project, crew.store.as_ref(), &only).await.unwrap();
    assert!(radar.next().await.unwrap().findings.is_empty());
}

#[tokio::test]
async fn a_member_that_stays_gets_each_message_and_leaves_and_all_of_it_is_in_the_log() {
    let (_scratch, project) = project();
    let crew = Crew::open(&project).await.unwrap();
    let (ada, role) = (MemberName::parse("ada").unwrap(), Role::parse(Role::GENERAL).unwrap());
    let request = RegisterRequest { name: ada.clone(), role, stands: Stands::Here, wait: false };
    let member = crew.register(&request).await.unwrap();
    let from = Speaker { name: Some(ada.clone()) };
    let (to, kind, text) = (Recipients::One(ada), MessageKind::Direct, "Hello".to_owned());
    crew.post(PostRequest { from, to, kind, text, reply_to: None }).await.unwrap();
    let (mut heard, leave) = (Vec::new(), Notify::new());
    let hear = |news: Heard<'_>| match news {
        Heard::Message(message) => heard.push(message.text.clone()),
        Heard::NotHandled { message, program, .. } => {
            heard.push(format!("{program} did not get message {message}"));
            leave.notify_one();
        }
    };
    let request = StayRequest { command: vec!["/nowhere".to_owned()], keep: None };
    crew.stay(&member, &request, leave.notified(), hear).await.unwrap();
    assert_eq!(heard, ["Hello", "/nowhere did not get message 1"]);
    let members = crew.store.members().await.unwrap();
    assert!(members.iter().all(|member| !member.is_there), "{members:?}");

    let request = AddRequest { prompt: "Do it.".to_owned(), ..AddRequest::default() };
    project.add(&request).await.unwrap();
    let mut told = Vec::new();
    let request = EventsRequest { task: Some("GEN".to_owned()), ..EventsRequest::default() };
    project.events(&request, |event| told.push(describe(&event.body))).await.unwrap();
    assert_eq!(told.len(), 1, "{told:?}");
}

/// Notes what a view is given.
#[derive(Default)]
struct Noted(Vec<String>);

impl LogView for Noted {
    fn attempt(&mut self, n: u32) {
        self.0.push(format!("attempt {n}"));
    }
    fn heading(&mut self, heading: &LogHeading<'_>) {
        self.0.push(format!("attempt {}: {:?}", heading.attempt.n, heading.told));
    }
    fn open(&mut self, log: &AttemptLog) -> std::io::Result<ReadFrom> {
        self.0.push(format!("log of attempt {}", log.attempt));
        Ok(ReadFrom::NearEnd)
    }
    fn is_full(&self) -> bool {
        false
    }
    fn event(&mut self, event: &Event) {
        self.0.push(format!("event of attempt {:?}", event.attempt));
    }
    fn lines(&mut self, lines: &[Line]) -> std::io::Result<()> {
        self.0.extend(lines.iter().map(|line| String::from_utf8_lossy(&line.bytes).into_owned()));
        Ok(())
    }
    fn stderr_lines(&mut self, _: &[Line]) {}
    fn stderr(&mut self, path: &Path) {
        self.0.extend(std::fs::read_to_string(path).ok().map(|text| format!("stderr {text}")));
    }
    fn complete(&mut self) {
        self.0.push("complete".to_owned());
    }
    fn live(&mut self) {}
    fn ended(&mut self, attempt: &Attempt) {
        self.0.push(format!("attempt {} ended", attempt.n));
    }
    fn waits(&mut self, waiting: &WaitingForLog) {
        self.0.push(format!("{} is {}; {:?}", waiting.task, waiting.state, waiting.starter));
    }
    fn rests(&mut self, task: &TaskId, state: StateName) {
        self.0.push(format!("{task} rests: {state}"));
    }
}

#[tokio::test]
async fn a_log_is_read_and_followed_to_its_end() {
    let (_scratch, project) = project();
    let request = AddRequest { prompt: "Do it.".to_owned(), ..AddRequest::default() };
    let enqueued = project.add(&request).await.unwrap();
    let id = &enqueued.tasks[0].id;
    let of = |follow: bool| LogsRequest { task: id.to_string(), follow, ..LogsRequest::default() };
    let refusal = project.logs(&of(false), &mut Noted::default()).await.unwrap_err();
    assert_snapshot!(format!("{} ({})", refusal.message, refusal.hint()), @"GEN-001 has not been started yet (`regatta logs -f GEN-001` waits for it; `regatta status GEN-001` shows what it waits for)");
    let dir = project.repo.state_dir.join("logs").join(id.as_str());
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("1.jsonl"), "one\ntwo").unwrap();
    std::fs::write(dir.join("1.stderr"), "oh").unwrap();
    settle(enqueued.operator.store.as_ref(), id, None).await;
    let mut noted = Noted::default();
    for follow in [false, true] {
        project.logs(&of(follow), &mut noted).await.unwrap();
    }
    assert_snapshot!(noted.0.join("\n"), @r"
    log of attempt 1
    one
    two
    complete
    stderr oh
    attempt 1
    log of attempt 1
    one
    two
    complete
    stderr oh
    GEN-001 rests: done
    ");
}

#[tokio::test]
async fn the_wait_of_parallel_agents_ends_in_one_of_its_ways() {
    let (scratch, _) = project();
    let root = Some(scratch.root().to_owned());
    let project = ProjectOptions { project: root.clone(), ..ProjectOptions::default() };
    let options = ParallelOptions { project, root };
    let wait = async |granularity: &str| {
        let granularity = Some(granularity.to_owned());
        let request = ParallelWaitRequest { task: "GEN-001".to_owned(), granularity, timeout: None };
        options.wait(&request, Arc::new(|_| ())).await.unwrap()
    };
    assert_eq!(wait("loud").await, ParallelWaited::UnknownGranularity("loud".to_owned()));
    assert_eq!(wait("exit").await, ParallelWaited::NotFound);
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
