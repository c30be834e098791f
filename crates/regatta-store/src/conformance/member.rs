//! Members, their leader, and the board.

use std::time::Duration;

use regatta_core::crew::{MemberName, Role};
use regatta_core::event::EventBody;
use regatta_core::state::BlockReason;

use super::Fixture;
use super::node::{Node, at, id, record, task};
use crate::{
    BOARD_QUEUE, LEADER_ROLE, Member, NewMember, NodeInfo, Operation, Outcome, Result, SessionId, Step,
    Store, StoreError,
};

/// A valid name.
pub(super) fn name(text: &str) -> MemberName {
    MemberName::parse(text).expect("a case names valid members")
}

/// A new member with its own session.
pub(super) fn newcomer(text: &str, role: &str) -> NewMember {
    let name = name(text);
    NewMember {
        role: Role::parse(role).expect("a case names valid roles"),
        session: SessionId::fresh(text),
        node: NodeInfo::of_beats("a", &name),
        lease: Some(Duration::from_millis(1500)),
        name,
    }
}

/// A member as a node: its claims belong to its session.
pub(super) async fn join(fixture: &dyn Fixture, text: &str, role: &str) -> Node {
    let (store, new) = (fixture.machine().await, newcomer(text, role));
    store.register(&new, at(1)).await.expect("the name is free");
    Node { store, session: new.session }
}

async fn find(store: &dyn Store, text: &str) -> Member {
    let members = store.members().await.expect("the store answers");
    members.into_iter().find(|member| member.name.is(&name(text))).expect("it registered")
}

pub async fn a_member_is_there_while_its_session_is_open(fixture: &dyn Fixture) {
    let store = fixture.machine().await;
    let new = newcomer("Tom", "tester");
    for _ in 0..2 {
        store.register(&new, at(1)).await.unwrap();
    }
    let tom = find(store.as_ref(), "tom").await;
    assert_eq!((tom.name.as_str(), tom.role.as_str(), tom.is_there), ("Tom", "tester", true));
    assert_eq!((&tom.session, &tom.node, tom.lease), (&new.session, &new.node, new.lease));
    assert_eq!(store.sessions().await.unwrap().len(), 1);
    let beat = store.renew(&new.session).await.unwrap();
    assert_eq!(find(store.as_ref(), "Tom").await.beat, beat);
    store.close_session(&new.session, at(2)).await.unwrap();
    assert!(!find(store.as_ref(), "Tom").await.is_there);
    assert!(matches!(store.register(&new, at(3)).await, Err(StoreError::SessionExpired)));
    let again = newcomer("TOM", "developer");
    store.register(&again, at(3)).await.unwrap();
    let tom = find(store.as_ref(), "tom").await;
    assert_eq!((tom.name.as_str(), tom.role.as_str(), tom.is_there), ("TOM", "developer", true));
    assert_eq!(store.members().await.unwrap().len(), 1);
    let events = store.events(0, None, 100).await.unwrap();
    let told: Vec<_> = events.iter().filter(|event| matches!(event.body, EventBody::Noted { .. })).collect();
    assert_eq!(told.len(), 3, "joined, left, joined: {told:?}");
}

pub async fn a_name_belongs_to_one_at_a_time(fixture: &dyn Fixture) {
    for _ in 0..5 {
        let (mut racing, mut won) = (Vec::new(), Vec::new());
        for _ in 0..4 {
            let (store, new) = (fixture.machine().await, newcomer("Tom", "tester"));
            racing.push(tokio::spawn(async move { (store.register(&new, at(1)).await, new.session) }));
        }
        for one in racing {
            match one.await.unwrap() {
                (Ok(()), session) => won.push(session),
                (Err(StoreError::Conflict(_)), _) => {}
                (other, _) => panic!("{other:?}"),
            }
        }
        assert_eq!(won.len(), 1);
        fixture.machine().await.close_session(&won[0], at(2)).await.unwrap();
    }
}

pub async fn a_task_and_a_member_do_not_share_a_name(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("Tom")]).await;
    let refused = node.store.register(&newcomer("tom", "tester"), at(1)).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert_eq!(node.store.sessions().await.unwrap().len(), 1, "no session was opened");
    assert!(node.store.members().await.unwrap().is_empty());
}

pub async fn who_leaves_gives_back_what_it_held(fixture: &dyn Fixture) {
    let tom = join(fixture, "Tom", "tester").await;
    tom.add(&[task("t").queued(BOARD_QUEUE), task("u")]).await;
    let claim = tom.claim("t").await;
    tom.claim("u").await;
    assert_eq!(tom.happened("t", |event| *event == EventBody::Claimed { node: "Tom".into() }).await, 1);
    assert_eq!(find(tom.store.as_ref(), "Tom").await.tasks, [id("t"), id("u")]);
    let judge = Node::join(fixture, "judge").await;
    assert_eq!(judge.expire(&tom, None).await, [id("t"), id("u")]);
    assert_eq!(judge.states(["t", "u"]).await, ["pending", "pending"]);
    assert_eq!(judge.store.task(&id("t")).await.unwrap().queue, BOARD_QUEUE);
    assert!(find(judge.store.as_ref(), "Tom").await.tasks.is_empty());
    let late = tom.settle(&claim, Outcome::Done { head: None }).await;
    assert!(matches!(late, Err(StoreError::SessionExpired)), "{late:?}");
    // The old claim is invalid under the same name, too.
    let again = join(fixture, "Tom", "tester").await;
    let next = again.claim("t").await;
    assert!(next.fence > claim.fence);
    let stale = crate::Claim { session: again.session.clone(), ..claim };
    let late = again.settle(&stale, Outcome::Done { head: None }).await;
    assert!(matches!(late, Err(StoreError::Fenced(_))), "{late:?}");
    again.settle(&next, Outcome::Done { head: None }).await.unwrap();
    assert_eq!(again.state("t").await.name(), "done");
}

