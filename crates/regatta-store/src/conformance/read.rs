//! Reading.

use regatta_core::part::Part;
use regatta_core::state::StateName;

use super::Fixture;
use super::node::{Node, id, task};
use crate::{Operation, StoreError, TaskBrief, TaskQuery};

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

pub async fn attempts_of_many_tasks_are_those_of_each(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("one"), task("two"), task("never")]).await;
    node.fail("one").await;
    node.fail("two").await;
    node.operate("two", Operation::Requeue { by: "me".into() }).await.unwrap();
    node.claim("two").await;
    let asked = [id("TWO"), id("unknown"), id("never"), id("one")];
    let found = node.store.attempts_of(&asked).await.unwrap();
    let counts: Vec<_> = found.iter().map(|(task, attempts)| (task.as_str(), attempts.len())).collect();
    assert_eq!(counts, [("TWO", 2), ("never", 0), ("one", 1)]);
    assert_eq!(found[0].1, node.store.attempts(&id("two")).await.unwrap());
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
    let states = vec![StateName::Failed, StateName::Blocked];
    assert_eq!(list(TaskQuery { states: states.clone(), ..TaskQuery::default() }).await, ["PRD-2"]);
    let queue = Some("other".to_owned());
    assert_eq!(list(TaskQuery { queue: queue.clone(), ..TaskQuery::default() }).await, ["prd_3"]);
    assert_eq!(list(TaskQuery { queue, states, ..TaskQuery::default() }).await, [""; 0]);
}

pub async fn a_list_says_of_each_task_what_the_task_says(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    let waiting = task("Later").after(&["First", "second"]).priority(-3);
    let mut first = task("First").priority(7);
    first.spec.title = "Says \"hello\"".into();
    first.spec.labels = vec!["small".into(), "fun, too".into()];
    first.spec.part = Some(Part::Planner { chain: true });
    first.spec.read_only = true;
    node.add(&[first, task("second"), waiting, task("x").queued("other")]).await;
    node.finish("second").await;
    for (query, expected) in [
        (TaskQuery::default(), 4),
        (TaskQuery { queue: Some("main".into()), ..TaskQuery::default() }, 3),
        (TaskQuery { limit: 3, ..TaskQuery::default() }, 3),
        (TaskQuery { states: vec![StateName::Pending], ..TaskQuery::default() }, 3),
        (TaskQuery { ids: Some(vec![id("LATER"), id("nobody"), id("x")]), ..TaskQuery::default() }, 2),
        (TaskQuery { ids: Some(Vec::new()), ..TaskQuery::default() }, 0),
        (TaskQuery { prefix: Some("fir".into()), ..TaskQuery::default() }, 1),
    ] {
        let records = node.store.tasks(&query).await.unwrap();
        let briefs = node.store.briefs(&query).await.unwrap();
        assert_eq!(briefs.len(), expected, "{query:?}");
        assert_eq!(briefs, records.iter().map(TaskBrief::from).collect::<Vec<_>>(), "{query:?}");
        let mut pages = node.store.brief_pages(&query).await.unwrap();
        let mut in_pages = Vec::new();
        while let Some(page) = pages.recv().await {
            in_pages.extend(page.unwrap());
        }
        assert_eq!(in_pages, briefs, "{query:?}");
    }
}

pub async fn of_many_tasks_those_that_changed_last_can_be_listed(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&["a", "b", "c", "d", "e"].map(task)).await;
    node.finish("d").await;
    node.finish("b").await;
    let query = TaskQuery { limit: 2, latest: true, ..TaskQuery::default() };
    let names =
        |briefs: Vec<TaskBrief>| briefs.into_iter().map(|brief| brief.id.to_string()).collect::<Vec<_>>();
    assert_eq!(names(node.store.briefs(&query).await.unwrap()), ["b", "d"], "in order of arrival");
    let pending = TaskQuery { states: vec![StateName::Pending], ..query };
    assert_eq!(names(node.store.briefs(&pending).await.unwrap()), ["c", "e"], "the last to arrive");
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
    let expected =
        [(StateName::Pending, 2), (StateName::Claimed, 1), (StateName::Done, 1), (StateName::Failed, 1)];
    assert_eq!(counts, expected);
}
