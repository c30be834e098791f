//! What the end of one task means for its dependents.

use regatta_core::event::EventBody;
use regatta_core::state::{BlockReason, StateName, TaskState};

use super::Fixture;
use super::node::{Node, at, id, task};
use crate::{IfPresent, Operation, Outcome, StoreError};

fn requeue() -> Operation {
    Operation::Requeue { by: "me".into() }
}

pub async fn a_child_is_ready_when_its_last_parent_is_met(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("c").after(&["a", "b", "a"]), task("a"), task("b")]).await;
    let waiting = || async { node.store.task(&id("c")).await.unwrap().waiting_on };
    assert_eq!(waiting().await, [id("a"), id("b")]);
    node.finish("a").await;
    assert_eq!(waiting().await, [id("b")]);
    assert_eq!(node.ready().await, ["b"]);
    node.finish("b").await;
    assert_eq!(node.ready().await, ["c"]);
    node.add(&[task("d").after(&["a"])]).await;
    assert_eq!(node.ready().await, ["c", "d"]);
}

pub async fn parents_that_finish_at_once_free_their_child(fixture: &dyn Fixture) {
    let machines = [fixture.machine().await, fixture.machine().await, fixture.machine().await];
    for round in 0..30 {
        let parents: Vec<String> = (0..6).map(|n| format!("p{round}-{n}")).collect();
        let child = format!("kid{round}");
        let node = Node::over(machines[0].clone(), "n").await;
        node.add(&parents.iter().map(|parent| task(parent)).collect::<Vec<_>>()).await;
        node.add(&[task(&child).after(&parents.iter().map(String::as_str).collect::<Vec<_>>())]).await;
        let mut finishing = Vec::new();
        for (n, parent) in parents.iter().enumerate() {
            let claim = node.claim(parent).await;
            let elsewhere = Node { store: machines[n % 3].clone(), session: node.session.clone() };
            finishing.push(tokio::spawn(async move {
                elsewhere.settle(&claim, Outcome::Done { head: None }).await.unwrap();
            }));
        }
        for one in finishing {
            one.await.unwrap();
        }
        assert_eq!(node.ready().await, [child.as_str()], "round {round}");
        node.finish(&child).await;
    }
}

pub async fn a_child_that_arrives_while_its_parent_finishes_is_ready(fixture: &dyn Fixture) {
    let (a, b) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    for round in 0..50 {
        let (parent, child) = (format!("p{round}"), format!("k{round}"));
        a.add(&[task(&parent)]).await;
        let claim = a.claim(&parent).await;
        let late = [task(&child).after(&[&parent])];
        let (settled, ()) = tokio::join!(a.settle(&claim, Outcome::Done { head: None }), b.add(&late));
        settled.unwrap();
        assert_eq!(b.ready().await, [child.as_str()], "round {round}");
        b.finish(&child).await;
    }
}

pub async fn a_child_that_arrives_while_its_parents_holder_expires_waits(fixture: &dyn Fixture) {
    let (judge, machine) = (Node::join(fixture, "judge").await, fixture.machine().await);
    for round in 0..30 {
        let (parent, child) = (format!("p{round}"), format!("k{round}"));
        judge.add(&[task(&parent)]).await;
        let victim = Node::over(machine.clone(), "victim").await;
        victim.claim(&parent).await;
        let late = [task(&child).after(&[&parent])];
        let (_, ()) = tokio::join!(judge.expire(&victim, None), victim.add(&late));
        assert_eq!(judge.ready().await, [parent.as_str()], "round {round}");
        judge.finish(&parent).await;
        assert_eq!(judge.ready().await, [child.as_str()], "round {round}");
        judge.finish(&child).await;
    }
}

