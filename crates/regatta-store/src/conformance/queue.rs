//! Queueing, and the order of the queue.

use regatta_core::event::EventBody;
use regatta_core::state::{ParkReason, StateName, TaskState};

use super::Fixture;
use super::node::{Node, QUEUE, at, id, task};
use crate::{IfPresent, Operation, Outcome, RequestId, StoreError, TaskQuery};

pub async fn a_repeated_call_changes_nothing(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    let (request, tasks) = (RequestId::fresh(), [task("a"), task("b").after(&["a"])]);
    node.store.enqueue(&tasks, &request, at(1)).await.unwrap();
    node.finish("a").await;
    node.store.enqueue(&tasks, &request, at(1)).await.unwrap();
    assert_eq!(node.states(["a", "b"]).await, ["done", "pending"]);
    assert_eq!(node.happened("a", |event| matches!(event, EventBody::Enqueued { .. })).await, 1);
}

pub async fn an_id_that_is_there_is_refused_and_nothing_of_the_call_happens(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("a")]).await;
    let refused = node.try_add(&[task("b"), task("a")]).await;
    assert!(matches!(&refused, Err(StoreError::Conflict(why)) if why.contains('a')), "{refused:?}");
    assert!(matches!(node.store.task(&id("b")).await, Err(StoreError::NotFound(_))));
}

pub async fn ids_that_differ_in_case_are_one(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("PRD-010")]).await;
    for or in [IfPresent::Refuse, IfPresent::Restart, IfPresent::Resume] {
        let refused = node.try_add(&[task("prd-010").or(or)]).await;
        let Err(StoreError::Conflict(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains("PRD-010") && why.contains("prd-010"), "{why}");
    }
    assert_eq!(node.store.task(&id("prd-010")).await.unwrap().spec.id, id("PRD-010"));
    let twice = node.try_add(&[task("x"), task("X")]).await;
    assert!(matches!(twice, Err(StoreError::Invalid(_))), "{twice:?}");
    node.add(&[task("child").after(&["Prd-010"])]).await;
    node.finish("PRD-010").await;
    assert_eq!(node.ready().await, ["child"]);
}

pub async fn higher_priority_then_order_of_arrival(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    for (name, priority) in [("a", 1), ("b", 5), ("c", 5), ("d", 9), ("e", 1), ("f", -3), ("g", i32::MIN)] {
        node.add(&[task(name).priority(priority)]).await;
    }
    assert_eq!(node.ready().await, ["d", "b", "c", "a", "e", "f", "g"]);
}

pub async fn ready_is_read_page_by_page(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    let tasks: Vec<_> = (0..25).map(|n| task(&format!("t{n}")).priority(n % 3)).collect();
    node.add(&tasks).await;
    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let page = node.store.ready(QUEUE, after.as_ref(), 4).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        paged.extend(page.into_iter().map(|ready| ready.spec.id.to_string()));
    }
    assert_eq!(paged, node.ready().await);
    assert_eq!(paged.len(), 25);
}

pub async fn queues_do_not_mix(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("a"), task("b").queued("other")]).await;
    assert_eq!(node.ready().await, ["a"]);
    let other = node.store.ready("other", None, 10).await.unwrap();
    assert_eq!(other.len(), 1);
    assert_eq!(node.store.counts(Some("other")).await.unwrap(), [(StateName::Pending, 1)]);
    assert_eq!(node.store.counts(None).await.unwrap(), [(StateName::Pending, 2)]);
}

