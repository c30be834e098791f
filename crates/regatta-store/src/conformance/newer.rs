//! What a newer version has written, and this one keeps.

use regatta_core::attempt::Attempt;
use regatta_core::oid::Oid;
use regatta_core::session::SessionKind;
use regatta_core::train::{Intent, LandStep};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Fixture;
use super::node::{Node, at, id, landing, node_info, record, task};
use crate::{NewTask, Operation, Outcome, SessionId, Step};

/// The field that only the newer version knows.
const FIELD: &str = "sail";

fn value() -> Value {
    json!({"red": [1, 2.5, null], "n": "\u{0} \u{10FFFF}"})
}

/// The same as a newer version would have it.
fn newer<T: Serialize + DeserializeOwned>(it: &T) -> T {
    let mut fields = serde_json::to_value(it).expect("a record is JSON");
    fields[FIELD] = value();
    serde_json::from_value(fields).expect("what is not known is no mistake")
}

/// What this version has kept of it.
#[track_caller]
fn has_kept<T: Serialize>(it: &T) {
    let fields = serde_json::to_value(it).expect("a record is JSON");
    assert_eq!(fields[FIELD], value(), "{fields}");
}

fn attempt_with_field(attempt: &Attempt) -> Attempt {
    newer(attempt)
}

pub async fn a_spec_keeps_what_this_version_does_not_know(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    let plain = task("t");
    node.add(&[NewTask { spec: newer(&plain.spec), ..plain }]).await;
    has_kept(&node.store.ready("main", None, 10).await.unwrap()[0].spec);
    for to in [Some("big-1".to_owned()), None] {
        node.operate("t", Operation::Assign { node: to, by: "me".into() }).await.unwrap();
        let spec = node.store.task(&id("t")).await.unwrap().spec;
        has_kept(&spec);
    }
    has_kept(&node.claim("t").await.spec);
}

pub async fn an_attempt_keeps_what_this_version_does_not_know(fixture: &dyn Fixture) {
    let (node, judge) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    node.add(&[task("t")]).await;
    let claim = node.claim("t").await;
    let started = Step::Started { attempt: attempt_with_field(&record(&claim)), pid: 7 };
    node.step(&claim, started).await.unwrap();
    let kept = async || has_kept(&node.store.attempts(&id("t")).await.unwrap()[0]);
    kept().await;
    // A caller that writes the whole record has not read it before.
    let plain = Attempt { summary: "more is known".into(), ..record(&claim) };
    node.step(&claim, Step::Update(plain)).await.unwrap();
    kept().await;
    assert_eq!(node.store.attempts(&id("t")).await.unwrap()[0].summary, "more is known");
    judge.expire(&node, None).await;
    kept().await;
    node.store
        .operate(&id("t"), &Operation::EndConversations, &crate::RequestId::fresh(), at(9))
        .await
        .unwrap();
    let attempts = node.store.attempts(&id("t")).await.unwrap();
    has_kept(&attempts[0]);
    assert!(attempts[0].conversation_over && attempts[0].exit.is_some(), "{attempts:?}");
}

pub async fn a_bounced_attempt_and_its_car_keep_what_this_version_does_not_know(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    let claim = node.claim("t").await;
    let outcome = Outcome::Approve(newer(&landing("h")));
    let attempt = attempt_with_field(&record(&claim));
    node.step(&claim, Step::Settled { attempt, outcome }).await.unwrap();
    let lander = node.store.elect("train:main", &node.session).await.unwrap().unwrap();
    let intent = Intent { onto: Some(Oid::sample("tip")), at: at(6) };
    let gate = LandStep::Gate { candidate: Oid::sample("c"), note: "green".into() };
    for step in [LandStep::Intend { intent }, gate] {
        node.store.land(&lander, &id("t"), &step, at(6)).await.unwrap();
        has_kept(&node.store.cars("main").await.unwrap()[0].request);
    }
    let bounce = LandStep::Bounce {
        onto: Oid::sample("tip"),
        detail: "both changed a.txt".into(),
        files: vec!["a.txt".into()],
        theirs: "x".into(),
    };
    node.store.land(&lander, &id("t"), &bounce, at(7)).await.unwrap();
    let attempts = node.store.attempts(&id("t")).await.unwrap();
    has_kept(&attempts[0]);
    assert_eq!(attempts[0].evidence.len(), 1);
}

pub async fn a_session_of_a_newer_version_is_read_and_ended(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    let session = SessionId::fresh("newer");
    let mut info = newer(&node_info("n"));
    info.kind = SessionKind::Unknown(json!({"pilot": "Tom"}));
    node.store.open_session(&session, &info, at(1)).await.unwrap();
    let other = Node { store: node.store.clone(), session: session.clone() };
    node.add(&[task("t")]).await;
    other.claim("t").await;
    let found = node.store.sessions().await.unwrap();
    let found = found.into_iter().find(|found| found.session == session).expect("it is open");
    assert_eq!(found.node, info);
    has_kept(&found.node);
    assert_eq!(node.expire(&other, None).await, [id("t")]);
    assert_eq!(node.ready().await, ["t"]);
}