pub async fn a_dead_parent_skips_all_that_descends_from_it(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    let tasks = [
        task("a"),
        task("b").after(&["a"]),
        task("c").after(&["b"]),
        task("d").after(&["c", "x"]),
        task("x"),
    ];
    node.add(&tasks).await;
    node.fail("a").await;
    assert_eq!(node.states(["b", "c", "d", "x"]).await, ["skipped", "skipped", "skipped", "pending"]);
    assert_eq!(
        node.state("b").await,
        TaskState::Skipped { dependency: id("a"), was: Some(StateName::Failed) }
    );
    assert_eq!(
        node.state("d").await,
        TaskState::Skipped { dependency: id("c"), was: Some(StateName::Skipped) }
    );
    assert_eq!(
        node.events("b").await.last(),
        Some(&EventBody::Skipped { dependency: id("a"), was: Some(StateName::Failed) })
    );
    node.add(&[task("late").after(&["d"])]).await;
    assert_eq!(
        node.state("late").await,
        TaskState::Skipped { dependency: id("d"), was: Some(StateName::Skipped) }
    );
    assert_eq!(node.ready().await, ["x"]);
}

pub async fn a_cancelled_parent_skips_parked_children_too(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("a"), task("b").after(&["a"])]).await;
    node.operate("b", Operation::Park { until: at(9), detail: "later".into() }).await.unwrap();
    node.operate("a", Operation::Cancel { by: "me".into() }).await.unwrap();
    assert_eq!(node.states(["a", "b"]).await, ["cancelled", "skipped"]);
    assert!(node.store.timers("main", 9).await.unwrap().is_empty());
}

pub async fn what_was_skipped_comes_back_with_its_parent(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("a"), task("b").after(&["a"]), task("c").after(&["b"])]).await;
    node.fail("a").await;
    let refused = node.operate("c", requeue()).await;
    assert!(matches!(&refused, Err(StoreError::Refused(why)) if why.contains('b')), "{refused:?}");
    node.operate("a", requeue()).await.unwrap();
    assert_eq!(node.states(["a", "b", "c"]).await, ["pending"; 3]);
    assert_eq!(node.events("c").await.last(), Some(&EventBody::Rearmed));
    assert_eq!(node.ready().await, ["a"]);
    for name in ["a", "b", "c"] {
        node.finish(name).await;
    }
    assert_eq!(node.states(["a", "b", "c"]).await, ["done"; 3]);
}

pub async fn two_dead_parents_must_both_come_back(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("a"), task("b"), task("c").after(&["a", "b"]), task("d").after(&["c"])]).await;
    node.fail("a").await;
    node.fail("b").await;
    assert_eq!(
        node.state("c").await,
        TaskState::Skipped { dependency: id("a"), was: Some(StateName::Failed) }
    );
    node.operate("a", requeue()).await.unwrap();
    assert_eq!(
        node.state("c").await,
        TaskState::Skipped { dependency: id("b"), was: Some(StateName::Failed) }
    );
    assert_eq!(
        node.state("d").await,
        TaskState::Skipped { dependency: id("c"), was: Some(StateName::Skipped) }
    );
    node.operate("b", requeue()).await.unwrap();
    assert_eq!(node.states(["c", "d"]).await, ["pending"; 2]);
    node.fail("b").await;
    assert_eq!(
        node.state("c").await,
        TaskState::Skipped { dependency: id("b"), was: Some(StateName::Failed) }
    );
    node.operate("b", requeue()).await.unwrap();
    node.finish("a").await;
    node.finish("b").await;
    assert_eq!(node.ready().await, ["c"]);
}

pub async fn a_blocked_parent_leaves_its_children_waiting(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("a"), task("b").after(&["a"])]).await;
    node.bring("a", Outcome::Block { reason: BlockReason::Verdict, detail: "?".into() }).await;
    assert_eq!(node.states(["a", "b"]).await, ["blocked", "pending"]);
    assert!(node.ready().await.is_empty());
    node.operate("a", requeue()).await.unwrap();
    node.finish("a").await;
    assert_eq!(node.ready().await, ["b"]);
}

