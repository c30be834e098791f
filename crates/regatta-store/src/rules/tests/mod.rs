//! The rules over a ledger in memory, where plans are made on what was read before others committed.

mod acts;
#[path = "../../../tests/it/model/fold.rs"]
mod fold;
mod memory;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use regatta_core::event::Event;
use regatta_core::prompt::PromptState;
use regatta_core::state::TaskState;
use regatta_core::writes::first_overlap;

use acts::{Act, MAX_WORKERS, any_act};
use memory::Memory;

use super::ledger::{Committed, Ledger, carry_out};
use super::plan::Plan;
use super::record::{Deps, Fate, Folded, Key, QueuedPrompt, Session, StoredCar, Task, folded};
use super::{claims, enqueue, sessions};
use crate::conformance::node::{at, id, node_info, task};
use crate::{ClaimRequest, RequestId, SessionId, StoreError};

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// `PROPTEST_CASES` for a longer look.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

/// A ledger after these calls, each of which was carried out alone.
async fn after(plan: u8, acts: &[Act]) -> Memory {
    let memory = Memory::default();
    acts::begin(&memory, plan).await;
    for (n, act) in acts.iter().enumerate() {
        let Some(plan) = planned(*act, &memory, &memory, &n.to_string()).await else { continue };
        assert_eq!(memory.commit(&plan).await.unwrap(), Committed::Done, "{act:?}");
    }
    memory
}

/// The plan of a call, or `None` if it is refused.
async fn planned(act: Act, from: &Memory, memory: &Memory, request: &str) -> Option<Plan> {
    match act.plan(from, memory, request).await {
        Ok(plan) => Some(plan),
        Err(StoreError::Unavailable(why) | StoreError::Corrupt(why)) => panic!("{act:?}: {why}"),
        Err(_) => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    /// Plans made on an old state, with other commits in between, break no rule.
    #[test]
    fn plans_that_others_overtake_break_nothing(
        first in any::<u8>(),
        before in proptest::collection::vec(any_act(), 0..40),
        acts in proptest::collection::vec((any_act(), 0..4usize), 1..60),
    ) {
        run(async {
            let memory = after(first, &before).await;
            check(&memory);
            let mut waiting: Vec<(usize, Act, Plan)> = Vec::new();
            for (n, (act, delay)) in acts.iter().enumerate() {
                let plan = planned(*act, &memory, &memory, &format!("late {n}")).await;
                waiting.extend(plan.map(|plan| (n + delay, *act, plan)));
                let (due, later) = waiting.into_iter().partition(|(due, ..)| *due <= n);
                waiting = later;
                for (_, act, plan) in due {
                    // A stale plan is simply dropped: its caller would plan again.
                    let _committed = memory.commit(&plan).await.unwrap();
                    check_after(&memory, act);
                }
            }
        });
    }

    /// Two plans made on one state: when both are committed, the result is that of one call after the other.
    #[test]
    fn two_plans_on_one_state_commute_or_one_is_stale(
        first in any::<u8>(),
        before in proptest::collection::vec(any_act(), 0..40),
        pairs in proptest::collection::vec((any_act(), any_act(), any::<bool>()), 1..40),
    ) {
        run(async {
            let memory = after(first, &before).await;
            for (a, b, at_the_same) in pairs {
                let b = if at_the_same { Act { which: a.which, ..b } } else { b };
                let (Some(plan_a), Some(plan_b)) =
                    (planned(a, &memory, &memory, "a").await, planned(b, &memory, &memory, "b").await) else { continue };
                let both = memory.clone();
                assert_eq!(both.commit(&plan_a).await.unwrap(), Committed::Done);
                if both.commit(&plan_b).await.unwrap() != Committed::Done {
                    continue;
                }
                let one_way = in_turn(&memory, plan_a, (b, "b")).await;
                let other_way = in_turn(&memory, plan_b, (a, "a")).await;
                let both = both.content();
                assert!(
                    [one_way, other_way].iter().flatten().any(|turns| turns.content() == both),
                    "{a:?} and {b:?} were both committed, and the result is that of neither order"
                );
            }
        });
    }
}

/// The first plan, then the call planned on its result; `None` if that is refused.
async fn in_turn(memory: &Memory, first: Plan, (then, request): (Act, &str)) -> Option<Memory> {
    let now = memory.clone();
    assert_eq!(now.commit(&first).await.unwrap(), Committed::Done);
    let plan = planned(then, memory, &now, request).await?;
    assert_eq!(now.commit(&plan).await.unwrap(), Committed::Done);
    Some(now)
}

fn check_after(memory: &Memory, act: Act) {
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(memory))).is_err() {
        panic!("after {act:?}");
    }
}

