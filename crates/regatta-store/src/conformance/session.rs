//! Sessions.

use std::sync::Arc;

use regatta_core::event::EventBody;

use super::Fixture;
use super::node::{Node, at, id, node_info, task};
use crate::{NodeInfo, Outcome, SessionId, Store, StoreError, Word, WorkerReport};

pub async fn opening_twice_changes_nothing(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    let beat = node.store.renew(&node.session).await.unwrap();
    node.store.open_session(&node.session, &node_info("a"), at(1)).await.unwrap();
    assert_eq!(node.beat_of(&node).await, beat);
    assert_eq!(node.store.sessions().await.unwrap().len(), 1);
}

pub async fn a_session_that_expired_is_never_opened_again(fixture: &dyn Fixture) {
    let (a, b) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    b.expire(&a, None).await;
    let again = a.store.open_session(&a.session, &node_info("a"), at(1)).await;
    assert!(matches!(again, Err(StoreError::SessionExpired)), "{again:?}");
    assert!(matches!(a.store.renew(&a.session).await, Err(StoreError::SessionExpired)));
    assert!(matches!(a.store.elect("r", &a.session).await, Err(StoreError::SessionExpired)));
    a.add(&[task("t")]).await;
    assert!(matches!(a.try_claim("t").await, Err(StoreError::SessionExpired)));
}

pub async fn a_session_that_was_closed_is_never_opened_again(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.store.close_session(&node.session, at(1)).await.unwrap();
    node.store.close_session(&node.session, at(1)).await.unwrap();
    let again = node.store.open_session(&node.session, &node_info("a"), at(1)).await;
    assert!(matches!(again, Err(StoreError::SessionExpired)), "{again:?}");
    assert!(node.store.sessions().await.unwrap().is_empty());
}

pub async fn a_session_that_never_was_can_do_nothing(fixture: &dyn Fixture) {
    let store = fixture.machine().await;
    let nobody = SessionId("nobody".into());
    assert!(matches!(store.renew(&nobody).await, Err(StoreError::SessionExpired)));
    assert!(matches!(store.elect("r", &nobody).await, Err(StoreError::SessionExpired)));
    assert!(store.claims_of(&nobody).await.unwrap().is_empty());
}

pub async fn expiry_compares_the_beat(fixture: &dyn Fixture) {
    let (a, b) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    let seen = b.beat_of(&a).await;
    let now = a.store.renew(&a.session).await.unwrap();
    assert_ne!(seen, now);
    let stale = b.store.expire_session(&a.session, seen, None, at(1)).await;
    assert!(matches!(stale, Err(StoreError::Conflict(_))), "{stale:?}");
    a.store.renew(&a.session).await.unwrap();
    b.expire(&a, None).await;
    assert!(matches!(a.store.renew(&a.session).await, Err(StoreError::SessionExpired)));
}

pub async fn expiring_twice_names_the_same_tasks(fixture: &dyn Fixture) {
    let (a, b) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    a.add(&[task("x"), task("y"), task("z")]).await;
    a.claim("x").await;
    a.claim("z").await;
    let beat = b.beat_of(&a).await;
    for _ in 0..2 {
        let held = b.store.expire_session(&a.session, beat, None, at(1)).await.unwrap();
        assert_eq!(held, [id("x"), id("z")]);
    }
    assert_eq!(b.happened("x", |event| matches!(event, EventBody::Released { .. })).await, 1);
}

pub async fn expiry_releases_claims_uncharged(fixture: &dyn Fixture) {
    let (a, b) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    a.add(&[task("t")]).await;
    let claim = a.claim("t").await;
    a.start(&claim).await;
    b.expire(&a, None).await;
    let record = b.store.task(&id("t")).await.unwrap();
    assert_eq!((record.state.name(), record.session), ("pending", None));
    assert_eq!((record.attempts, record.charged), (1, 0));
    let late = a.settle(&claim, Outcome::Done { head: None }).await;
    assert!(matches!(late, Err(StoreError::SessionExpired)), "{late:?}");
    let next = b.claim("t").await;
    assert!(next.fence > claim.fence && next.attempt == 2);
    let attempts = b.store.attempts(&id("t")).await.unwrap();
    assert!(attempts[0].ended_at.is_some(), "the attempt that was lost has ended");
}

