//! What the engines of other machines say about tasks.

use std::collections::BTreeMap;

use regatta_core::id::TaskId;
use regatta_core::node::{EngineStatus, Requirement};
use regatta_store::{STATUS, Store, StoreError, TaskQuery};

use crate::refusal::Refusal;

/// How many tasks are looked at by one call.
const AT_ONCE: usize = 500;

/// Why ready tasks are not started, as all engines with an open session say. `is_open` says whether a session is open.
/// An engine whose node could serve a task knows better than one whose node cannot.
pub async fn held_elsewhere(
    store: &dyn Store,
    is_open: impl Fn(&str) -> bool,
) -> Result<BTreeMap<TaskId, String>, StoreError> {
    let mut held: BTreeMap<TaskId, String> = BTreeMap::new();
    if !store.is_shared() {
        return Ok(held);
    }
    for found in store.documents(STATUS, "").await? {
        let Ok(status) = serde_json::from_str::<EngineStatus>(&found.body) else { continue };
        if !is_open(&found.id) {
            continue;
        }
        for (task, why) in status.held {
            let is_better = |known: &String| is_of_a_stranger(known) && !is_of_a_stranger(&why);
            if held.get(&task).is_none_or(is_better) {
                held.insert(task, why);
            }
        }
    }
    Ok(held)
}

/// Whether the reason is that the node does not fit the task.
fn is_of_a_stranger(why: &str) -> bool {
    why.starts_with("it ")
}

/// The tasks of a query that a node works on or worked on last, or that are for it.
pub async fn tasks_on(store: &dyn Store, query: &TaskQuery, node: &str) -> Result<Vec<TaskId>, Refusal> {
    let name = super::find(store, node).await?.record.name;
    let wanted = Requirement::node(&name);
    let mut found = Vec::new();
    let briefs = store.briefs(&TaskQuery { limit: 0, ..query.clone() }).await?;
    let ids: Vec<TaskId> = briefs.into_iter().map(|brief| brief.id).collect();
    for ids in ids.chunks(AT_ONCE) {
        let query = TaskQuery { ids: Some(ids.to_vec()), ..TaskQuery::default() };
        let assigned = store.tasks(&query).await?;
        let assigned = assigned.into_iter().filter(|task| task.spec.requires.contains(&wanted));
        let assigned: Vec<TaskId> = assigned.map(|task| task.spec.id).collect();
        for (task, attempts) in store.attempts_of(ids).await? {
            let place = attempts.last().and_then(|attempt| attempt.place.as_ref());
            if place.is_some_and(|place| place.node == name) || assigned.contains(&task) {
                found.push(task);
            }
        }
    }
    Ok(found)
}
