//! Limits over all engines of a project, and tasks whose holders are lost repeatedly.

use std::time::Duration;

use regatta_core::event::EventBody;
use regatta_core::state::{BlockReason, TaskState};
use regatta_core::writes::WritePath;

use super::Fixture;
use super::node::{Node, at, id, node_info, task};
use crate::{
    Claim, ClaimLimits, ClaimRequest, Held, LOST_LEASES, NewTask, NodeInfo, Outcome, RequestId, Result,
    SessionId, StoreError,
};

fn grouped(name: &str, group: &str) -> NewTask {
    let mut new = task(name);
    new.spec.concurrency_group = Some(group.into());
    new
}

fn writing(name: &str, path: &str) -> NewTask {
    let mut new = task(name);
    new.spec.writes = vec![WritePath::parse(path).expect("a path")];
    new
}

fn at_most(max: u32) -> ClaimLimits {
    ClaimLimits { max_workers: Some(max), ..ClaimLimits::default() }
}

async fn try_within(node: &Node, name: &str, limits: &ClaimLimits, millis: i64) -> Result<Option<Claim>> {
    let request = ClaimRequest { limits: Some(limits.clone()), ..node.asking_for(name) };
    node.store.claim(&request, at(millis)).await
}

async fn within(node: &Node, name: &str, limits: &ClaimLimits) -> Claim {
    let claim = try_within(node, name, limits, 2).await.expect("within the limits");
    claim.unwrap_or_else(|| panic!("{name} is not ready"))
}

#[track_caller]
fn held(answer: Result<Option<Claim>>) -> Held {
    match answer {
        Err(StoreError::Held(held)) => *held,
        other => panic!("it was not held back: {other:?}"),
    }
}

pub async fn agents_of_all_engines_count(fixture: &dyn Fixture) {
    let (a, b) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    a.add(&[task("w"), task("x"), task("y"), task("z")]).await;
    within(&a, "w", &at_most(3)).await;
    within(&a, "x", &at_most(3)).await;
    let y = within(&b, "y", &at_most(3)).await;
    let why = held(try_within(&b, "z", &at_most(3), 2).await);
    assert_eq!(why.to_string(), "max_workers 3 reached: 2 in the daemon, 1 in the daemon");
    let Held::Workers { max: 3, holders } = why else { panic!("{why:?}") };
    let of: Vec<_> = holders.iter().map(|holder| (&holder.session, holder.claims)).collect();
    assert_eq!(of, [(&a.session, 2), (&b.session, 1)]);
    // Each engine decides by its own limits, and the refused task has not changed.
    assert_eq!(a.ready().await, ["z"]);
    assert!(a.events("z").await.iter().all(|event| matches!(event, EventBody::Enqueued { .. })));
    b.settle(&y, Outcome::Done { head: None }).await.unwrap();
    within(&b, "z", &at_most(3)).await;
}

pub async fn slots_are_counted_by_node_and_the_total_over_all(fixture: &dyn Fixture) {
    let a = Node::join(fixture, "a").await;
    let b = SessionId::fresh("b");
    let info = NodeInfo { node_id: Some("b".into()), place: Some("clone".into()), ..node_info("elsewhere") };
    a.store.open_session(&b, &info, at(1)).await.unwrap();
    a.add(&[task("x"), task("y"), task("z")]).await;
    within(&a, "x", &at_most(1)).await;
    let of_b = |name: &str, total: Option<u32>| {
        let limits = ClaimLimits { node: Some("b".into()), total, ..at_most(1) };
        ClaimRequest { session: b.clone(), limits: Some(limits), ..a.asking_for(name) }
    };
    let why = held(a.store.claim(&of_b("y", Some(1)), at(2)).await);
    assert_eq!(why.to_string(), "limits.workers_total 1 reached: 1 in the daemon");
    a.store.claim(&of_b("y", Some(2)), at(2)).await.unwrap().unwrap();
    let why = held(a.store.claim(&of_b("z", None), at(2)).await);
    assert_eq!(why.to_string(), format!("max_workers 1 reached: 1 in the daemon on {}", info.node));
}

