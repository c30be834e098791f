//! Everything that callers do, chosen by numbers and made out against what is there.

use std::sync::Arc;

use proptest::prelude::*;
use regatta_core::attempt::Attempt;
use regatta_core::crew::{MemberName, Role};
use regatta_core::exit::Exit;
use regatta_core::failure::FailureClass;
use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::profiles::{Cooling, Limited};
use regatta_core::spec::TaskSpec;
use regatta_core::state::{BlockReason, ParkReason, TaskState};
use regatta_core::time::Timestamp;
use regatta_core::train::{HeldBy, Intent, LandStep};
use regatta_core::writes::WritePath;

use super::memory::Memory;
use crate::conformance::node::{at, id, landing, node_info, task};
use crate::crew::{
    Author, Authority, ContextWrite, LEADER_ROLE, Mark, MessageKind, NewMember, NewMessage, Recipients,
};
use crate::rules::ledger::{carry_out, plan};
use crate::rules::plan::Plan;
use crate::rules::record::{Delivery, Holding, Key, Number, Session, Task, folded};
use crate::rules::{
    Call, claims, context, enqueue, events, members, messages, profiles, prompts, queue, reports, sessions,
    train,
};
use crate::{
    AccountKey, Claim, ClaimLimits, ClaimRequest, IfPresent, Lander, NewPrompt, NewTask, NodeInfo, Operation,
    Outcome, RequestId, Result, SessionId, Step, StoreError, Word, WorkerReport,
};

/// Few tasks, so that calls meet.
pub(super) const TASKS: u8 = 6;
/// Those that are there from the start.
const FIRST: u8 = 4;
pub(super) const MAX_WORKERS: u32 = 2;
const TRAIN: &str = "train:main";

/// A kind of call, and numbers that choose its arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Act {
    pub(super) kind: Kind,
    /// Which task, session, member.
    pub(super) which: u8,
    /// Which step, outcome, operation, dependencies.
    pub(super) how: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Open,
    Close,
    Expire,
    Enqueue,
    Claim,
    TakeUp,
    Step,
    Settle,
    Operate,
    Send,
    Report,
    Append,
    Elect,
    Resign,
    Land,
    Register,
    Post,
    Mark,
    SetContext,
    TakeTurn,
    Cool,
    Warm,
}

pub(super) fn any_act() -> impl Strategy<Value = Act> {
    use Kind::*;
    let kinds = [
        (3, Open),
        (1, Close),
        (1, Expire),
        (8, Enqueue),
        (16, Claim),
        (2, TakeUp),
        (5, Step),
        (14, Settle),
        (8, Operate),
        (5, Send),
        (1, Report),
        (1, Append),
        (5, Elect),
        (1, Resign),
        (10, Land),
        (2, Register),
        (3, Post),
        (2, Mark),
        (2, SetContext),
        (1, TakeTurn),
        (1, Cool),
        (1, Warm),
    ];
    let kind = proptest::strategy::Union::new_weighted(
        kinds.into_iter().map(|(weight, kind)| (weight, Just(kind).boxed())).collect(),
    );
    (kind, any::<u8>(), any::<u8>()).prop_map(|(kind, which, how)| Act { kind, which, how })
}

fn name(n: u8) -> String {
    format!("t{n}")
}

/// Sessions, a lander, and a plan in which each task may wait for earlier ones.
pub(super) async fn begin(memory: &Memory, plan: u8) {
    for session in ["s0", "s1"].map(|id| SessionId(id.to_owned())) {
        carry_out(memory, &sessions::open(&session, &node_info("a"), at(1))).await.expect("it is new");
        carry_out(memory, &train::elect(TRAIN, &session)).await.expect("it is open");
    }
    for n in 0..FIRST {
        let deps = plan.rotate_left(u32::from(n) * 3);
        let batch = enqueue::prepare(&a_batch(n, deps << 2, |dep| dep < n)).expect("valid tasks");
        let request = RequestId(format!("first {n}"));
        carry_out(memory, &enqueue::enqueue(&batch, &request, at(1))).await.expect("new tasks");
    }
}

fn pick<T: Clone>(from: &[T], n: u8) -> Option<T> {
    from.get(usize::from(n) % from.len().max(1)).cloned()
}

