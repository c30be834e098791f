//! Claiming tasks.

use regatta_core::event::EventBody;
use regatta_core::state::{StateName, TaskState};

use super::Fixture;
use super::node::{Node, QUEUE, at, id, record, task};
use crate::{Outcome, StoreError};

pub async fn two_sessions_never_hold_one_task(fixture: &dyn Fixture) {
    let (a, b) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    for round in 0..60 {
        let name = format!("t{round}");
        a.add(&[task(&name)]).await;
        let (x, y) = tokio::join!(a.try_claim(&name), b.try_claim(&name));
        let (x, y) = (x.unwrap(), y.unwrap());
        assert!(x.is_some() != y.is_some(), "round {round}: {x:?} {y:?}");
        assert_eq!(a.happened(&name, |event| matches!(event, EventBody::Claimed { .. })).await, 1);
    }
}

pub async fn eight_clients_take_every_task_once(fixture: &dyn Fixture) {
    const TASKS: usize = 160;
    let first = Node::join(fixture, "first").await;
    let tasks: Vec<_> = (0..TASKS).map(|n| task(&format!("t{n}")).priority(n as i32 % 3)).collect();
    first.add(&tasks).await;
    let mut clients = Vec::new();
    for n in 0..8 {
        let node = Node::join(fixture, &format!("n{n}")).await;
        clients.push(tokio::spawn(async move {
            let mut taken = Vec::new();
            loop {
                let ready = node.store.ready(QUEUE, None, 8).await.unwrap();
                let Some(ready) = ready.get(n % ready.len().max(1)) else { return taken };
                let name = ready.spec.id.to_string();
                if let Some(claim) = node.try_claim(&name).await.unwrap() {
                    node.settle(&claim, Outcome::Done { head: None }).await.unwrap();
                    taken.push(name);
                }
            }
        }));
    }
    let mut taken = Vec::new();
    for client in clients {
        taken.extend(client.await.unwrap());
    }
    assert_eq!(taken.len(), TASKS);
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len(), TASKS);
    assert_eq!(first.store.counts(None).await.unwrap(), [(StateName::Done, TASKS as u64)]);
}

pub async fn the_same_request_gets_the_same_claim(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    let request = node.asking_for("t");
    let claim = node.store.claim(&request, at(1)).await.unwrap().unwrap();
    assert_eq!(node.store.claim(&request, at(2)).await.unwrap().as_ref(), Some(&claim));
    node.start(&claim).await;
    assert_eq!(node.store.claim(&request, at(3)).await.unwrap().as_ref(), Some(&claim));
    assert_eq!(node.store.claims_of(&node.session).await.unwrap(), [claim]);
}

pub async fn a_request_is_good_for_one_claim_only(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    let request = node.asking_for("t");
    let claim = node.store.claim(&request, at(1)).await.unwrap().unwrap();
    node.settle(&claim, Outcome::Release { why: "drain".into() }).await.unwrap();
    assert_eq!(node.ready().await, ["t"]);
    assert!(node.store.claim(&request, at(2)).await.unwrap().is_none());
    let next = node.claim("t").await;
    assert!(next.fence > claim.fence && next.attempt == claim.attempt + 1);
}

pub async fn what_is_not_ready_is_not_given(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("parent"), task("child").after(&["parent"]), task("done"), task("failed")]).await;
    node.finish("done").await;
    node.fail("failed").await;
    for name in ["child", "done", "failed"] {
        assert!(node.try_claim(name).await.unwrap().is_none(), "{name}");
    }
    assert!(matches!(node.try_claim("nobody").await, Err(StoreError::NotFound(_))));
}

pub async fn a_claim_says_all_that_its_holder_needs(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t").priority(3)]).await;
    let claim = node.claim("T").await;
    assert_eq!((claim.task.as_str(), claim.attempt), ("t", 1));
    assert_eq!((&claim.session, claim.spec.priority), (&node.session, 3));
    assert_eq!((claim.charged, claim.environment_failures), (0, 0));
    assert_eq!(node.state("t").await, TaskState::Claimed { attempt: 1 });
    assert_eq!(node.store.attempts(&id("t")).await.unwrap(), [record(&claim)]);
    assert_eq!(node.store.task(&id("t")).await.unwrap().session.as_ref(), Some(&node.session));
    let events = node.events("t").await;
    assert_eq!(events.last(), Some(&EventBody::Claimed { node: "a".into() }));
}
