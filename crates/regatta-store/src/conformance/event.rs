//! The event log, and notification of changes.

use std::collections::HashSet;
use std::time::Duration;

use regatta_core::event::EventBody;

use super::Fixture;
use super::node::{Node, at, id, task};
use crate::{RequestId, StoreError};

/// Longer than any test takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);

fn noted(text: &str) -> EventBody {
    EventBody::Noted { text: text.into() }
}

pub async fn the_same_request_appends_once(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    let request = RequestId::fresh();
    for _ in 0..2 {
        node.store.append(Some(&id("t")), Some(3), &noted("1"), &request, at(8)).await.unwrap();
        node.store.append(None, None, &noted("2"), &request, at(9)).await.unwrap();
    }
    let events = node.store.events(0, None, 10).await.unwrap();
    let bodies: Vec<_> = events.iter().skip(1).map(|event| &event.body).collect();
    assert_eq!(bodies, [&noted("1"), &noted("2")]);
    assert_eq!((events[1].task.as_ref(), events[1].attempt, events[1].at), (Some(&id("t")), Some(3), at(8)));
    assert_eq!(events[2].task, None);
}

pub async fn events_are_read_page_by_page_and_by_task(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("x"), task("y")]).await;
    node.finish("y").await;
    let all = node.store.events(0, None, 100).await.unwrap();
    assert!(all.is_sorted_by_key(|event| event.seq));
    let (mut paged, mut after) = (Vec::new(), 0);
    loop {
        let page = node.store.events(after, None, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.seq;
        paged.extend(page);
    }
    assert_eq!(paged, all);
    let of_y = node.store.events(0, Some(&id("Y")), 100).await.unwrap();
    assert!(of_y.len() > 2 && of_y.iter().all(|event| event.task == Some(id("y"))));
    assert!(matches!(node.store.events(0, Some(&id("z")), 1).await, Err(StoreError::NotFound(_))));
}

pub async fn an_event_that_tells_of_a_state_is_not_appended_from_outside(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    let body = EventBody::Failed { why: "says who".into() };
    let refused = node.store.append(Some(&id("t")), None, &body, &RequestId::fresh(), at(1)).await;
    assert!(matches!(refused, Err(StoreError::Invalid(_))), "{refused:?}");
    let refused = node.store.append(Some(&id("u")), None, &noted("x"), &RequestId::fresh(), at(1)).await;
    assert!(matches!(refused, Err(StoreError::NotFound(_))), "{refused:?}");
    assert_eq!(node.events("t").await.len(), 1);
}

pub async fn a_reader_that_follows_misses_nothing(fixture: &dyn Fixture) {
    const WRITERS: usize = 6;
    const EACH: usize = 30;
    let reader = fixture.machine().await;
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let store = fixture.machine().await;
        writers.push(tokio::spawn(async move {
            for n in 0..EACH {
                let body = noted(&format!("{writer}-{n}"));
                store.append(None, None, &body, &RequestId::fresh(), at(1)).await.unwrap();
            }
        }));
    }
    let (mut after, mut seen, mut read) = (0, HashSet::new(), 0);
    let follow = async {
        while read < WRITERS * EACH {
            for event in reader.events(after, None, 1000).await.unwrap() {
                assert!(event.seq > after);
                after = event.seq;
                read += 1;
                if let EventBody::Noted { text } = event.body {
                    seen.insert(text);
                }
            }
        }
    };
    tokio::time::timeout(DEADLINE, follow).await.expect("no event was skipped");
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(seen.len(), WRITERS * EACH);
}

pub async fn a_change_wakes_its_own_handle(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    let mut changes = node.store.subscribe().await.unwrap();
    changes.mark_unchanged();
    node.add(&[task("t")]).await;
    tokio::time::timeout(DEADLINE, changes.changed()).await.expect("a wake-up").unwrap();
    assert_eq!(node.ready().await, ["t"]);
}

pub async fn a_beat_does_not_wake_its_own_handle(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    let mut changes = node.store.subscribe().await.unwrap();
    node.add(&[task("t")]).await;
    tokio::time::timeout(DEADLINE, changes.changed()).await.expect("a wake-up").unwrap();
    // The writer answers before it wakes: a later write comes after the wake-ups of the earlier ones.
    while tokio::time::timeout(Duration::from_millis(50), changes.changed()).await.is_ok() {}
    for _ in 0..5 {
        node.store.renew(&node.session).await.unwrap();
    }
    let woken = tokio::time::timeout(Duration::from_millis(200), changes.changed()).await;
    assert!(woken.is_err(), "a beat is news to nobody");
}

pub async fn a_change_wakes_other_handles_at_once(fixture: &dyn Fixture) {
    let (a, b) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    let mut changes = a.store.subscribe().await.unwrap();
    for round in 0..10 {
        // The notification of the other session's opening may still arrive.
        while tokio::time::timeout(Duration::from_millis(50), changes.changed()).await.is_ok() {}
        let name = format!("t{round}");
        b.add(&[task(&name)]).await;
        let woken = tokio::time::timeout(DEADLINE, changes.changed()).await;
        woken.unwrap_or_else(|_| panic!("no wake-up in round {round}")).unwrap();
        assert!(a.ready().await.contains(&name), "what was told of can be read");
    }
}