async fn planned<T>(memory: &Memory, call: Call<'_, T>) -> Result<Plan> {
    Ok(plan(memory, &call).await?.0)
}

impl Act {
    /// The plan of the call against what is in `memory`, with arguments that are chosen by what is in `from`. `request`
    /// makes it a call of its own.
    pub(super) async fn plan(self, from: &Memory, memory: &Memory, request: &str) -> Result<Plan> {
        let Act { kind, which, how } = self;
        let request = &RequestId(request.to_owned());
        let nothing = || Err(StoreError::Refused("nothing to do it with".into()));
        let tasks = from.all::<Task>();
        let held: Vec<Arc<Task>> =
            tasks.iter().map(|(_, task)| Arc::clone(task)).filter(|task| task.session.is_some()).collect();
        let open = open_sessions(from);
        let some_task = id(&name(which % TASKS));
        match kind {
            Kind::Open => {
                let n = from.all::<Session>().len();
                if open.len() > 4 {
                    return nothing();
                }
                let session = SessionId(format!("s{n}"));
                planned(memory, sessions::open(&session, &node_info("a"), at(1))).await
            }
            Kind::Close => {
                let Some((session, _)) = pick(&open, which) else { return nothing() };
                planned(memory, sessions::close(&session, at(5))).await
            }
            Kind::Expire => {
                let (Some((session, node)), Some((heir, _))) = (pick(&open, which), pick(&open, how)) else {
                    return nothing();
                };
                let beat = from.get::<Number>(&Key::Beat(session.clone())).expect("it is open").0;
                // What a member held has no agent that could be adopted.
                let adopts = how % 2 == 0 && !node.is_member();
                let heir = adopts.then_some(&heir).filter(|heir| **heir != session);
                planned(memory, sessions::expire(&session, beat, heir, at(5))).await
            }
            Kind::Enqueue => {
                let known = |n: u8| from.get::<Task>(&Key::Task(name(n).into())).is_some();
                let new = enqueue::prepare(&a_batch(which, how, known))?;
                planned(memory, enqueue::enqueue(&new, request, at(1))).await
            }
            Kind::Claim | Kind::TakeUp => {
                let Some((session, node)) = pick(&open, how) else { return nothing() };
                let is_ready = |task: &Arc<Task>| {
                    matches!(task.state, TaskState::Pending { not_before: None }) && task.unmet == 0
                };
                let ready: Vec<TaskId> = tasks
                    .iter()
                    .filter(|(_, task)| is_ready(task))
                    .map(|(_, task)| task.id.clone())
                    .collect();
                // Also what is not ready is asked for.
                let some_task = pick(&ready, which).filter(|_| how % 8 > 0).unwrap_or(some_task);
                let engine = ClaimLimits { max_workers: Some(MAX_WORKERS), ..ClaimLimits::default() };
                let wanted = ClaimRequest {
                    task: some_task,
                    session,
                    token_hash: "token".into(),
                    request: request.clone(),
                    limits: (!node.is_member()).then_some(engine),
                };
                if kind == Kind::Claim {
                    return planned(memory, claims::claim(&wanted, at(2))).await;
                }
                planned(memory, members::take_up(&wanted, at(2))).await
            }
            Kind::Step => {
                let Some(held) = pick(&held, which) else { return nothing() };
                let (claim, attempt) = a_claim(&held);
                let step = match how % 4 {
                    0 => Step::LaneReady(attempt),
                    1 => Step::Started { attempt, pid: 7 },
                    2 => Step::Update(attempt),
                    _ => Step::Exited { attempt, exit: Exit::Exited { code: 0 } },
                };
                planned(memory, claims::advance(&claim, &step, request, at(3))).await
            }
            Kind::Settle => {
                let Some(held) = pick(&held, which) else { return nothing() };
                let (claim, attempt) = a_claim(&held);
                let started_at = (how % 3 > 0).then(|| at(2));
                let attempt = Attempt { charged: how % 2 == 0, started_at, ..attempt };
                let step = Step::Settled { attempt, outcome: an_outcome(how / 4) };
                planned(memory, claims::advance(&claim, &step, request, at(3))).await
            }
            Kind::Operate => {
                planned(memory, queue::operate(&some_task, &an_operation(how), request, at(4))).await
            }
            Kind::Send => {
                let prompt = NewPrompt {
                    text: "more".into(),
                    beginning: "more".into(),
                    by: "me".into(),
                    queue: None,
                    urgent: false,
                };
                planned(memory, prompts::send(&some_task, &prompt, request, at(4))).await
            }
            Kind::Report => {
                let Some(held) = pick(&held, which) else { return nothing() };
                let (claim, _) = a_claim(&held);
                let report = WorkerReport {
                    task: claim.task,
                    attempt: claim.attempt,
                    token_hash: "token".into(),
                    word: Word::Stuck("help".into()),
                };
                planned(memory, reports::report(&report, request, at(3))).await
            }
            Kind::Append => {
                let body = regatta_core::event::EventBody::Noted { text: "n".into() };
                planned(memory, events::append(Some(&some_task), None, &body, request, at(4))).await
            }
            Kind::Elect => {
                let Some((session, _)) = pick(&open, which) else { return nothing() };
                planned(memory, train::elect(TRAIN, &session)).await
            }
            Kind::Resign => {
                let Some(lander) = lander(from, TRAIN) else { return nothing() };
                planned(memory, train::resign(&lander)).await
            }
            Kind::Land => {
                let Some(lander) = lander(from, TRAIN) else { return nothing() };
                let cars: Vec<TaskId> = tasks
                    .iter()
                    .map(|(_, task)| task.id.clone())
                    .filter(|id| from.get::<crate::rules::record::StoredCar>(&Key::Car(folded(id))).is_some())
                    .collect();
                let Some(task) = pick(&cars, which) else { return nothing() };
                let mut steps = vec![(task, a_land_step(how))];
                // Sometimes two cars at once.
                if let Some(other) = pick(&cars, which.wrapping_add(1)).filter(|other| *other != steps[0].0)
                    && how > 128
                {
                    steps.push((other, a_land_step(how)));
                }
                planned(memory, train::land_all(&lander, &steps, at(6))).await
            }
            Kind::Register => {
                let n = from.all::<Session>().len();
                let name = MemberName::parse(["Tom", "Ada", "t0"][usize::from(which % 3)]).expect("a name");
                let role = if how % 3 == 0 { LEADER_ROLE } else { Role::AGENT };
                let member = NewMember {
                    session: SessionId(format!("m{n}")),
                    node: NodeInfo::of_beats("n", &name),
                    role: Role::parse(role).expect("a role"),
                    lease: None,
                    name,
                };
                planned(memory, members::register(&member, at(1))).await
            }
            Kind::Post => {
                let name = MemberName::parse("Ada").expect("a name");
                let message = NewMessage {
                    author: Author { name: name.clone(), authority: Authority::Outside },
                    to: if how % 3 == 0 { Recipients::One(name) } else { Recipients::Everybody },
                    kind: MessageKind::Broadcast,
                    text: "hello".into(),
                    reply_to: None,
                };
                planned(memory, messages::post(&message, request, at(4))).await
            }
            Kind::Mark => {
                let Some((key, delivery)) = pick(&from.all::<Delivery>(), which) else { return nothing() };
                let Key::Delivery(_, message) = key else { return nothing() };
                let mark = if how % 2 == 0 { Mark::Read } else { Mark::Dismissed };
                planned(memory, messages::mark(&delivery.name, &[message], mark, at(i64::from(how)))).await
            }
            Kind::SetContext => {
                let write = ContextWrite {
                    key: format!("k{}", which % 2),
                    value: (how % 3 > 0).then(|| format!("v{how}")),
                    if_version: None,
                    leader: lander(from, LEADER_ROLE).filter(|_| how % 2 == 0),
                    by: "me".into(),
                };
                planned(memory, context::set(&write, request, at(4))).await
            }
            Kind::TakeTurn => planned(memory, profiles::take_turn(&an_account(which))).await,
            Kind::Cool => {
                let cooling = a_cooling();
                planned(memory, profiles::cool(&an_account(which), &cooling)).await
            }
            Kind::Warm => planned(memory, profiles::warm("p")).await,
        }
    }
}

