//! Reading.

use super::Fixture;
use super::node::{Node, id, task};
use crate::{StoreError, TaskQuery};

pub async fn tasks_are_listed_in_order_of_arrival_and_by_page(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    let tasks: Vec<_> = (0..23).map(|n| task(&format!("t{n:02}")).priority(n % 4)).collect();
    node.add(&tasks).await;
    let all = node.store.tasks(&TaskQuery::default()).await.unwrap();
    let names: Vec<_> = all.iter().map(|record| record.spec.id.to_string()).collect();
    assert!(names.is_sorted() && names.len() == 23, "{names:?}");
    let mut query = TaskQuery { limit: 5, ..TaskQuery::default() };
    let mut paged = Vec::new();
    loop {
        let page = node.store.tasks(&query).await.unwrap();
        let Some(last) = page.last() else { break };
        query.after = Some(last.seq);
        paged.extend(page);
    }
    assert_eq!(paged, all);
}

pub async fn tasks_are_found_by_state_queue_and_prefix(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("PRD-1"), task("PRD-2"), task("prd_3").queued("other"), task("x")]).await;
    node.fail("PRD-2").await;
    let list = async |query: TaskQuery| {
        let records = node.store.tasks(&query).await.unwrap();
        records.into_iter().map(|record| record.spec.id.to_string()).collect::<Vec<_>>()
    };
    let prefix = |prefix: &str| TaskQuery { prefix: Some(prefix.into()), ..TaskQuery::default() };
    assert_eq!(list(prefix("prd")).await, ["PRD-1", "PRD-2", "prd_3"]);
    assert_eq!(list(prefix("PRD-")).await, ["PRD-1", "PRD-2"]);
    assert_eq!(list(prefix("%")).await, [""; 0]);
    let states = vec!["failed".to_owned(), "blocked".to_owned()];
    assert_eq!(list(TaskQuery { states: states.clone(), ..TaskQuery::default() }).await, ["PRD-2"]);
    let queue = Some("other".to_owned());
    assert_eq!(list(TaskQuery { queue: queue.clone(), ..TaskQuery::default() }).await, ["prd_3"]);
    assert_eq!(list(TaskQuery { queue, states, ..TaskQuery::default() }).await, [""; 0]);
}

pub async fn what_is_not_there_is_not_found(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    let nobody = id("nobody");
    assert!(matches!(node.store.task(&nobody).await, Err(StoreError::NotFound(_))));
    assert!(matches!(node.store.attempts(&nobody).await, Err(StoreError::NotFound(_))));
    assert!(matches!(node.store.reported(&nobody, 1).await, Err(StoreError::NotFound(_))));
    assert!(node.store.tasks(&TaskQuery::default()).await.unwrap().is_empty());
    assert!(node.store.counts(None).await.unwrap().is_empty());
    assert!(node.store.cars("main").await.unwrap().is_empty());
}

pub async fn counts_follow_the_order_of_a_tasks_life(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&["a", "b", "c", "d", "e"].map(task)).await;
    node.fail("a").await;
    node.finish("b").await;
    node.claim("c").await;
    let counts = node.store.counts(None).await.unwrap();
    let expected = [("pending", 2), ("claimed", 1), ("done", 1), ("failed", 1)];
    assert_eq!(counts, expected.map(|(name, n)| (name.to_owned(), n)));
}
