//! Reports of agents.

use regatta_core::event::EventBody;
use regatta_core::exit::Exit;
use regatta_core::verdict::{Metrics, Statement, Verdict};

use super::Fixture;
use super::node::{Node, at, id, record, task};
use crate::{Outcome, Reported, RequestId, Result, Step, StoreError, Word, WorkerReport};

fn said(verdict: Verdict, summary: &str) -> Statement {
    Statement { verdict, summary: summary.into(), metrics: Metrics::default() }
}

fn report(attempt: u32, token: &str, word: Word) -> WorkerReport {
    WorkerReport { task: id("t"), attempt, token_hash: token.into(), word }
}

async fn say(node: &Node, report: WorkerReport) -> Result<()> {
    node.store.report(&report, &RequestId::fresh(), at(3)).await
}

pub async fn the_last_verdict_counts(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    let claim = node.claim("t").await;
    node.start(&claim).await;
    assert_eq!(node.store.reported(&id("t"), 1).await.unwrap(), Reported::default());
    let word = |word| report(1, "token of t", word);
    say(&node, word(Word::Stuck("which port?".into()))).await.unwrap();
    let stuck = node.store.reported(&id("t"), 1).await.unwrap();
    assert_eq!((stuck.statement, stuck.stuck.as_deref()), (None, Some("which port?")));
    say(&node, word(Word::Done(said(Verdict::Block, "no")))).await.unwrap();
    say(&node, word(Word::Done(said(Verdict::Pass, "yes")))).await.unwrap();
    let progress = Word::Progress { label: "90 %".into(), detail: None, phase: Some("tests".into()) };
    say(&node, word(progress.clone())).await.unwrap();
    let reported = node.store.reported(&id("t"), 1).await.unwrap();
    assert_eq!(reported, Reported { statement: Some(said(Verdict::Pass, "yes")), stuck: None });
    say(&node, word(Word::Stuck("after all".into()))).await.unwrap();
    let reported = node.store.reported(&id("t"), 1).await.unwrap();
    assert_eq!(reported.stuck.as_deref(), Some("after all"));
    assert!(node.events("t").await.contains(&progress.event()));
    assert_eq!(node.happened("t", |event| matches!(event, EventBody::Reported { .. })).await, 2);
}

pub async fn a_repeated_word_is_heard_once(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    let claim = node.claim("t").await;
    let (request, word) = (RequestId::fresh(), Word::Done(said(Verdict::Pass, "yes")));
    let first = report(1, "token of t", word);
    node.store.report(&first, &request, at(1)).await.unwrap();
    say(&node, report(1, "token of t", Word::Done(said(Verdict::Warn, "hm")))).await.unwrap();
    node.store.report(&first, &request, at(1)).await.unwrap();
    let reported = node.store.reported(&id("t"), 1).await.unwrap();
    assert_eq!(reported.statement, Some(said(Verdict::Warn, "hm")));
    node.settle(&claim, Outcome::Done { head: None }).await.unwrap();
    node.store.report(&first, &request, at(1)).await.unwrap();
    assert_eq!(node.happened("t", |event| matches!(event, EventBody::Reported { .. })).await, 2);
}

pub async fn only_the_worker_of_the_live_attempt_is_heard(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    let word = || Word::Stuck("help".into());
    let refused = |answer: Result<()>, why: &str| match answer {
        Err(StoreError::Fenced(text)) => assert!(text.contains(why), "{text:?} does not say {why:?}"),
        other => panic!("{other:?}"),
    };
    refused(say(&node, report(1, "token of t", word())).await, "pending");
    let claim = node.claim("t").await;
    say(&node, report(1, "token of t", word())).await.unwrap();
    refused(say(&node, report(1, "guess", word())).await, "token");
    refused(say(&node, report(2, "token of t", word())).await, "attempt");
    node.start(&claim).await;
    say(&node, report(1, "token of t", word())).await.unwrap();
    let exit = Exit::Exited { code: 0 };
    node.step(&claim, Step::Exited { attempt: record(&claim), exit }).await.unwrap();
    refused(say(&node, report(1, "token of t", word())).await, "judging");
    node.settle(&claim, Outcome::Release { why: "again".into() }).await.unwrap();
    node.claim("t").await;
    refused(say(&node, report(1, "token of t", word())).await, "attempt");
    assert_eq!(node.store.reported(&id("t"), 2).await.unwrap(), Reported::default());
    let unknown = WorkerReport { task: id("nobody"), ..report(1, "x", word()) };
    assert!(matches!(say(&node, unknown).await, Err(StoreError::NotFound(_))));
}