pub async fn a_request_that_was_held_back_may_be_repeated(fixture: &dyn Fixture) {
    let (a, b) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    a.add(&[task("x"), task("y")]).await;
    let x = within(&a, "x", &at_most(1)).await;
    let request = ClaimRequest { limits: Some(at_most(1)), ..b.asking_for("y") };
    held(b.store.claim(&request, at(2)).await);
    a.settle(&x, Outcome::Done { head: None }).await.unwrap();
    let claim = b.store.claim(&request, at(3)).await.unwrap().unwrap();
    // The answer stays the same, whatever is full by then.
    assert_eq!(b.store.claim(&request, at(4)).await.unwrap(), Some(claim));
}

pub async fn a_group_is_full_whoever_filled_it(fixture: &dyn Fixture) {
    let (a, b) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    a.add(&[grouped("x", "db"), grouped("y", "db"), grouped("z", "web")]).await;
    let limits = ClaimLimits { group: Some(1), ..at_most(9) };
    within(&a, "x", &limits).await;
    let why = held(try_within(&b, "y", &limits, 2).await);
    assert!(matches!(&why, Held::Group { group, max: 1, .. } if group == "db"), "{why:?}");
    within(&b, "z", &limits).await;
    within(&b, "y", &ClaimLimits { group: Some(2), ..limits }).await;
}

pub async fn places_that_are_written_to_elsewhere_are_kept_clear(fixture: &dyn Fixture) {
    let (a, b) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    a.add(&[writing("x", "src/"), writing("y", "src/main.rs"), writing("z", "docs/")]).await;
    let x = within(&a, "x", &at_most(9)).await;
    let why = held(try_within(&b, "y", &at_most(9), 2).await);
    assert_eq!(why.to_string(), "x writes src, in the daemon");
    within(&b, "z", &at_most(9)).await;
    // Work on its way to the target is merged by the train, so its writes no longer count.
    a.settle(&x, Outcome::Done { head: None }).await.unwrap();
    within(&b, "y", &at_most(9)).await;
}

pub async fn a_spec_that_was_replaced_is_compared_as_it_is_now(fixture: &dyn Fixture) {
    let (a, b) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    a.add(&[writing("x", "src/"), writing("y", "docs/")]).await;
    a.add(&[writing("y", "src/y.rs").or(crate::IfPresent::Restart)]).await;
    within(&a, "x", &at_most(9)).await;
    held(try_within(&b, "y", &at_most(9), 2).await);
}

pub async fn engines_that_claim_at_once_exceed_nothing(fixture: &dyn Fixture) {
    const MAX: u32 = 3;
    let first = Node::join(fixture, "first").await;
    let tasks: Vec<_> = (0..40).map(|n| task(&format!("t{n}"))).collect();
    first.add(&tasks).await;
    let mut engines = Vec::new();
    for n in 0..4 {
        let node = Node::join(fixture, &format!("n{n}")).await;
        engines.push(tokio::spawn(async move {
            loop {
                let ready = node.ready().await;
                let Some(name) = ready.get(n % ready.len().max(1)) else { return };
                match try_within(&node, name, &at_most(MAX), 2).await {
                    Ok(Some(claim)) => {
                        let mut held = 0;
                        for info in node.store.sessions().await.unwrap() {
                            held += node.store.claims_of(&info.session).await.unwrap().len();
                        }
                        // The sessions are read at different moments. At each moment at most `MAX` are held, so the sum
                        // is at most four times that.
                        assert!(held <= 4 * MAX as usize);
                        node.settle(&claim, Outcome::Done { head: None }).await.unwrap();
                    }
                    Ok(None) | Err(StoreError::Held(_)) => tokio::task::yield_now().await,
                    Err(error) => panic!("{error}"),
                }
            }
        }));
    }
    for engine in engines {
        engine.await.unwrap();
    }
    // Check the limit in the order of the events.
    let mut at_work = 0u32;
    for event in first.store.events(0, None, 10_000).await.unwrap() {
        match event.body {
            EventBody::Claimed { .. } => at_work += 1,
            EventBody::Done { .. } => at_work -= 1,
            _ => {}
        }
        assert!(at_work <= MAX, "{event:?}");
    }
}

