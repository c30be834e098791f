//! Landing.

use regatta_core::attempt::Evidence;
use regatta_core::event::EventBody;
use regatta_core::oid::Oid;
use regatta_core::state::{BlockReason, TaskState};
use regatta_core::train::{CarStep, HeldBy, Intent, LandStep};

use super::Fixture;
use super::node::{Node, at, id, landing, task};
use crate::{Lander, Operation, Outcome, Result, StoreError};

const ROLE: &str = "train:main";

fn intent(onto: &str) -> Intent {
    Intent { onto: Some(Oid::sample(onto)), at: at(100) }
}

fn intend(onto: &str) -> LandStep {
    LandStep::Intend { intent: intent(onto) }
}

fn gate(candidate: &str) -> LandStep {
    LandStep::Gate { candidate: Oid::sample(candidate), note: "green".into() }
}

fn landed(commit: &str) -> LandStep {
    LandStep::Landed { commit: Oid::sample(commit) }
}

fn on_main(attempt: u32, commit: &str) -> TaskState {
    TaskState::Landed { attempt, commit: Oid::sample(commit), target: Some("main".into()) }
}

fn wait(why: &str) -> LandStep {
    LandStep::Wait { why: why.into(), held_by: HeldBy::Changes }
}

fn reject() -> LandStep {
    LandStep::Reject { reason: BlockReason::Tests, detail: "red".into(), files: vec!["a.txt".into()] }
}

async fn elect(node: &Node) -> Lander {
    node.store.elect(ROLE, &node.session).await.unwrap().expect("nobody else holds the role")
}

async fn land(node: &Node, lander: &Lander, name: &str, step: LandStep) -> Result<()> {
    node.store.land(lander, &id(name), &step, at(6)).await
}

pub async fn one_holder_at_a_time_and_terms_grow(fixture: &dyn Fixture) {
    for _ in 0..10 {
        let (a, b) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
        let (x, y) = tokio::join!(a.store.elect(ROLE, &a.session), b.store.elect(ROLE, &b.session));
        let (x, y) = (x.unwrap(), y.unwrap());
        let (winner, loser, lander) = match (x, y) {
            (Some(lander), None) => (a, b, lander),
            (None, Some(lander)) => (b, a, lander),
            both => panic!("{both:?}"),
        };
        assert_eq!(elect(&winner).await, lander, "re-entrant");
        assert!(loser.store.elect(ROLE, &loser.session).await.unwrap().is_none());
        loser.expire(&winner, None).await;
        let next = elect(&loser).await;
        assert!(next.term > lander.term);
        winner.store.resign(&lander).await.unwrap();
        assert_eq!(elect(&loser).await, next, "an old holder cannot resign for the new one");
        loser.store.resign(&next).await.unwrap();
        loser.store.close_session(&loser.session, at(1)).await.unwrap();
    }
}