/// What is true at all times.
fn check(memory: &Memory) {
    let tasks: HashMap<Folded, Arc<Task>> =
        memory.all::<Task>().into_iter().map(|(_, task)| (folded(&task.id), task)).collect();
    let sessions: HashMap<Key, Arc<Session>> = memory.all::<Session>().into_iter().collect();
    let mut log: HashMap<String, Vec<Event>> = HashMap::new();
    for (n, event) in memory.events().into_iter().enumerate() {
        let Some((_, id)) = event.task else { continue };
        log.entry(id.folded()).or_default().push(Event {
            seq: n as u64 + 1,
            at: event.at,
            task: Some(id),
            attempt: event.attempt,
            body: serde_json::from_str(&event.body).unwrap(),
        });
    }
    for (name, task) in &tasks {
        assert_eq!(fold::fold(&log[&**name]), task.state, "the log tells another story of {name}");
        let deps = memory.get::<Deps>(&Key::Deps(Arc::clone(name))).unwrap();
        let parents: Vec<&Arc<Task>> = deps.parents.iter().map(|parent| &tasks[parent]).collect();
        let unmet = parents.iter().filter(|parent| parent.fate() != Fate::Met).count();
        assert_eq!(unmet, task.unmet as usize, "{task:?} {parents:?}");
        let dead: Vec<_> = parents.iter().filter(|parent| parent.fate() == Fate::Dead).collect();
        match &task.state {
            TaskState::Pending { .. } | TaskState::Parked { .. } => {
                assert!(dead.is_empty(), "{name} is pending although a dependency is dead: {dead:?}");
            }
            TaskState::Skipped { dependency, .. } => {
                assert!(dead.iter().any(|dead| dead.id == *dependency), "{task:?}");
            }
            _ => {}
        }
        assert_eq!(task.session.is_some(), task.state.is_claimed(), "{task:?}");
        if let Some(session) = &task.session {
            let holder = &sessions[&Key::Session(session.clone())];
            assert_eq!(holder.ended, None, "{task:?} belongs to an ended session");
        }
        let landing = matches!(task.state, TaskState::Landing { .. });
        let car = memory.get::<StoredCar>(&Key::Car(Arc::clone(name)));
        assert_eq!(car.is_some(), landing, "{task:?} {car:?}");
        check_prompts(memory, name, task);
    }
    let by_engine = |task: &&Arc<Task>| {
        let holder = task.session.clone().map(|session| &sessions[&Key::Session(session)]);
        holder.is_some_and(|holder| !holder.node.is_member())
    };
    let claimed: Vec<&Arc<Task>> = tasks.values().filter(by_engine).collect();
    assert!(claimed.len() <= MAX_WORKERS as usize, "{claimed:?}");
    for (n, task) in claimed.iter().enumerate() {
        let meets = |other: &&&Arc<Task>| first_overlap(&task.writes, &other.writes).is_some();
        assert_eq!(claimed[n + 1..].iter().find(meets), None, "{task:?}");
    }
}

fn check_prompts(memory: &Memory, name: &Folded, task: &Task) {
    let of_task = |key: &Key| matches!(key, Key::Prompt(of, _) if of == name);
    let prompts: Vec<_> = memory.all::<QueuedPrompt>().into_iter().filter(|(key, _)| of_task(key)).collect();
    let taken: Vec<_> =
        prompts.iter().filter(|(_, queued)| queued.prompt.state == PromptState::Taken).collect();
    assert!(taken.len() <= 1, "{prompts:?}");
    for (_, queued) in taken {
        assert!(
            task.state.is_claimed() && queued.prompt.attempt == task.live_attempt(),
            "{queued:?} {task:?}"
        );
    }
    if task.state.is_met() {
        let waits = prompts.iter().find(|(_, queued)| queued.prompt.state != PromptState::Told);
        assert_eq!(waits, None, "{task:?} has ended with something left to tell");
    }
}

fn a_claim(name: &str, session: &SessionId) -> ClaimRequest {
    ClaimRequest {
        task: id(name),
        session: session.clone(),
        token_hash: "token".into(),
        request: RequestId::fresh(),
        limits: None,
    }
}

