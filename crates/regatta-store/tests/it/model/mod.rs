//! Random operations by two nodes, each with a handle of its own, stale claims and stale landers included.
//! After each of them the rules that hold at all times are checked against everything that can be read.

mod fold;
mod rules;

use proptest::prelude::*;
use regatta_core::failure::FailureClass;
use regatta_core::oid::Oid;
use regatta_core::spec::TaskSpec;
use regatta_core::state::{BlockReason, ParkReason};
use regatta_core::train::{GateOutcome, HeldBy, Intent, LandStep};
use regatta_core::writes::WritePath;
use regatta_store::conformance::node::{Node, at, id, landing, record, task};
use regatta_store::{
    Claim, ClaimLimits, ClaimRequest, IfPresent, Lander, NewTask, Operation, Outcome, RequestId, Result,
    Step, StoreError, Word, WorkerReport,
};

use crate::fixture::File;

/// Few tasks, so that operations meet.
const TASKS: usize = 6;
/// Over both nodes.
const MAX_WORKERS: u32 = 3;

/// What a node does. Numbers name a task, or something that is there now (a ready task, a car), or a claim made
/// so far, the latest being 0.
#[derive(Clone, Debug)]
enum Act {
    Enqueue { task: usize, deps: u8, if_present: IfPresent },
    Claim { ready: usize },
    Step { claim: usize, step: usize },
    Settle { claim: usize, outcome: usize, charged: bool },
    Operate { task: usize, operation: usize },
    Send { task: usize },
    Report { claim: usize },
    Elect,
    Resign,
    Land { car: usize, step: usize },
    Expire { heir: bool },
}

fn any_act() -> impl Strategy<Value = (usize, Act)> {
    let if_present = prop_oneof![1 => Just(IfPresent::Refuse), 2 => Just(IfPresent::Restart), 2 => Just(IfPresent::Resume)];
    let act = prop_oneof![
        3 => (0..TASKS, any::<u8>(), if_present)
            .prop_map(|(task, deps, if_present)| Act::Enqueue { task, deps, if_present }),
        10 => (0..TASKS).prop_map(|ready| Act::Claim { ready }),
        4 => (0..3usize, 0..4usize).prop_map(|(claim, step)| Act::Step { claim, step }),
        8 => (0..3usize, 0..9usize, any::<bool>())
            .prop_map(|(claim, outcome, charged)| Act::Settle { claim, outcome, charged }),
        6 => (0..TASKS, 0..7usize).prop_map(|(task, operation)| Act::Operate { task, operation }),
        4 => (0..TASKS).prop_map(|task| Act::Send { task }),
        1 => (0..3usize).prop_map(|claim| Act::Report { claim }),
        2 => Just(Act::Elect),
        1 => Just(Act::Resign),
        8 => (0..TASKS, 0..8usize).prop_map(|(car, step)| Act::Land { car, step }),
        1 => any::<bool>().prop_map(|heir| Act::Expire { heir }),
    ];
    (0..2usize, act)
}

/// Two nodes and all the permission they were ever given.
struct World {
    fixture: File,
    nodes: [Node; 2],
    claims: Vec<Claim>,
    landers: Vec<Lander>,
}

/// A task that waits for `deps`.
fn a_task(n: usize, deps: impl Iterator<Item = usize>, if_present: IfPresent) -> NewTask {
    let plain = task(&name(n));
    let deps = deps.map(|dep| id(&name(dep))).collect();
    // Two of them write to the same place.
    let writes = (n < 2).then(|| WritePath::parse("shared/").expect("a path")).into_iter().collect();
    NewTask { spec: TaskSpec { deps, writes, ..plain.spec }, if_present, ..plain }
}

fn name(task: usize) -> String {
    format!("t{task}")
}