pub async fn closing_releases_claims_and_frees_roles(fixture: &dyn Fixture) {
    let (a, b) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    a.add(&[task("t")]).await;
    a.claim("t").await;
    let term = a.store.elect("r", &a.session).await.unwrap().unwrap().term;
    assert!(b.store.elect("r", &b.session).await.unwrap().is_none());
    a.store.close_session(&a.session, at(1)).await.unwrap();
    assert_eq!(b.ready().await, ["t"]);
    assert!(b.store.elect("r", &b.session).await.unwrap().unwrap().term > term);
    assert_eq!(b.happened("t", |event| matches!(event, EventBody::Released { .. })).await, 1);
}

pub async fn an_heir_keeps_attempt_and_token_and_fences_the_old_owner(fixture: &dyn Fixture) {
    let (a, b) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    a.add(&[task("t")]).await;
    let old = a.claim("t").await;
    a.start(&old).await;
    assert_eq!(b.expire(&a, Some(&b.session)).await, [id("t")]);
    let claims = b.store.claims_of(&b.session).await.unwrap();
    let [new] = claims.as_slice() else { panic!("{claims:?}") };
    assert_eq!((new.attempt, &new.session), (old.attempt, &b.session));
    assert!(new.fence > old.fence);
    assert_eq!(b.state("t").await.name(), "running");
    let late = a.settle(&old, Outcome::Done { head: None }).await;
    assert!(matches!(late, Err(StoreError::SessionExpired)), "{late:?}");
    // The old claim is invalid even in the heir's session.
    let borrowed = crate::Claim { session: b.session.clone(), ..old.clone() };
    let refused = b.settle(&borrowed, Outcome::Done { head: None }).await;
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
    // The worker is still alive, and its reports are accepted.
    let word = Word::Progress { label: "half".into(), detail: None, phase: None };
    let report = WorkerReport { task: id("t"), attempt: 1, token_hash: "token of t".into(), word };
    b.store.report(&report, &crate::RequestId::fresh(), at(6)).await.unwrap();
    assert_eq!(b.happened("t", |event| matches!(event, EventBody::Adopted { .. })).await, 1);
    b.settle(new, Outcome::Done { head: None }).await.unwrap();
    assert_eq!(b.state("t").await.name(), "done");
}

pub async fn an_heir_that_is_gone_inherits_nothing(fixture: &dyn Fixture) {
    let (a, b) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    a.add(&[task("t")]).await;
    a.claim("t").await;
    let beat = b.beat_of(&a).await;
    b.store.close_session(&b.session, at(1)).await.unwrap();
    let refused = b.store.expire_session(&a.session, beat, Some(&b.session), at(1)).await;
    assert!(matches!(refused, Err(StoreError::SessionExpired)), "{refused:?}");
    let refused = b.store.expire_session(&a.session, beat, Some(&a.session), at(1)).await;
    assert!(matches!(refused, Err(StoreError::Invalid(_))), "{refused:?}");
    assert_eq!(a.store.claims_of(&a.session).await.unwrap().len(), 1, "nothing was changed");
}

/// A session of an engine on a node that shares the store.
async fn engine(store: &Arc<dyn Store>, node: &str) -> Node {
    let session = SessionId::fresh(node);
    let info = NodeInfo { lease_ms: Some(60_000), node_id: Some(format!("id of {node}")), ..node_info(node) };
    store.open_session(&session, &info, at(1)).await.unwrap();
    // Repeated, as after an answer that was lost.
    store.open_session(&session, &info, at(1)).await.unwrap();
    Node { store: store.clone(), session }
}

/// What happened to nodes so far.
async fn of_nodes(store: &Arc<dyn Store>) -> Vec<String> {
    let events = store.events(0, None, 1000).await.unwrap();
    let words = events.iter().filter_map(|event| match &event.body {
        EventBody::NodeJoined { node } => Some(format!("{node} joined")),
        EventBody::NodeLost { node, released } => Some(format!("{node} lost, {released} released")),
        _ => None,
    });
    words.collect()
}