pub async fn a_met_parent_that_starts_over_makes_its_children_wait_again(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("a"), task("b").after(&["a"]), task("held").after(&["a"])]).await;
    node.finish("a").await;
    let held = node.claim("held").await;
    node.add(&[task("a").or(IfPresent::Restart)]).await;
    assert_eq!(node.ready().await, ["a"]);
    assert!(node.try_claim("b").await.unwrap().is_none());
    // A task that has started continues; if it is queued again, it waits too, or is skipped.
    node.settle(&held, Outcome::Release { why: "drain".into() }).await.unwrap();
    assert_eq!(node.ready().await, ["a"]);
    node.finish("a").await;
    assert_eq!(node.ready().await, ["b", "held"]);
    let held = node.claim("held").await;
    node.operate("a", requeue()).await.unwrap();
    node.fail("a").await;
    assert_eq!(node.states(["b", "held"]).await, ["skipped", "claimed"]);
    node.settle(&held, Outcome::Release { why: "drain".into() }).await.unwrap();
    assert_eq!(
        node.state("held").await,
        TaskState::Skipped { dependency: id("a"), was: Some(StateName::Failed) }
    );
}

pub async fn a_plan_that_is_restarted_whole_starts_from_its_roots(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    // In both orders: children before parents, and parents before children.
    let plan = |or| [task("c").after(&["b"]).or(or), task("b").after(&["a"]).or(or), task("a").or(or)];
    node.add(&plan(IfPresent::Refuse)).await;
    node.fail("a").await;
    node.add(&plan(IfPresent::Restart)).await;
    assert_eq!(node.states(["a", "b", "c"]).await, ["pending"; 3]);
    node.finish("a").await;
    node.fail("b").await;
    let mut reversed = plan(IfPresent::Resume);
    reversed.reverse();
    node.add(&reversed).await;
    assert_eq!(node.states(["a", "b", "c"]).await, ["done", "pending", "pending"]);
    assert_eq!(node.ready().await, ["b"]);
}

pub async fn new_dependencies_replace_the_old(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("a"), task("b"), task("c").after(&["a"])]).await;
    node.add(&[task("c").after(&["b"]).or(IfPresent::Restart)]).await;
    node.fail("a").await;
    assert_eq!(node.states(["c"]).await, ["pending"]);
    node.finish("b").await;
    assert_eq!(node.ready().await, ["c"]);
}

pub async fn a_long_chain_falls_and_rises_whole(fixture: &dyn Fixture) {
    const LENGTH: usize = 1500;
    let node = Node::join(fixture, "a").await;
    let chain: Vec<_> = (0..LENGTH)
        .map(|n| match n {
            0 => task("t0"),
            n => task(&format!("t{n}")).after(&[&format!("t{}", n - 1)]),
        })
        .collect();
    node.add(&chain).await;
    let counts = || async { node.store.counts(None).await.unwrap() };
    node.operate("t0", Operation::Cancel { by: "me".into() }).await.unwrap();
    assert_eq!(counts().await, [(StateName::Cancelled, 1), (StateName::Skipped, LENGTH as u64 - 1)]);
    node.operate("t0", requeue()).await.unwrap();
    assert_eq!(counts().await, [(StateName::Pending, LENGTH as u64)]);
    assert_eq!(node.ready().await, ["t0"]);
}

pub async fn a_skipped_follow_up_waits_for_its_new_dependencies_only(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("a"), task("b"), task("c").after(&["a", "b"])]).await;
    for name in ["a", "b", "c"] {
        node.finish(name).await;
    }
    node.send("c", "more").await.unwrap();
    for name in ["a", "b"] {
        node.operate(name, requeue()).await.unwrap();
        node.operate(name, Operation::Cancel { by: "me".into() }).await.unwrap();
    }
    let resume = |deps: &[&str]| [task("c").after(deps).or(IfPresent::Resume)];
    let skipped_by = |state: TaskState| match state {
        TaskState::Skipped { dependency, .. } => Some(dependency.to_string()),
        _ => None,
    };
    assert_eq!(skipped_by(node.state("c").await).as_deref(), Some("a"));
    node.add(&resume(&["b"])).await;
    assert_eq!(skipped_by(node.state("c").await).as_deref(), Some("b"), "the one it still depends on");
    node.add(&resume(&[])).await;
    assert_eq!(node.ready().await, ["c"], "nothing is left to wait for");
}