impl World {
    /// With a plan in the queue in which each task may wait for earlier ones.
    async fn new(plan: &[u8]) -> Self {
        let fixture = File::fresh(0);
        let nodes = [Node::join(&fixture, "a").await, Node::join(&fixture, "b").await];
        let tasks: Vec<NewTask> = plan
            .iter()
            .enumerate()
            .map(|(n, deps)| a_task(n, (0..n).filter(|dep| deps >> dep & 1 == 1).take(2), IfPresent::Refuse))
            .collect();
        nodes[0].add(&tasks).await;
        Self { fixture, nodes, claims: Vec::new(), landers: Vec::new() }
    }

    /// A claim by its age; stale ones as well.
    fn claim(&self, age: usize) -> Option<Claim> {
        self.claims.iter().rev().nth(age).cloned()
    }

    async fn act(&mut self, who: usize, act: &Act) -> Result<()> {
        let node = self.nodes[who].clone();
        match *act {
            Act::Enqueue { task, deps, if_present } => {
                let deps = (0..TASKS).filter(|dep| *dep != task && deps >> dep & 1 == 1).take(2);
                node.try_add(&[a_task(task, deps, if_present)]).await
            }
            Act::Claim { ready: n } => {
                let ready = node.ready().await;
                // Also what is not ready is asked for.
                let wanted = ready.get(n).cloned().unwrap_or_else(|| name(n));
                let limits = ClaimLimits { max_workers: Some(MAX_WORKERS), ..ClaimLimits::default() };
                let request = ClaimRequest { limits: Some(limits), ..node.asking_for(&wanted) };
                let claimed = node.store.claim(&request, at(2)).await?;
                self.claims.extend(claimed);
                Ok(())
            }
            Act::Step { claim, step } => {
                let Some(claim) = self.claim(claim) else { return Ok(()) };
                node.step(&claim, a_step(&claim, step)).await
            }
            Act::Settle { claim, outcome, charged } => {
                let Some(claim) = self.claim(claim) else { return Ok(()) };
                // What is charged had an agent, and so had half of the rest.
                let started_at = (charged || claim.fence % 2 == 0).then(|| at(2));
                let attempt = regatta_core::attempt::Attempt { charged, started_at, ..record(&claim) };
                node.step(&claim, Step::Settled { attempt, outcome: an_outcome(outcome) }).await
            }
            Act::Operate { task, operation } => node.operate(&name(task), an_operation(operation)).await,
            Act::Send { task } => node.send(&name(task), "more").await.map(drop),
            Act::Report { claim } => {
                let Some(claim) = self.claim(claim) else { return Ok(()) };
                let token_hash = format!("token of {}", claim.task);
                let word = Word::Stuck("help".into());
                let report = WorkerReport { task: claim.task, attempt: claim.attempt, token_hash, word };
                node.store.report(&report, &RequestId::fresh(), at(3)).await
            }
            Act::Elect => {
                let elected = node.store.elect("train:main", &node.session).await?;
                self.landers.extend(elected);
                Ok(())
            }
            Act::Resign => match self.landers.last() {
                Some(lander) => node.store.resign(lander).await,
                None => Ok(()),
            },
            Act::Land { car, step } => {
                // The newest permission mostly, and sometimes one that has passed on.
                let age = usize::from(car == TASKS - 1);
                let Some(lander) = self.landers.iter().rev().nth(age) else { return Ok(()) };
                let cars = node.store.cars("main").await?;
                let task =
                    cars.get(car % cars.len().max(1)).map_or_else(|| id(&name(car)), |car| car.task.clone());
                node.store.land(lander, &task, &a_land_step(step), at(6)).await
            }
            Act::Expire { heir } => {
                let other = self.nodes[1 - who].clone();
                node.expire(&other, heir.then_some(&node.session)).await;
                self.claims.extend(node.store.claims_of(&node.session).await?);
                self.nodes[1 - who] = Node::join(&self.fixture, "again").await;
                Ok(())
            }
        }
    }
}