pub async fn a_node_joins_with_its_first_engine_and_is_lost_with_its_last(fixture: &dyn Fixture) {
    let store = fixture.machine().await;
    let judge = Node::over(fixture.machine().await, "judge").await;
    let daemon = engine(&store, "a").await;
    let other = engine(&store, "b").await;
    let run = engine(&store, "a").await;
    assert_eq!(of_nodes(&store).await, ["a joined", "b joined"], "without a lease there is no node");
    daemon.add(&[task("x"), task("y"), task("z")]).await;
    daemon.claim("x").await;
    daemon.claim("y").await;
    run.claim("z").await;
    judge.expire(&run, None).await;
    assert_eq!(of_nodes(&store).await.len(), 2, "another engine of that node is there");
    // An heir continues what it held.
    let heir = engine(&store, "a").await;
    heir.expire(&daemon, Some(&heir.session)).await;
    assert_eq!(of_nodes(&store).await.len(), 2);
    // Several judges, or one that repeats the call.
    let beat = judge.beat_of(&heir).await;
    for store in [&judge.store, &store, &judge.store] {
        store.expire_session(&heir.session, beat, None, at(5)).await.unwrap();
    }
    assert_eq!(of_nodes(&store).await[2..], ["a lost, 2 released"]);
    let back = engine(&store, "a").await;
    back.store.close_session(&back.session, at(6)).await.unwrap();
    other.store.close_session(&other.session, at(6)).await.unwrap();
    assert_eq!(of_nodes(&store).await[3..], ["a joined"], "one that ends its session is not lost");
    judge.store.close_session(&judge.session, at(6)).await.unwrap();
    assert!(store.documents(crate::NODE_ENGINES, "").await.unwrap().is_empty());
}

pub async fn two_judges_at_once_lose_a_node_once(fixture: &dyn Fixture) {
    let (one, two) = (Node::join(fixture, "one").await, Node::join(fixture, "two").await);
    for round in 0..20 {
        let lost = engine(&one.store, &format!("n{round}")).await;
        let beat = one.beat_of(&lost).await;
        let (a, b) = tokio::join!(
            one.store.expire_session(&lost.session, beat, None, at(5)),
            two.store.expire_session(&lost.session, beat, None, at(5))
        );
        a.unwrap();
        b.unwrap();
        let joined = format!("n{round} joined");
        let gone = format!("n{round} lost, 0 released");
        assert_eq!(of_nodes(&two.store).await[2 * round..], [joined, gone]);
    }
}

pub async fn a_claim_that_races_expiry_never_hangs_on_a_dead_session(fixture: &dyn Fixture) {
    let (judge, machine) = (Node::join(fixture, "judge").await, fixture.machine().await);
    for round in 0..60 {
        let name = format!("t{round}");
        judge.add(&[task(&name)]).await;
        let victim = Node::over(machine.clone(), "victim").await;
        let beat = judge.beat_of(&victim).await;
        let (claimed, held) = tokio::join!(
            victim.try_claim(&name),
            judge.store.expire_session(&victim.session, beat, None, at(1))
        );
        let held = held.unwrap();
        match claimed {
            Ok(Some(_)) => assert_eq!(held, [id(&name)], "round {round}"),
            // Nothing was held, unless the answer to a successful claim was lost.
            Err(StoreError::SessionExpired) => assert!(held.len() <= 1, "round {round}"),
            other => panic!("round {round}: {other:?}"),
        }
        assert!(judge.store.claims_of(&victim.session).await.unwrap().is_empty(), "round {round}");
        judge.finish(&name).await;
    }
}

pub async fn settling_that_races_expiry_is_whole_or_nothing(fixture: &dyn Fixture) {
    let (judge, machine) = (Node::join(fixture, "judge").await, fixture.machine().await);
    for round in 0..60 {
        let name = format!("t{round}");
        judge.add(&[task(&name)]).await;
        let victim = Node::over(machine.clone(), "victim").await;
        let claim = victim.claim(&name).await;
        let beat = judge.beat_of(&victim).await;
        let (settled, held) = tokio::join!(
            victim.settle(&claim, Outcome::Done { head: None }),
            judge.store.expire_session(&victim.session, beat, None, at(1))
        );
        let held = held.unwrap();
        let state = judge.state(&name).await.name();
        assert_eq!(settled.is_ok(), state == "done", "round {round}: {settled:?} {state}");
        assert_eq!(held.is_empty(), state == "done", "round {round}: {held:?} {state}");
    }
}
