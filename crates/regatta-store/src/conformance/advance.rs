//! Advancing a claimed task.

use regatta_core::attempt::Attempt;
use regatta_core::event::EventBody;
use regatta_core::exit::Exit;
use regatta_core::failure::FailureClass;
use regatta_core::oid::Oid;
use regatta_core::state::{BlockReason, ParkReason, TaskState};
use regatta_core::train::HeldBy;
use regatta_core::verdict::Verdict;

use super::Fixture;
use super::node::{Node, at, id, landing, record, task};
use crate::{Claim, Operation, Outcome, RequestId, SessionId, Step, StoreError};

pub async fn the_ordinary_way_writes_state_record_and_events(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    let claim = node.claim("t").await;
    let mut attempt = record(&claim);
    attempt.lane = Some("/lanes/t".into());
    attempt.base = Some(Oid::sample("b0"));
    node.step(&claim, Step::LaneReady(attempt.clone())).await.unwrap();
    assert_eq!(node.state("t").await.name(), "claimed");
    attempt.started_at = Some(at(3));
    node.step(&claim, Step::Started { attempt: attempt.clone(), pid: 42 }).await.unwrap();
    assert_eq!(node.state("t").await, TaskState::Running { attempt: 1, since: at(3) });
    attempt.cost_usd = Some(0.5);
    node.step(&claim, Step::Update(attempt.clone())).await.unwrap();
    assert_eq!(node.store.attempts(&id("t")).await.unwrap(), [attempt.clone()]);
    let exit = Exit::Exited { code: 0 };
    attempt.exit = Some(exit.clone());
    node.step(&claim, Step::Exited { attempt: attempt.clone(), exit: exit.clone() }).await.unwrap();
    assert_eq!(node.state("t").await, TaskState::Judging { attempt: 1, exit: exit.clone() });
    attempt.verdict = Some(Verdict::Pass);
    attempt.summary = "good".into();
    let outcome = Outcome::Approve(landing("h1"));
    node.step(&claim, Step::Settled { attempt: attempt.clone(), outcome }).await.unwrap();
    assert_eq!(
        node.state("t").await,
        TaskState::Landing { attempt: 1, head: Oid::sample("h1"), waiting: None, held_by: HeldBy::Other }
    );
    assert_eq!(node.store.attempts(&id("t")).await.unwrap(), [attempt]);
    assert_eq!(
        node.events("t").await,
        [
            EventBody::Enqueued { queue: "main".into() },
            EventBody::Claimed { node: "a".into() },
            EventBody::LaneReady { lane: "/lanes/t".into(), base: Some(Oid::sample("b0")) },
            EventBody::Started { pid: 42 },
            EventBody::Exited { exit },
            EventBody::Judged { verdict: Verdict::Pass, summary: "good".into() },
            EventBody::Approved { head: Oid::sample("h1") },
        ]
    );
}

pub async fn a_repeated_step_is_taken_once_even_after_the_claim_ended(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    let claim = node.claim("t").await;
    let (started, settled) = (RequestId::fresh(), RequestId::fresh());
    let start = Step::Started { attempt: record(&claim), pid: 1 };
    let class = FailureClass::Work;
    let outcome = Outcome::Retry { not_before: None, class, why: "x".into() };
    let settle = Step::Settled { attempt: Attempt { charged: true, ..record(&claim) }, outcome };
    for _ in 0..2 {
        node.store.advance(&claim, &start, &started, at(1)).await.unwrap();
    }
    for _ in 0..2 {
        node.store.advance(&claim, &settle, &settled, at(2)).await.unwrap();
    }
    assert_eq!(node.store.task(&id("t")).await.unwrap().charged, 1);
    // Even while another session holds it again, and even for the step before the last.
    node.claim("t").await;
    node.store.advance(&claim, &settle, &settled, at(3)).await.unwrap();
    node.store.advance(&claim, &start, &started, at(3)).await.unwrap();
    assert_eq!(node.state("t").await, TaskState::Claimed { attempt: 2 });
    assert_eq!(node.happened("t", |event| matches!(event, EventBody::Retrying { .. })).await, 1);
    assert_eq!(node.happened("t", |event| matches!(event, EventBody::Started { .. })).await, 1);
    let other = node.settle(&claim, Outcome::Done { head: None }).await;
    assert!(matches!(other, Err(StoreError::Fenced(_))), "{other:?}");
}

pub async fn only_the_exact_claim_moves_a_task(fixture: &dyn Fixture) {
    let (a, b) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    a.add(&[task("t")]).await;
    let claim = a.claim("t").await;
    let done = || Outcome::Done { head: None };
    for wrong in [
        Claim { fence: claim.fence + 1, ..claim.clone() },
        Claim { fence: claim.fence - 1, ..claim.clone() },
        Claim { session: b.session.clone(), ..claim.clone() },
        Claim { attempt: claim.attempt + 1, ..claim.clone() },
    ] {
        let refused = a.settle(&wrong, done()).await;
        assert!(matches!(refused, Err(StoreError::Fenced(_))), "{wrong:?}: {refused:?}");
    }
    let ghost = Claim { session: SessionId("ghost".into()), ..claim.clone() };
    assert!(matches!(a.settle(&ghost, done()).await, Err(StoreError::SessionExpired)));
    let nobody = Claim { task: id("nobody"), ..claim.clone() };
    assert!(matches!(a.settle(&nobody, done()).await, Err(StoreError::NotFound(_))));
    let other = Step::Settled { attempt: Attempt::new(claim.attempt + 1, "fake"), outcome: done() };
    assert!(matches!(a.step(&claim, other).await, Err(StoreError::Invalid(_))));
    assert_eq!(a.state("t").await.name(), "claimed", "nothing of it happened");
    a.settle(&claim, done()).await.unwrap();
    let late = a.settle(&claim, done()).await;
    assert!(matches!(late, Err(StoreError::Fenced(_))), "{late:?}");
}