fn open_sessions(memory: &Memory) -> Vec<(SessionId, NodeInfo)> {
    let open = |(key, session): (Key, Arc<Session>)| match key {
        Key::Session(id) if session.ended.is_none() => Some((id, session.node.clone())),
        _ => None,
    };
    memory.all::<Session>().into_iter().filter_map(open).collect()
}

fn lander(memory: &Memory, role: &str) -> Option<Lander> {
    let held = memory.get::<Holding>(&Key::Role(role.to_owned()))?;
    Some(Lander { role: role.to_owned(), session: held.session.clone()?, term: held.term })
}

fn an_account(n: u8) -> AccountKey {
    AccountKey { profile: "p".into(), agent: format!("a{}", n % 2) }
}

fn a_cooling() -> Cooling {
    let state = Limited::Strained { until: at(9) };
    Cooling { limit: "five_hour".into(), state, why: "w".into(), since: at(1) }
}

/// One task, or two of which the second depends on the first.
fn a_batch(which: u8, how: u8, is_known: impl Fn(u8) -> bool) -> Vec<NewTask> {
    let if_present = [IfPresent::Refuse, IfPresent::Restart, IfPresent::Resume][usize::from(how % 3)];
    let a_task = |n: u8, deps: Vec<u8>| {
        let plain = task(&name(n));
        let writes = (n < 2).then(|| WritePath::parse("shared/").expect("a path")).into_iter().collect();
        let deps = deps.into_iter().map(|dep| id(&name(dep))).collect();
        NewTask { spec: TaskSpec { deps, writes, ..plain.spec }, if_present, ..plain }
    };
    let n = which % TASKS;
    let may_wait_for = |dep: &u8| *dep != n && is_known(*dep) && (how >> 2) >> dep & 1 == 1;
    let deps: Vec<u8> = (0..TASKS).filter(may_wait_for).take(2).collect();
    let other = (n + 1) % TASKS;
    if which > 200 && !deps.contains(&other) {
        return vec![a_task(n, deps), a_task(other, vec![n])];
    }
    vec![a_task(n, deps)]
}