async fn with_tasks(names: &[&str]) -> (Memory, SessionId) {
    let (memory, session) = (Memory::default(), SessionId("s".into()));
    carry_out(&memory, &sessions::open(&session, &node_info("a"), at(1))).await.unwrap();
    let tasks: Vec<_> = names.iter().map(|name| task(name)).collect();
    let tasks = enqueue::prepare(&tasks).unwrap();
    carry_out(&memory, &enqueue::enqueue(&tasks, &RequestId::fresh(), at(1))).await.unwrap();
    (memory, session)
}

#[tokio::test]
async fn of_many_callers_who_want_one_task_one_gets_it() {
    let (memory, session) = with_tasks(&["t"]).await;
    let memory = Arc::new(memory);
    let claim = |_| {
        let (memory, wanted) = (Arc::clone(&memory), a_claim("t", &session));
        tokio::spawn(async move { carry_out(&*memory, &claims::claim(&wanted, at(2))).await })
    };
    let mut claimed = 0;
    for claim in (0..20).map(claim).collect::<Vec<_>>() {
        claimed += usize::from(claim.await.unwrap().unwrap().is_some());
    }
    assert_eq!(claimed, 1);
}

/// A ledger in which another caller is always faster.
struct Overtaken(Memory);

#[async_trait::async_trait]
impl Ledger for Overtaken {
    async fn read(&self, wants: &[super::record::Want]) -> crate::Result<Vec<super::record::Seen>> {
        self.0.read(wants).await
    }
    async fn commit(&self, plan: &Plan) -> crate::Result<Committed> {
        Ok(Committed::Stale(plan.writes[0].key.clone()))
    }
}

#[tokio::test]
async fn a_caller_whom_others_overtake_again_and_again_is_told_to_repeat_the_call() {
    let (memory, session) = with_tasks(&["t"]).await;
    let ledger = Overtaken(memory);
    let wanted = a_claim("t", &session);
    let answer = carry_out(&ledger, &claims::claim(&wanted, at(2))).await;
    assert!(matches!(&answer, Err(StoreError::Unavailable(why)) if why.contains("20 times")), "{answer:?}");
    assert!(ledger.0.reads.load(Ordering::Relaxed) >= 20);
}

/// A call that needs nothing unusual reads once: over a network, each read is a round trip.
#[tokio::test]
async fn usual_calls_read_once() {
    let (memory, session) = with_tasks(&["a", "b"]).await;
    let reads = |memory: &Memory| memory.reads.swap(0, Ordering::Relaxed);
    reads(&memory);
    let limits = Some(crate::ClaimLimits { max_workers: Some(8), ..crate::ClaimLimits::default() });
    let wanted = ClaimRequest { limits, ..a_claim("a", &session) };
    let claim = carry_out(&memory, &claims::claim(&wanted, at(2))).await.unwrap().unwrap();
    assert_eq!(reads(&memory), 1, "claim");
    let attempt = regatta_core::attempt::Attempt::new(claim.attempt, "fake");
    let settled = |outcome| crate::Step::Settled { attempt: attempt.clone(), outcome };
    let steps = [
        crate::Step::LaneReady(attempt.clone()),
        crate::Step::Started { attempt: attempt.clone(), pid: 7 },
        crate::Step::Exited { attempt: attempt.clone(), exit: regatta_core::exit::Exit::Exited { code: 0 } },
        settled(crate::Outcome::Done { head: None }),
    ];
    for step in steps {
        carry_out(&memory, &claims::advance(&claim, &step, &RequestId::fresh(), at(3))).await.unwrap();
        assert_eq!(reads(&memory), 1, "{step:?}");
    }
    carry_out(&memory, &sessions::renew(&session)).await.unwrap();
    assert_eq!(reads(&memory), 1, "renew");
    let wanted = a_claim("b", &session);
    let claim = carry_out(&memory, &claims::claim(&wanted, at(2))).await.unwrap().unwrap();
    reads(&memory);
    let approved = settled(crate::Outcome::Approve(crate::conformance::node::landing("h")));
    carry_out(&memory, &claims::advance(&claim, &approved, &RequestId::fresh(), at(3))).await.unwrap();
    assert_eq!(reads(&memory), 1, "approve");
    let more = enqueue::prepare(&[task("c").after(&["a"]), task("d").after(&["c"])]).unwrap();
    carry_out(&memory, &enqueue::enqueue(&more, &RequestId::fresh(), at(1))).await.unwrap();
    assert_eq!(reads(&memory), 1, "enqueue");
}
