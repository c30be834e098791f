//! Totals of what attempts have used.

use regatta_core::attempt::Attempt;
use regatta_core::time::Timestamp;

use super::Fixture;
use super::node::{Node, at, id, record, task};
use crate::{IfPresent, NewTask, Outcome, QUARTER, RequestId, SpendBy, SpendQuery, Spending, Step};

fn of_plan(name: &str, plan: &str) -> NewTask {
    let mut task = task(name);
    task.spec.plan = Some(plan.to_owned());
    task
}

/// One attempt at `name` that ends at `ended` and is retried.
async fn spend(node: &Node, name: &str, ended: i64, fill: impl Fn(&mut Attempt)) {
    let claim = node.claim(name).await;
    let mut attempt = record(&claim);
    attempt.started_at = Some(at(1));
    attempt.ended_at = Some(Timestamp::from_millis(ended));
    fill(&mut attempt);
    let outcome = Outcome::Release { why: "again".into() };
    node.step(&claim, Step::Settled { attempt, outcome }).await.unwrap();
}

async fn read(node: &Node, query: SpendQuery) -> Vec<Spending> {
    node.store.spending(&query).await.unwrap()
}

/// Keys with total dollars and tokens.
fn told(sums: &[Spending]) -> Vec<(&str, f64, u64)> {
    sums.iter().map(|sum| (sum.key.as_str(), sum.usd, sum.tokens_in + sum.tokens_out)).collect()
}

pub async fn sums_are_told_by_task_agent_model_plan_and_quarter(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[of_plan("Alpha", "night"), of_plan("beta", "day"), task("gamma")]).await;
    for n in 0..2 {
        spend(&node, "Alpha", n * QUARTER + 5, |attempt| {
            (attempt.cost_usd, attempt.tokens_in, attempt.tokens_out) = (Some(0.5), 100, 10);
            attempt.model = Some("opus".into());
        })
        .await;
    }
    spend(&node, "beta", 10 * QUARTER, |attempt| {
        (attempt.cost_usd, attempt.priced, attempt.tokens_in) = (Some(0.25), true, 40);
        attempt.model_asked = Some("sonnet".into());
        attempt.agent = "codex".into();
    })
    .await;
    spend(&node, "gamma", QUARTER, |attempt| attempt.tokens_out = 7).await;
    let by = |by| SpendQuery { by, ..SpendQuery::default() };
    let all = read(&node, by(SpendBy::All)).await;
    assert_eq!(told(&all), [("", 1.25, 267)]);
    assert_eq!((all[0].attempts, all[0].priced, all[0].unpriced), (4, 1, 1));
    assert_eq!((all[0].tokens_in, all[0].tokens_out), (240, 27));
    let expected = [("Alpha", 1.0, 220), ("beta", 0.25, 40), ("gamma", 0.0, 7)];
    assert_eq!(told(&read(&node, by(SpendBy::Task)).await), expected);
    assert_eq!(told(&read(&node, by(SpendBy::Agent)).await), [("codex", 0.25, 40), ("fake", 1.0, 227)]);
    let models = [("", 0.0, 7), ("opus", 1.0, 220), ("sonnet", 0.25, 40)];
    assert_eq!(told(&read(&node, by(SpendBy::Model)).await), models);
    assert_eq!(told(&read(&node, by(SpendBy::Plan)).await), [("day", 0.25, 40), ("night", 1.0, 220)]);
    let quarters = [("0", 0.5, 110), ("1", 0.5, 117), ("10", 0.25, 40)];
    assert_eq!(told(&read(&node, by(SpendBy::Quarter)).await), quarters);
}

pub async fn sums_are_over_what_was_asked_for(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[of_plan("a", "night"), task("b").queued("other"), task("c")]).await;
    for (name, ended) in [("a", 10), ("a", 20), ("c", 30)] {
        spend(&node, name, ended, |attempt| attempt.tokens_in = 1).await;
    }
    spend(&node, "b", 40, |attempt| attempt.tokens_in = 1).await;
    let tokens = async |query: SpendQuery| read(&node, query).await[0].tokens_in;
    let all = SpendQuery::default;
    assert_eq!(tokens(all()).await, 4);
    assert_eq!(tokens(SpendQuery { since: Some(Timestamp::from_millis(20)), ..all() }).await, 3);
    assert_eq!(tokens(SpendQuery { plan: Some("night".into()), ..all() }).await, 2);
    assert_eq!(tokens(SpendQuery { queue: Some("other".into()), ..all() }).await, 1);
    assert_eq!(tokens(SpendQuery { tasks: Some(vec![id("A"), id("nobody")]), ..all() }).await, 2);
    assert_eq!(tokens(SpendQuery { tasks: Some(Vec::new()), ..all() }).await, 0);
    assert_eq!(tokens(SpendQuery { except: vec![(id("a"), 2), (id("nobody"), 1)], ..all() }).await, 3);
}

pub async fn what_an_attempt_under_way_has_said_counts(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("a")]).await;
    let claim = node.claim("a").await;
    node.start(&claim).await;
    let mut attempt = record(&claim);
    (attempt.started_at, attempt.cost_usd) = (Some(at(3)), Some(2.0));
    node.step(&claim, Step::Update(attempt)).await.unwrap();
    let sums = read(&node, SpendQuery { by: SpendBy::Task, ..SpendQuery::default() }).await;
    assert_eq!(told(&sums), [("a", 2.0, 0)]);
}

pub async fn a_task_that_is_put_in_anew_begins_with_nothing_spent(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("a")]).await;
    spend(&node, "a", at(5).millis(), |attempt| attempt.tokens_in = 3).await;
    let since_restart = async || {
        let query = SpendQuery { since_restart: true, ..SpendQuery::default() };
        read(&node, query).await[0].tokens_in
    };
    let again = async |if_present| {
        let mut task = task("a");
        task.if_present = if_present;
        node.store.enqueue(&[task], &RequestId::fresh(), at(9)).await.unwrap();
    };
    assert_eq!(since_restart().await, 3);
    again(IfPresent::Resume).await;
    assert_eq!(since_restart().await, 3, "what is gone on with has spent what it spent");
    again(IfPresent::Restart).await;
    assert_eq!(since_restart().await, 0);
    assert_eq!(read(&node, SpendQuery::default()).await[0].tokens_in, 3, "and nothing is forgotten");
    spend(&node, "a", at(10).millis(), |attempt| attempt.tokens_in = 5).await;
    assert_eq!(since_restart().await, 5);
}