fn a_claim(held: &Task) -> (Claim, Attempt) {
    let spec = task(held.id.as_str()).spec;
    let claim = claims::claim_of(held, spec, None).expect("it is held");
    let attempt = Attempt::new(claim.attempt, "fake");
    (claim, attempt)
}

fn an_outcome(n: u8) -> Outcome {
    let (class, why) = (FailureClass::Work, "x".to_owned());
    let until: Timestamp = at(9);
    match n % 10 {
        0..=2 => Outcome::Approve(landing("h")),
        3 => Outcome::Done { head: None },
        4 => Outcome::Retry { not_before: None, class, why },
        5 => Outcome::Park { until, why: ParkReason::Environment, detail: "d".into() },
        6 => Outcome::Block { reason: BlockReason::Verdict, detail: "?".into() },
        7 => Outcome::Cancel { by: "me".into() },
        8 => Outcome::Release { why },
        _ => Outcome::Fail { why },
    }
}

fn an_operation(n: u8) -> Operation {
    let by = "me".to_owned();
    match n % 10 {
        0 => Operation::Cancel { by },
        1 => Operation::AskCancel { by },
        2 | 3 => Operation::Requeue { by },
        4 => Operation::Due,
        5 => Operation::Land { by, attempt: 1, request: landing("h") },
        6 => Operation::Retry { by },
        7 => Operation::EndConversations,
        8 => Operation::Assign { node: (n > 99).then(|| "a".to_owned()), by },
        _ => Operation::Park { until: at(9), detail: "d".into() },
    }
}

fn a_land_step(n: u8) -> LandStep {
    let commit = Oid::sample("c");
    match n % 8 {
        0 | 1 => LandStep::Intend { intent: Intent { onto: None, at: at(1) } },
        2 | 3 => LandStep::Gate { candidate: commit, note: "ok".into() },
        4 => LandStep::Wait { why: "dirty".into(), held_by: HeldBy::Changes },
        5 => LandStep::AlreadyIn { commit },
        6 => LandStep::Bounce { onto: commit, detail: "x".into(), files: Vec::new(), theirs: String::new() },
        _ => LandStep::Reject { reason: BlockReason::Tests, detail: "red".into(), files: Vec::new() },
    }
}
