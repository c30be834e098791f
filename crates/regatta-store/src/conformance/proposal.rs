//! Cars that land by a pull request.

use regatta_core::event::EventBody;
use regatta_core::oid::Oid;
use regatta_core::state::{BlockReason, TaskState};
use regatta_core::train::{CarStep, HeldBy, Intent, LandRequest, LandStep, Strategy, Via};

use super::Fixture;
use super::node::{Node, at, id, landing, task};
use crate::{Lander, Operation, Outcome, Result, StoreError};

const ROLE: &str = "forge:main";

fn by_pull_request(head: &str) -> LandRequest {
    LandRequest { via: Via::Pr, ..landing(head) }
}

fn propose(head: &str) -> LandStep {
    LandStep::Propose { head: Oid::sample(head), branch: "regatta/t".into() }
}

fn proposed(head: &str) -> LandStep {
    LandStep::Proposed { head: Oid::sample(head), number: 7, url: "https://x/7".into(), is_new: true }
}

fn merge(head: &str) -> LandStep {
    LandStep::Merge { head: Oid::sample(head), method: Strategy::Squash }
}

fn merged(commit: &str) -> LandStep {
    LandStep::Merged { commit: Oid::sample(commit), number: 7, tested: false }
}

async fn elect(node: &Node) -> Lander {
    node.store.elect(ROLE, &node.session).await.unwrap().expect("nobody else holds the role")
}

async fn land(node: &Node, lander: &Lander, step: LandStep) -> Result<()> {
    node.store.land(lander, &id("t"), &step, at(6)).await
}

async fn step(node: &Node) -> CarStep {
    node.store.cars("main").await.unwrap()[0].step.clone()
}

async fn approve(node: &Node) {
    node.bring("t", Outcome::Approve(by_pull_request("h1"))).await;
}

pub async fn a_pull_request_goes_its_way_and_lands_its_task(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t"), task("child").after(&["t"])]).await;
    approve(&node).await;
    assert_eq!(node.store.cars("main").await.unwrap()[0].request, by_pull_request("h1"));
    let lander = elect(&node).await;
    // Each step is applied twice: the second changes nothing.
    for _ in 0..2 {
        land(&node, &lander, propose("h1")).await.unwrap();
        assert_eq!(step(&node).await, CarStep::Proposing { head: Oid::sample("h1") });
    }
    for _ in 0..2 {
        land(&node, &lander, proposed("h1")).await.unwrap();
        assert_eq!(step(&node).await, CarStep::Proposed { head: Oid::sample("h1") });
    }
    let wait = LandStep::Wait { why: "checks".into(), held_by: HeldBy::Forge };
    land(&node, &lander, wait.clone()).await.unwrap();
    for _ in 0..2 {
        land(&node, &lander, merge("h1")).await.unwrap();
        let merging = CarStep::Merging { head: Oid::sample("h1"), method: Strategy::Squash };
        assert_eq!(step(&node).await, merging);
    }
    assert_eq!(node.ready().await, [""; 0], "the dependent waits for the merge");
    for _ in 0..2 {
        land(&node, &lander, merged("m1")).await.unwrap();
        let (commit, target) = (Oid::sample("m1"), Some("main".into()));
        assert_eq!(node.state("t").await, TaskState::Landed { attempt: 1, commit, target });
    }
    assert_eq!(node.store.cars("main").await.unwrap(), []);
    assert_eq!(node.ready().await, ["child"]);
    let events = node.events("t").await;
    let told: Vec<_> = events.iter().filter(|event| matches!(event, EventBody::Landing { .. })).collect();
    let steps = [propose("h1"), proposed("h1"), wait, merge("h1"), merged("m1")];
    let expected = steps.map(|landing| EventBody::Landing { landing, target: Some("main".into()) });
    assert_eq!(told, expected.iter().collect::<Vec<_>>());
}

pub async fn a_person_may_merge_at_any_time(fixture: &dyn Fixture) {
    for before in [vec![propose("h1")], vec![propose("h1"), proposed("h1")], Vec::new()] {
        let node = Node::join(fixture, "a").await;
        node.add(&[task("t").or(crate::IfPresent::Restart)]).await;
        approve(&node).await;
        let lander = elect(&node).await;
        for step in before {
            land(&node, &lander, step).await.unwrap();
        }
        land(&node, &lander, merged("m1")).await.unwrap();
        assert_eq!(node.states(["t"]).await, ["landed"]);
        node.store.close_session(&node.session, at(7)).await.unwrap();
    }
}