pub async fn there_is_one_leader_and_its_term_grows(fixture: &dyn Fixture) {
    let store = fixture.machine().await;
    assert_eq!(store.holder(LEADER_ROLE).await.unwrap(), None);
    let tom = join(fixture, "Tom", "leader").await;
    let first = store.holder(LEADER_ROLE).await.unwrap().expect("a member leads");
    assert_eq!((&first.session, first.role.as_str()), (&tom.session, LEADER_ROLE));
    let refused = store.register(&newcomer("Ann", "leader"), at(1)).await;
    assert!(matches!(&refused, Err(StoreError::Refused(why)) if why.contains("Tom")), "{refused:?}");
    assert_eq!(store.members().await.unwrap().len(), 1);
    let judge = Node::join(fixture, "judge").await;
    judge.expire(&tom, None).await;
    assert_eq!(store.holder(LEADER_ROLE).await.unwrap(), None);
    let ann = join(fixture, "Ann", "leader").await;
    let second = store.holder(LEADER_ROLE).await.unwrap().expect("a member leads");
    assert!(second.session == ann.session && second.term > first.term);
}

pub async fn a_blocked_task_is_taken_up_in_one_step(fixture: &dyn Fixture) {
    let (tom, bob) = (join(fixture, "Tom", "tester").await, join(fixture, "Bob", "tester").await);
    tom.add(&[task("t").queued(BOARD_QUEUE)]).await;
    let blocked = || Outcome::Block { reason: BlockReason::NeedsInput, detail: "a key".into() };
    for round in 1..4 {
        tom.bring("t", blocked()).await;
        assert!(bob.try_claim("t").await.unwrap().is_none(), "a plain claim does not take it");
        let (one, other) = (tom.asking_for("t"), bob.asking_for("t"));
        let (first, second) = tokio::join!(tom.store.take_up(&one, at(2)), bob.store.take_up(&other, at(2)));
        let (first, second) = (first.unwrap(), second.unwrap());
        assert!(first.is_some() != second.is_some(), "exactly one gets it in round {round}");
        let (node, request, claim) = match first {
            Some(claim) => (&tom, one, claim),
            None => (&bob, other, second.unwrap()),
        };
        assert_eq!(node.store.take_up(&request, at(3)).await.unwrap(), Some(claim.clone()), "a repeat");
        node.settle(&claim, Outcome::Release { why: "next".into() }).await.unwrap();
        assert_eq!(node.store.take_up(&request, at(4)).await.unwrap(), None, "no second claim");
    }
    tom.finish("t").await;
    assert_eq!(tom.store.take_up(&tom.asking_for("t"), at(5)).await.unwrap(), None);
}

pub async fn a_failed_task_is_retried_as_often_as_it_may(fixture: &dyn Fixture) {
    let tom = join(fixture, "Tom", "tester").await;
    tom.add(&[task("t").queued(BOARD_QUEUE), task("child").after(&["t"])]).await;
    let retry = || Operation::Retry { by: "me".into() };
    assert!(matches!(tom.operate("t", retry()).await, Err(StoreError::Refused(_))));
    let failing = async |charged: u32| -> Result<()> {
        let claim = tom.claim("t").await;
        let attempt = regatta_core::attempt::Attempt { charged: true, ..record(&claim) };
        tom.step(&claim, Step::Settled { attempt, outcome: Outcome::Fail { why: "no".into() } }).await?;
        assert_eq!(tom.store.task(&id("t")).await?.charged, charged);
        assert_eq!(tom.states(["t", "child"]).await, ["failed", "skipped"]);
        tom.operate("t", retry()).await
    };
    failing(1).await.unwrap();
    assert_eq!(tom.states(["t", "child"]).await, ["pending", "pending"]);
    failing(2).await.unwrap();
    let refused = failing(3).await;
    assert!(matches!(&refused, Err(StoreError::Refused(why)) if why.contains("3 of 3")), "{refused:?}");
    tom.operate("t", Operation::Requeue { by: "me".into() }).await.unwrap();
    assert_eq!(tom.store.task(&id("t")).await.unwrap().charged, 0);
    // Waiting for a user is not a failure.
    tom.bring("t", Outcome::Block { reason: BlockReason::NeedsInput, detail: "a key".into() }).await;
    tom.operate("t", retry()).await.unwrap();
    assert_eq!(tom.state("t").await.name(), "pending");
}