pub async fn a_car_goes_its_way_and_leaves_with_its_task_landed(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t").priority(4), task("child").after(&["t"])]).await;
    node.approve("t").await;
    let lander = elect(&node).await;
    let cars = node.store.cars("main").await.unwrap();
    assert_eq!((cars.len(), &cars[0].task, cars[0].priority), (1, &id("t"), 4));
    assert_eq!((&cars[0].step, &cars[0].request), (&CarStep::Queued, &landing("head of t")));
    assert!(node.store.cars("other").await.unwrap().is_empty());
    let waiting = || async {
        match node.state("t").await {
            TaskState::Landing { waiting, .. } => waiting,
            other => panic!("{other:?}"),
        }
    };
    let step = || async { node.store.cars("main").await.unwrap()[0].step.clone() };
    // Each step is applied twice: the second changes nothing.
    for _ in 0..2 {
        land(&node, &lander, "t", wait("dirty checkout")).await.unwrap();
        assert_eq!(waiting().await.as_deref(), Some("dirty checkout"));
    }
    for _ in 0..2 {
        land(&node, &lander, "t", intend("m0")).await.unwrap();
        assert_eq!((waiting().await, step().await), (None, CarStep::Intended { intent: intent("m0") }));
    }
    for _ in 0..2 {
        land(&node, &lander, "t", gate("c1")).await.unwrap();
        assert_eq!(step().await, CarStep::Gated { intent: intent("m0"), candidate: Oid::sample("c1") });
    }
    land(&node, &lander, "t", wait("a user moved main")).await.unwrap();
    land(&node, &lander, "t", intend("m1")).await.unwrap();
    land(&node, &lander, "t", gate("c2")).await.unwrap();
    for _ in 0..2 {
        land(&node, &lander, "t", landed("c2")).await.unwrap();
        assert_eq!(node.state("t").await, on_main(1, "c2"));
    }
    assert!(node.store.cars("main").await.unwrap().is_empty());
    assert_eq!(node.ready().await, ["child"]);
    let steps = [wait("dirty checkout"), intend("m0"), gate("c1"), wait("a user moved main"), intend("m1")];
    let steps = steps.into_iter().chain([gate("c2"), landed("c2")]);
    let events = node.events("t").await;
    let told: Vec<_> = events.iter().filter(|event| matches!(event, EventBody::Landing { .. })).collect();
    let expected: Vec<_> =
        steps.map(|landing| EventBody::Landing { landing, target: Some("main".into()) }).collect();
    assert_eq!(told, expected.iter().collect::<Vec<_>>());
}

pub async fn a_step_that_contradicts_the_car_is_a_conflict(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t"), task("plain")]).await;
    node.approve("t").await;
    let lander = elect(&node).await;
    let conflict = |answer: Result<()>| assert!(matches!(answer, Err(StoreError::Conflict(_))), "{answer:?}");
    conflict(land(&node, &lander, "t", gate("c1")).await);
    conflict(land(&node, &lander, "t", landed("c1")).await);
    land(&node, &lander, "t", intend("m0")).await.unwrap();
    conflict(land(&node, &lander, "t", landed("c1")).await);
    land(&node, &lander, "t", gate("c1")).await.unwrap();
    conflict(land(&node, &lander, "t", gate("c2")).await);
    conflict(land(&node, &lander, "t", landed("c2")).await);
    land(&node, &lander, "t", landed("c1")).await.unwrap();
    for step in [landed("c2"), intend("m1"), gate("c1"), wait("x"), reject()] {
        conflict(land(&node, &lander, "t", step).await);
    }
    conflict(land(&node, &lander, "plain", intend("m0")).await);
    let unknown = land(&node, &lander, "nobody", intend("m0")).await;
    assert!(matches!(unknown, Err(StoreError::NotFound(_))), "{unknown:?}");
    assert_eq!(node.state("t").await, on_main(1, "c1"));
}

pub async fn a_rejected_car_leaves_and_its_task_is_blocked(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t"), task("child").after(&["t"])]).await;
    node.approve("t").await;
    let lander = elect(&node).await;
    for _ in 0..2 {
        land(&node, &lander, "t", reject()).await.unwrap();
    }
    let (reason, detail) = (BlockReason::Tests, "red".to_owned());
    assert_eq!(node.state("t").await, TaskState::Blocked { reason, detail: detail.clone() });
    let events = node.events("t").await;
    let tail = [
        EventBody::Landing { landing: reject(), target: Some("main".into()) },
        EventBody::Blocked { reason, detail },
    ];
    assert_eq!(events[events.len() - 2..], tail);
    assert!(node.store.cars("main").await.unwrap().is_empty());
    assert_eq!(node.states(["child"]).await, ["pending"]);
    // The same again from the start.
    node.operate("t", Operation::Requeue { by: "me".into() }).await.unwrap();
    node.approve("t").await;
    assert_eq!(node.store.cars("main").await.unwrap()[0].attempt, 2);
}

pub async fn work_that_is_in_already_counts_as_landed(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    node.approve("t").await;
    let lander = elect(&node).await;
    for _ in 0..2 {
        land(&node, &lander, "t", LandStep::AlreadyIn { commit: Oid::sample("m9") }).await.unwrap();
    }
    assert_eq!(node.state("t").await, on_main(1, "m9"));
    assert!(node.store.cars("main").await.unwrap().is_empty());
}