pub async fn steps_of_a_pull_request_contradict_others(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t"), task("plain")]).await;
    approve(&node).await;
    let lander = elect(&node).await;
    let conflict = |answer: Result<()>| assert!(matches!(answer, Err(StoreError::Conflict(_))), "{answer:?}");
    conflict(land(&node, &lander, proposed("h1")).await);
    conflict(land(&node, &lander, merge("h1")).await);
    land(&node, &lander, propose("h1")).await.unwrap();
    conflict(land(&node, &lander, proposed("h2")).await);
    conflict(land(&node, &lander, LandStep::Gate { candidate: Oid::sample("c"), note: String::new() }).await);
    land(&node, &lander, proposed("h1")).await.unwrap();
    conflict(land(&node, &lander, merge("h2")).await);
    land(&node, &lander, merge("h1")).await.unwrap();
    conflict(land(&node, &lander, propose("h2")).await);
    // Its branch has moved: it was not merged.
    land(&node, &lander, proposed("h1")).await.unwrap();
    land(&node, &lander, propose("h2")).await.unwrap();
    // The two kinds of cars have landers of their own.
    let train = node.store.elect("train:main", &node.session).await.unwrap().unwrap();
    let foreign = node.store.land(&train, &id("t"), &propose("h3"), at(6)).await;
    assert!(matches!(foreign, Err(StoreError::Invalid(_))), "{foreign:?}");
    node.approve("plain").await;
    let intend = LandStep::Intend { intent: Intent { onto: None, at: at(1) } };
    let foreign = node.store.land(&lander, &id("plain"), &intend, at(6)).await;
    assert!(matches!(foreign, Err(StoreError::Invalid(_))), "{foreign:?}");
}

pub async fn what_is_said_takes_a_proposed_change_back_to_its_agent(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    approve(&node).await;
    let lander = elect(&node).await;
    land(&node, &lander, propose("h1")).await.unwrap();
    land(&node, &lander, proposed("h1")).await.unwrap();
    let sent = node.send("t", "x").await.unwrap();
    assert!(sent.rearmed);
    assert_eq!(node.store.cars("main").await.unwrap(), []);
    let claim = node.claim("t").await;
    assert_eq!((claim.charged, claim.prompt.as_ref().unwrap().text.as_str()), (0, "x"));
    // The lander that looked at it meanwhile moves nothing.
    let late = land(&node, &lander, merge("h1")).await;
    assert!(matches!(late, Err(StoreError::Conflict(_))), "{late:?}");
    node.settle_started(&claim, Outcome::Approve(by_pull_request("h2"))).await;
    let cars = node.store.cars("main").await.unwrap();
    assert_eq!((&cars[0].step, &cars[0].request.head), (&CarStep::Queued, &Oid::sample("h2")));
    // While it is being merged, it waits.
    land(&node, &lander, propose("h2")).await.unwrap();
    land(&node, &lander, proposed("h2")).await.unwrap();
    land(&node, &lander, merge("h2")).await.unwrap();
    assert!(!node.send("t", "y").await.unwrap().rearmed);
    assert_eq!(node.states(["t"]).await, ["landing"]);
    let cancel = node.operate("t", Operation::Cancel { by: "me".into() }).await;
    assert!(matches!(cancel, Err(StoreError::Refused(_))), "{cancel:?}");
    land(&node, &lander, merged("m1")).await.unwrap();
    assert_eq!(node.states(["t"]).await, ["pending"]);
}

pub async fn a_declined_change_can_board_again(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t"), task("child").after(&["t"])]).await;
    approve(&node).await;
    let lander = elect(&node).await;
    land(&node, &lander, propose("h1")).await.unwrap();
    land(&node, &lander, proposed("h1")).await.unwrap();
    let reason = BlockReason::Declined;
    let declined = LandStep::Reject { reason, detail: "#7 was closed".into(), files: Vec::new() };
    for _ in 0..2 {
        land(&node, &lander, declined.clone()).await.unwrap();
        let blocked = TaskState::Blocked { reason, detail: "#7 was closed".into() };
        assert_eq!(node.state("t").await, blocked);
    }
    assert_eq!(node.states(["child"]).await, ["pending"]);
    let board = Operation::Land { attempt: 1, request: by_pull_request("h1"), by: "me".into() };
    node.operate("t", board).await.unwrap();
    land(&node, &lander, merged("m1")).await.unwrap();
    assert_eq!(node.ready().await, ["child"]);
}