fn a_step(claim: &Claim, n: usize) -> Step {
    let attempt = record(claim);
    match n {
        0 => Step::LaneReady(attempt),
        1 => Step::Started { attempt, pid: 7 },
        2 => Step::Update(attempt),
        _ => Step::Exited { attempt, exit: regatta_core::exit::Exit::Exited { code: 0 } },
    }
}

fn an_outcome(n: usize) -> Outcome {
    let (class, why) = (FailureClass::Work, "x".to_owned());
    let park = |why| Outcome::Park { until: at(9), why, detail: "d".into() };
    match n {
        0 | 1 => Outcome::Approve(landing("h")),
        2 => Outcome::Done { head: None },
        3 => Outcome::Retry { not_before: None, class, why },
        4 => Outcome::Retry { not_before: Some(at(9)), class, why },
        5 => park(ParkReason::Environment),
        6 => Outcome::Block { reason: BlockReason::Verdict, detail: "?".into() },
        7 => Outcome::Cancel { by: "me".into() },
        _ => Outcome::Fail { why },
    }
}

fn an_operation(n: usize) -> Operation {
    let by = "me".to_owned();
    match n {
        0 => Operation::Cancel { by },
        1 => Operation::AskCancel { by },
        2 => Operation::Requeue { by },
        3 => Operation::Due,
        4 => Operation::Land { by, attempt: 1, request: landing("h") },
        5 => Operation::Retry { by },
        _ => Operation::Park { until: at(9), detail: "d".into() },
    }
}

fn a_land_step(n: usize) -> LandStep {
    let commit = Oid::sample("c");
    match n {
        0 => LandStep::Intend { intent: Intent { onto: None, at: at(1) } },
        1 => LandStep::Gate { candidate: commit, note: "ok".into() },
        2 => LandStep::Wait { why: "dirty".into(), held_by: HeldBy::Changes },
        3 => LandStep::Landed { commit },
        4 => LandStep::AlreadyIn { commit },
        5 => LandStep::Bounce { onto: commit, detail: "x".into(), files: Vec::new(), theirs: String::new() },
        6 => LandStep::Tested {
            candidate: commit,
            cars: Vec::new(),
            outcome: GateOutcome::Flaky,
            millis: 1,
            note: String::new(),
        },
        _ => LandStep::Reject { reason: BlockReason::Tests, detail: "red".into(), files: Vec::new() },
    }
}

/// `PROPTEST_CASES` for a longer look.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_two_nodes_do_the_rules_hold(
        plan in proptest::collection::vec(any::<u8>(), TASKS - 1),
        acts in proptest::collection::vec(any_act(), 1..90),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let mut world = World::new(&plan).await;
            let mut before = rules::Everything::read(&*world.nodes[0].store).await;
            for (who, act) in &acts {
                let known = world.claims.len();
                let answer = world.act(*who, act).await;
                // Each node sees what the other did.
                let after = rules::Everything::read(&*world.nodes[1 - who].store).await;
                if let Err(error) = &answer {
                    assert!(!matches!(error, StoreError::Unavailable(_) | StoreError::Corrupt(_)), "{act:?}: {error}");
                    assert_eq!(before, after, "{act:?} was refused ({error}) and changed something");
                }
                after.check(act_brings_back(act), &before);
                rules::check_fences(&world.claims[..known], &world.claims[known..], &before, &after);
                before = after;
            }
        });
    }
}

/// Whether an operation may take a task out of a terminal state.
fn act_brings_back(act: &Act) -> bool {
    match act {
        Act::Enqueue { if_present, .. } => *if_present != IfPresent::Refuse,
        // Cancelled, requeued, retried, and what is done may be sent to the train by hand.
        Act::Operate { operation, .. } => matches!(operation, 0 | 2 | 4 | 5),
        // More is said to what is done, landed or failed; and what lands may have been said more to.
        Act::Send { .. } | Act::Land { .. } => true,
        _ => false,
    }
}