pub async fn a_lander_that_was_replaced_moves_nothing(fixture: &dyn Fixture) {
    let (a, b) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    a.add(&[task("t")]).await;
    a.approve("t").await;
    let zombie = elect(&a).await;
    land(&a, &zombie, "t", intend("m0")).await.unwrap();
    land(&a, &zombie, "t", gate("c1")).await.unwrap();
    b.expire(&a, None).await;
    let late = land(&a, &zombie, "t", landed("c1")).await;
    assert!(matches!(late, Err(StoreError::SessionExpired)), "{late:?}");
    let cars = b.store.cars("main").await.unwrap();
    assert!(matches!(cars[0].step, CarStep::Gated { .. }), "cars stay as they were");
    let lander = elect(&b).await;
    for forged in [
        Lander { term: zombie.term, ..lander.clone() },
        Lander { term: lander.term + 1, ..lander.clone() },
        Lander { role: "train:elsewhere".into(), ..lander.clone() },
    ] {
        let refused = land(&b, &forged, "t", landed("c1")).await;
        assert!(matches!(refused, Err(StoreError::Fenced(_))), "{forged:?}: {refused:?}");
    }
    // A lander that resigned is refused too, although its session is open.
    b.store.resign(&lander).await.unwrap();
    assert!(matches!(land(&b, &lander, "t", landed("c1")).await, Err(StoreError::Fenced(_))));
    let again = elect(&b).await;
    assert!(again.term > lander.term);
    land(&b, &again, "t", landed("c1")).await.unwrap();
}

pub async fn a_role_lands_on_its_own_target_only(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    node.approve("t").await;
    let other = node.store.elect("train:release", &node.session).await.unwrap().unwrap();
    let refused = land(&node, &other, "t", intend("m0")).await;
    assert!(matches!(refused, Err(StoreError::Invalid(_))), "{refused:?}");
}

pub async fn a_car_can_be_cancelled_until_its_gate_has_passed(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("early"), task("late")]).await;
    node.approve("early").await;
    node.approve("late").await;
    let lander = elect(&node).await;
    for name in ["early", "late"] {
        land(&node, &lander, name, intend("m0")).await.unwrap();
    }
    let cancel = || Operation::Cancel { by: "me".into() };
    node.operate("early", cancel()).await.unwrap();
    let gone = land(&node, &lander, "early", gate("c1")).await;
    assert!(matches!(gone, Err(StoreError::Conflict(_))), "{gone:?}");
    land(&node, &lander, "late", gate("c2")).await.unwrap();
    let refused = node.operate("late", cancel()).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    land(&node, &lander, "late", landed("c2")).await.unwrap();
    assert_eq!(node.states(["early", "late"]).await, ["cancelled", "landed"]);
}

pub async fn cars_keep_the_order_of_their_approval(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&["a", "b", "c"].map(task)).await;
    for name in ["c", "a", "b"] {
        node.approve(name).await;
    }
    let mut cars = node.store.cars("main").await.unwrap();
    cars.sort_by_key(|car| car.seq);
    let names: Vec<_> = cars.iter().map(|car| car.task.as_str()).collect();
    assert_eq!(names, ["c", "a", "b"]);
    let elsewhere =
        Outcome::Approve(regatta_core::train::LandRequest { target: "release".into(), ..landing("h") });
    node.add(&[task("d")]).await;
    node.bring("d", elsewhere).await;
    assert_eq!(node.store.cars("main").await.unwrap().len(), 3);
    assert_eq!(node.store.cars("release").await.unwrap().len(), 1);
}