pub async fn an_unknown_dependency_refuses_the_whole_call(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    let refused = node.try_add(&[task("x"), task("y").after(&["nope"])]).await;
    let Err(StoreError::Invalid(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains('y') && why.contains("nope"), "{why}");
    assert!(matches!(node.store.task(&id("x")).await, Err(StoreError::NotFound(_))));
    assert!(node.store.events(0, None, 10).await.unwrap().is_empty());
}

pub async fn a_cycle_is_refused_and_printed(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    let cycle = [task("a").after(&["c"]), task("b").after(&["a"]), task("c").after(&["b"])];
    let refused = node.try_add(&cycle).await;
    let Err(StoreError::Invalid(why)) = refused else { panic!("{refused:?}") };
    assert!(
        ["a → c → b → a", "b → a → c → b", "c → b → a → c"].iter().any(|path| why.contains(path)),
        "{why}"
    );
    let itself = node.try_add(&[task("a").after(&["A"])]).await;
    assert!(matches!(&itself, Err(StoreError::Invalid(why)) if why.contains("a → a")), "{itself:?}");
    // A cycle through an existing task.
    node.add(&[task("p"), task("q").after(&["p"])]).await;
    let refused = node.try_add(&[task("p").after(&["q"]).or(IfPresent::Restart)]).await;
    assert!(matches!(refused, Err(StoreError::Invalid(_))), "{refused:?}");
    assert_eq!(node.ready().await, ["p"], "what was refused changed nothing");
}

pub async fn a_value_that_not_every_backend_can_hold_is_refused(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    let mut long = task("long");
    long.spec.prompt = "x".repeat(800 * 1024);
    node.add(&[long]).await;
    assert_eq!(node.claim("long").await.spec.prompt.len(), 800 * 1024);
    let mut longer = task("longer");
    longer.spec.prompt = "x".repeat(901 * 1024);
    let refused = node.try_add(&[task("short"), longer]).await;
    let Err(StoreError::Invalid(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("longer") && why.contains("900 KiB"), "{why}");
    assert!(matches!(node.store.task(&id("short")).await, Err(StoreError::NotFound(_))));
}

pub async fn odd_text_comes_back_as_it_went_in(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    let mut odd = task("odd").queued("naïve 'queue' %_");
    odd.spec.prompt = "日本語 🚣‍♀️ \u{0} \u{feff} 'quote\" \\ \r\n\t $(rm) --flag".into();
    odd.spec.env.insert("CLÉ".into(), "välue\nline".into());
    node.add(std::slice::from_ref(&odd)).await;
    let record = node.store.task(&id("odd")).await.unwrap();
    assert_eq!((record.spec, record.queue), (odd.spec.clone(), odd.queue.clone()));
    let ready = node.store.ready(&odd.queue, None, 1).await.unwrap();
    assert_eq!(ready[0].spec, odd.spec);
    let body = EventBody::Noted { text: odd.spec.prompt };
    node.store.append(Some(&id("odd")), None, &body, &RequestId::fresh(), at(1)).await.unwrap();
    assert!(node.events("odd").await.contains(&body));
}

pub async fn restart_brings_any_task_back_with_a_new_spec(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("failed"), task("done"), task("held"), task("landing")]).await;
    node.fail("failed").await;
    node.finish("done").await;
    node.claim("held").await;
    node.approve("landing").await;
    let restarted = |name: &str| task(name).priority(7).queued("next").or(IfPresent::Restart);
    for (name, state) in [("held", "claimed"), ("landing", "landing")] {
        let refused = node.try_add(&[restarted("failed"), restarted(name)]).await;
        assert!(matches!(&refused, Err(StoreError::Refused(why)) if why.contains(state)), "{refused:?}");
    }
    assert_eq!(node.state("failed").await.name(), "failed", "refused whole");
    node.add(&[restarted("failed"), restarted("done")]).await;
    for name in ["failed", "done"] {
        let record = node.store.task(&id(name)).await.unwrap();
        assert_eq!(record.state, TaskState::pending());
        assert_eq!((record.queue.as_str(), record.spec.priority), ("next", 7));
        assert_eq!((record.attempts, record.charged), (1, 0));
        let request = node.asking_for(name);
        assert_eq!(node.store.claim(&request, at(9)).await.unwrap().unwrap().attempt, 2);
        assert_eq!(node.store.attempts(&id(name)).await.unwrap().len(), 2, "history stays");
    }
}

pub async fn resume_keeps_what_is_good_and_what_is_under_way(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    let names = ["failed", "done", "held", "landing", "fresh"];
    node.add(&names[..4].iter().map(|name| task(name)).collect::<Vec<_>>()).await;
    node.fail("failed").await;
    node.finish("done").await;
    let held = node.claim("held").await;
    node.approve("landing").await;
    let again: Vec<_> =
        names.iter().map(|name| task(name).priority(7).queued("next").or(IfPresent::Resume)).collect();
    let request = RequestId::fresh();
    for _ in 0..2 {
        node.store.enqueue(&again, &request, at(1)).await.unwrap();
    }
    assert_eq!(node.states(names).await, ["pending", "done", "claimed", "landing", "pending"]);
    let in_next = TaskQuery { queue: Some("next".into()), ..TaskQuery::default() };
    assert_eq!(node.store.tasks(&in_next).await.unwrap().len(), 5);
    assert_eq!(node.store.task(&id("done")).await.unwrap().spec.priority, 7);
    assert_eq!(node.store.task(&id("held")).await.unwrap().spec.priority, 0);
    node.settle(&held, Outcome::Done { head: None }).await.unwrap();
}

pub async fn what_waits_for_a_time_is_listed_by_it_and_not_ready(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("a"), task("b"), task("c")]).await;
    let class = regatta_core::failure::FailureClass::Work;
    node.bring("a", Outcome::Retry { not_before: Some(at(900)), class, why: "x".into() }).await;
    let (until, why) = (at(300), ParkReason::RateLimited);
    node.bring("b", Outcome::Park { until, why, detail: "limit".into() }).await;
    node.operate("c", Operation::Park { until: at(600), detail: "later".into() }).await.unwrap();
    let timers = node.store.timers(QUEUE, 10).await.unwrap();
    assert_eq!(timers, [(id("b"), at(300)), (id("c"), at(600)), (id("a"), at(900))]);
    assert_eq!(node.store.timers(QUEUE, 1).await.unwrap().len(), 1);
    assert!(node.ready().await.is_empty());
    assert!(node.try_claim("a").await.unwrap().is_none());
    for name in ["a", "b", "c"] {
        node.operate(name, Operation::Due).await.unwrap();
    }
    assert_eq!(node.ready().await, ["a", "b", "c"]);
    assert!(node.store.timers(QUEUE, 10).await.unwrap().is_empty());
}