pub async fn the_pause_between_two_starts_is_everybodys(fixture: &dyn Fixture) {
    let (a, b) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    a.add(&[task("x"), task("y"), task("z")]).await;
    let limits = ClaimLimits { stagger: Some(Duration::from_secs(5)), ..at_most(9) };
    try_within(&a, "x", &limits, 100_000).await.unwrap().unwrap();
    let why = held(try_within(&b, "y", &limits, 102_000).await);
    assert_eq!(why, Held::Stagger { left: Duration::from_secs(3) });
    try_within(&b, "y", &limits, 105_000).await.unwrap().unwrap();
    // A clock that was set back delays no engine for hours.
    try_within(&a, "z", &limits, 50_000).await.unwrap().unwrap();
}

pub async fn what_a_member_holds_is_no_agent(fixture: &dyn Fixture) {
    let engine = Node::join(fixture, "a").await;
    engine.add(&[writing("x", "src/"), writing("y", "src/")]).await;
    let session = SessionId::fresh("member");
    let name = regatta_core::crew::MemberName::parse("tom").expect("a name");
    engine.store.open_session(&session, &NodeInfo::of_beats("a", &name), at(1)).await.unwrap();
    let member = Node { store: engine.store.clone(), session };
    member.claim("x").await;
    within(&engine, "y", &at_most(1)).await;
}

pub async fn what_the_dead_left_is_not_counted_where_somebody_says_so(fixture: &dyn Fixture) {
    let (a, b) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    a.add(&[writing("x", "src/"), writing("y", "src/")]).await;
    within(&a, "x", &at_most(1)).await;
    held(try_within(&b, "y", &at_most(1), 2).await);
    within(&b, "y", &ClaimLimits { uncounted: vec![id("x")], ..at_most(1) }).await;
}

pub async fn a_task_whose_holders_go_again_and_again_is_blocked(fixture: &dyn Fixture) {
    let judge = Node::join(fixture, "judge").await;
    judge.add(&[task("t")]).await;
    let lose = async || {
        let node = Node::join(fixture, "n").await;
        let claim = node.claim("t").await;
        node.start(&claim).await;
        judge.expire(&node, None).await;
    };
    for _ in 1..LOST_LEASES {
        lose().await;
        assert_eq!(judge.states(["t"]).await, ["pending"]);
    }
    // An attempt that ends by itself resets the count; an ordinary release does not.
    judge.bring("t", Outcome::Release { why: "drain".into() }).await;
    let claim = judge.claim("t").await;
    let retry = Outcome::Retry {
        not_before: None,
        class: regatta_core::failure::FailureClass::Work,
        why: "no".into(),
    };
    judge.settle(&claim, retry).await.unwrap();
    for _ in 1..LOST_LEASES {
        lose().await;
    }
    assert_eq!(judge.states(["t"]).await, ["pending"]);
    lose().await;
    let state = judge.state("t").await;
    let TaskState::Blocked { reason: BlockReason::Policy, ref detail, .. } = state else {
        panic!("{state:?}")
    };
    assert!(detail.contains("5 in a row"), "{detail}");
    let record = judge.store.task(&id("t")).await.unwrap();
    assert_eq!((record.charged, record.session), (0, None));
    // A user who requeues it resets the count.
    let requeue = crate::Operation::Requeue { by: "me".into() };
    judge.store.operate(&id("t"), &requeue, &RequestId::fresh(), at(6)).await.unwrap();
    lose().await;
    assert_eq!(judge.states(["t"]).await, ["pending"]);
}