pub async fn a_batch_of_steps_is_taken_whole_or_not_at_all(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&["a", "b", "c"].map(task)).await;
    for name in ["a", "b", "c"] {
        node.approve(name).await;
    }
    let lander = elect(&node).await;
    let all = |step: fn(&str) -> LandStep, names: &[&str]| -> Vec<_> {
        names.iter().map(|name| (id(name), step(name))).collect()
    };
    let steps = [all(|_| intend("m0"), &["a", "b"]), all(gate, &["a", "b"])].concat();
    node.store.land_all(&lander, &steps, at(6)).await.unwrap();
    // The third has not passed its gate, so none of them lands.
    let refused = node.store.land_all(&lander, &all(landed, &["a", "b", "c"]), at(7)).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    assert_eq!(node.states(["a", "b", "c"]).await, ["landing", "landing", "landing"]);
    for _ in 0..2 {
        node.store.land_all(&lander, &all(landed, &["a", "b"]), at(8)).await.unwrap();
    }
    assert_eq!(node.states(["a", "b", "c"]).await, ["landed", "landed", "landing"]);
}

pub async fn a_bounced_car_goes_back_to_its_agent_with_what_it_conflicts_with(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    node.approve("t").await;
    let lander = elect(&node).await;
    let bounce = LandStep::Bounce {
        onto: Oid::sample("m1"),
        detail: "it conflicts".into(),
        files: vec!["a.txt".into()],
        theirs: "+theirs".into(),
    };
    for _ in 0..2 {
        land(&node, &lander, "t", bounce.clone()).await.unwrap();
    }
    assert_eq!(node.states(["t"]).await, ["pending"]);
    assert!(node.store.cars("main").await.unwrap().is_empty());
    let attempts = node.store.attempts(&id("t")).await.unwrap();
    let bounced =
        Evidence::Bounced { onto: Oid::sample("m1"), files: vec!["a.txt".into()], theirs: "+theirs".into() };
    assert_eq!(attempts[0].evidence.last(), Some(&bounced));
    node.approve("t").await;
    assert_eq!(node.store.cars("main").await.unwrap()[0].attempt, 2);
}

pub async fn what_is_done_or_was_blocked_on_its_way_can_be_landed_after_all(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("done"), task("blocked"), task("fresh"), task("child").after(&["blocked"])]).await;
    node.bring("done", Outcome::Done { head: Some(Oid::sample("h")) }).await;
    node.approve("blocked").await;
    let lander = elect(&node).await;
    land(&node, &lander, "blocked", reject()).await.unwrap();
    let send = || Operation::Land { by: "me".into(), attempt: 1, request: landing("h") };
    for name in ["done", "blocked"] {
        node.operate(name, send()).await.unwrap();
        let refused = node.operate(name, send()).await;
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    }
    // Only a user can accept work whose verdict was not good, and only such work.
    let accept = || Operation::Accept { by: "me".into(), attempt: 1, request: landing("h2") };
    for name in ["done", "fresh"] {
        let refused = node.operate(name, accept()).await;
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    }
    node.add(&[task("doubted")]).await;
    let doubt = Outcome::Block { reason: BlockReason::Verdict, detail: "no".into() };
    node.bring("doubted", doubt).await;
    let refused = node.operate("doubted", send()).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    node.operate("doubted", accept()).await.unwrap();
    assert_eq!(node.states(["doubted"]).await, ["landing"]);
    assert_eq!(node.store.attempts(&id("doubted")).await.unwrap()[0].head, Some(Oid::sample("h2")));
    let refused = node.operate("fresh", send()).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert_eq!(node.states(["done", "blocked", "fresh"]).await, ["landing", "landing", "pending"]);
    for name in ["done", "blocked"] {
        for step in [intend("m0"), gate(name), landed(name)] {
            land(&node, &lander, name, step).await.unwrap();
        }
    }
    assert_eq!(node.ready().await, ["fresh", "child"]);
}

pub async fn a_tree_that_passed_is_remembered_for_its_gate(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    for tree in ["t1", "t2", "t1"] {
        node.store.record_pass("gate", &Oid::sample(tree), at(1)).await.unwrap();
    }
    node.store.record_pass("other", &Oid::sample("t3"), at(1)).await.unwrap();
    assert_eq!(node.store.passes("gate").await.unwrap(), ["t2", "t1"].map(Oid::sample));
    assert!(node.store.passes("nothing").await.unwrap().is_empty());
}
