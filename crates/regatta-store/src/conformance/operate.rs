//! Operations by users.

use regatta_core::event::EventBody;
use regatta_core::node::Requirement;
use regatta_core::state::{ParkReason, TaskState};

use super::Fixture;
use super::node::{Node, QUEUE, at, id, task};
use crate::{Operation, Outcome, RequestId, StoreError};

fn cancel() -> Operation {
    Operation::Cancel { by: "me".into() }
}

pub async fn cancel_ends_what_nobody_holds(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t"), task("held"), task("done")]).await;
    let request = RequestId::fresh();
    for _ in 0..2 {
        node.store.operate(&id("t"), &cancel(), &request, at(1)).await.unwrap();
    }
    assert_eq!(node.state("t").await, TaskState::Cancelled { by: "me".into() });
    assert_eq!(node.happened("t", |event| matches!(event, EventBody::Cancelled { .. })).await, 1);
    assert!(node.try_claim("t").await.unwrap().is_none());
    let again = node.operate("t", cancel()).await;
    assert!(matches!(&again, Err(StoreError::Refused(why)) if why.contains("cancelled")), "{again:?}");
    node.claim("held").await;
    assert!(matches!(node.operate("held", cancel()).await, Err(StoreError::Refused(_))));
    assert_eq!(node.state("held").await.name(), "claimed");
    node.finish("done").await;
    assert!(matches!(node.operate("done", cancel()).await, Err(StoreError::Refused(_))));
    assert!(matches!(node.operate("nobody", cancel()).await, Err(StoreError::NotFound(_))));
}

pub async fn a_holder_is_asked_to_cancel(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    let ask = || Operation::AskCancel { by: "me".into() };
    assert!(matches!(node.operate("t", ask()).await, Err(StoreError::Refused(_))));
    let claim = node.claim("t").await;
    node.operate("t", ask()).await.unwrap();
    let record = node.store.task(&id("t")).await.unwrap();
    assert_eq!((record.state.name(), record.cancel_asked.as_deref()), ("claimed", Some("me")));
    let asked = node.store.events(0, Some(&id("t")), 100).await.unwrap().pop().unwrap();
    assert_eq!((asked.body, asked.attempt), (EventBody::CancelAsked { by: "me".into() }, Some(1)));
    node.settle(&claim, Outcome::Cancel { by: "me".into() }).await.unwrap();
    let record = node.store.task(&id("t")).await.unwrap();
    assert_eq!((record.state.name(), record.cancel_asked), ("cancelled", None));
    node.operate("t", Operation::Requeue { by: "me".into() }).await.unwrap();
    node.claim("t").await;
    assert_eq!(node.store.task(&id("t")).await.unwrap().cancel_asked, None);
}

pub async fn requeue_starts_over_uncharged(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t"), task("held"), task("landing")]).await;
    let requeue = || Operation::Requeue { by: "me".into() };
    let claim = node.claim("t").await;
    let attempt = regatta_core::attempt::Attempt { charged: true, ..super::node::record(&claim) };
    let outcome = Outcome::Fail { why: "used up".into() };
    node.step(&claim, crate::Step::Settled { attempt, outcome }).await.unwrap();
    let request = RequestId::fresh();
    for _ in 0..2 {
        node.store.operate(&id("t"), &requeue(), &request, at(1)).await.unwrap();
    }
    let record = node.store.task(&id("t")).await.unwrap();
    assert_eq!((record.state, record.attempts, record.charged), (TaskState::pending(), 1, 0));
    let enqueued = |event: &EventBody| matches!(event, EventBody::Enqueued { .. });
    assert_eq!(node.happened("t", enqueued).await, 2);
    node.claim("held").await;
    node.approve("landing").await;
    for name in ["held", "landing"] {
        assert!(matches!(node.operate(name, requeue()).await, Err(StoreError::Refused(_))), "{name}");
    }
}

pub async fn park_and_due_hold_back_and_let_go(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    let park = |until| Operation::Park { until, detail: "lunch".into() };
    node.operate("t", park(at(50))).await.unwrap();
    node.operate("t", park(at(70))).await.unwrap();
    let (why, detail) = (ParkReason::Operator, "lunch".to_owned());
    assert_eq!(node.state("t").await, TaskState::Parked { until: at(70), why, detail });
    let request = RequestId::fresh();
    for _ in 0..2 {
        node.store.operate(&id("t"), &Operation::Due, &request, at(1)).await.unwrap();
    }
    assert_eq!(node.state("t").await, TaskState::pending());
    assert!(matches!(node.operate("t", Operation::Due).await, Err(StoreError::Refused(_))));
    node.claim("t").await;
    assert!(matches!(node.operate("t", park(at(90))).await, Err(StoreError::Refused(_))));
}

pub async fn a_task_is_assigned_to_one_node_and_to_any_again(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    let mut new = task("t");
    new.spec.requires = vec![Requirement::Label("gpu".into()), Requirement::node("old")];
    node.add(&[new, task("held"), task("over")]).await;
    let assign = |to: Option<&str>| Operation::Assign { node: to.map(str::to_owned), by: "me".into() };
    let request = RequestId::fresh();
    for _ in 0..2 {
        node.store.operate(&id("t"), &assign(Some("big-1")), &request, at(1)).await.unwrap();
    }
    let requires = || async { node.store.task(&id("t")).await.unwrap().spec.requires };
    assert_eq!(requires().await, [Requirement::Label("gpu".into()), Requirement::node("big-1")]);
    let ready = node.store.ready(QUEUE, None, 9).await.unwrap();
    assert_eq!(ready[0].spec.requires, requires().await);
    node.operate("t", assign(None)).await.unwrap();
    assert_eq!(requires().await, [Requirement::Label("gpu".into())]);
    let assigned = |event: &&EventBody| matches!(event, EventBody::Assigned { .. });
    assert_eq!(node.events("t").await.iter().filter(assigned).count(), 2);
    let claim = node.claim("held").await;
    assert!(matches!(node.operate("held", assign(None)).await, Err(StoreError::Refused(_))));
    node.settle(&claim, Outcome::Done { head: None }).await.unwrap();
    assert!(matches!(node.operate("held", assign(None)).await, Err(StoreError::Refused(_))));
    node.operate("over", Operation::Cancel { by: "me".into() }).await.unwrap();
    assert!(matches!(node.operate("over", assign(Some("x"))).await, Err(StoreError::Refused(_))));
}