pub async fn a_step_the_state_does_not_allow_is_refused_whole(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    let claim = node.claim("t").await;
    node.start(&claim).await;
    let changed = Attempt { summary: "changed".into(), ..record(&claim) };
    let again = node.step(&claim, Step::Started { attempt: changed.clone(), pid: 8 }).await;
    assert!(matches!(&again, Err(StoreError::Refused(why)) if why.contains("running")), "{again:?}");
    let lane = node.step(&claim, Step::LaneReady(changed)).await;
    assert!(matches!(lane, Err(StoreError::Refused(_))), "{lane:?}");
    assert_eq!(node.store.attempts(&id("t")).await.unwrap(), [record(&claim)]);
    assert_eq!(node.happened("t", |event| matches!(event, EventBody::Started { .. })).await, 1);
}

pub async fn every_outcome_leads_where_it_says_from_every_claimed_state(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    let retry = Outcome::Retry { not_before: None, class: FailureClass::Work, why: "x".into() };
    let park = Outcome::Park { until: at(9), why: ParkReason::Budget, detail: "spent".into() };
    let block = Outcome::Block { reason: BlockReason::NeedsInput, detail: "which?".into() };
    let outcomes = [
        (Outcome::Approve(landing("h")), "landing"),
        (Outcome::Done { head: Some(Oid::sample("h")) }, "done"),
        (retry, "pending"),
        (Outcome::Release { why: "drain".into() }, "pending"),
        (park, "parked"),
        (block, "blocked"),
        (Outcome::Fail { why: "given up".into() }, "failed"),
        (Outcome::Cancel { by: "me".into() }, "cancelled"),
    ];
    for (n, (outcome, state)) in outcomes.into_iter().enumerate() {
        for from in ["claimed", "running", "judging"] {
            let name = format!("t{n}-{from}");
            node.add(&[task(&name)]).await;
            let claim = node.claim(&name).await;
            if from != "claimed" {
                node.start(&claim).await;
            }
            if from == "judging" {
                let exit = Exit::Exited { code: 1 };
                node.step(&claim, Step::Exited { attempt: record(&claim), exit }).await.unwrap();
            }
            node.settle(&claim, outcome.clone()).await.unwrap();
            let record = node.store.task(&id(&name)).await.unwrap();
            assert_eq!((record.state.name(), record.session), (state, None), "{outcome:?} from {from}");
        }
    }
}

pub async fn charges_and_environment_failures_are_counted(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    let park = |why| Outcome::Park { until: at(9), why, detail: String::new() };
    let retry = Outcome::Retry { not_before: None, class: FailureClass::Work, why: "x".into() };
    let script = [
        (retry.clone(), true, (1, 0)),
        (park(ParkReason::Environment), false, (1, 1)),
        (park(ParkReason::Environment), false, (1, 2)),
        (park(ParkReason::RateLimited), false, (1, 0)),
        (park(ParkReason::Environment), false, (1, 1)),
        (retry, true, (2, 0)),
    ];
    for (n, (outcome, charged, expected)) in script.into_iter().enumerate() {
        let claim = node.claim("t").await;
        let parks = matches!(outcome, Outcome::Park { .. });
        let attempt = Attempt { charged, ..record(&claim) };
        node.step(&claim, Step::Settled { attempt, outcome }).await.unwrap();
        let record = node.store.task(&id("t")).await.unwrap();
        assert_eq!((record.charged, record.environment_failures), expected, "step {n}");
        if parks {
            node.operate("t", Operation::Due).await.unwrap();
        }
    }
    let claim = node.claim("t").await;
    assert_eq!((claim.charged, claim.environment_failures, claim.attempt), (2, 0, 7));
}

pub async fn a_wish_to_cancel_outlives_the_claim_it_was_said_to(fixture: &dyn Fixture) {
    let (a, b) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    a.add(&[task("settled"), task("lost"), task("approved")]).await;
    let ask = || Operation::AskCancel { by: "me".into() };
    let settled = a.claim("settled").await;
    a.claim("lost").await;
    let approved = a.claim("approved").await;
    for name in ["settled", "lost", "approved"] {
        b.operate(name, ask()).await.unwrap();
        assert_eq!(b.store.task(&id(name)).await.unwrap().cancel_asked.as_deref(), Some("me"));
    }
    a.settle(&settled, Outcome::Release { why: "drain".into() }).await.unwrap();
    a.settle(&approved, Outcome::Approve(landing("h"))).await.unwrap();
    b.expire(&a, None).await;
    assert_eq!(b.states(["settled", "lost", "approved"]).await, ["cancelled", "cancelled", "landing"]);
}
