//! Ready tasks and timers.
//!
//! Invariant: a task is ready exactly if it has an entry among those that are: pending, with no time to wait for, all
//! dependencies met.

use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;

use super::look::{Look, Seeing};
use super::{entries, tasks};
use crate::stored::spec_of;
use crate::{Ready, ReadyKey};

pub(super) async fn ready(
    look: &Look<'_>,
    queue: &str,
    after: Option<&ReadyKey>,
    limit: usize,
) -> Seeing<Vec<Ready>> {
    let names = look.names(&entries::ready(queue)).await?;
    let is_later = |key: &ReadyKey| {
        after
            .is_none_or(|after| (-i64::from(key.priority), key.seq) > (-i64::from(after.priority), after.seq))
    };
    let mut found =
        names.iter().filter_map(|name| entries::read_ready(name)).filter(|(key, _)| is_later(key));
    let mut ready = Vec::new();
    loop {
        let page: Vec<_> = found.by_ref().take(limit - ready.len()).collect();
        if page.is_empty() {
            return Ok(ready);
        }
        // What only a newer version can read is left to that version, and others take its place.
        for ((key, name), body) in
            page.iter().zip(tasks::specs(look, page.iter().map(|(_, name)| name)).await?)
        {
            if let Some(spec) = spec_of(&format!("the spec of {name}"), &body)? {
                ready.push(Ready { key: key.clone(), spec });
            }
        }
    }
}

pub(super) async fn timers(look: &Look<'_>, queue: &str, limit: usize) -> Seeing<Vec<(TaskId, Timestamp)>> {
    let names = look.names(&entries::timers(queue)).await?;
    let names: Vec<_> = names.iter().filter_map(|name| entries::read_timer(name)).take(limit).collect();
    let found = tasks::read(look, &names).await?;
    // A name may be older than the task that it led to.
    Ok(found.into_iter().filter_map(|(_, task)| Some((task.id, task.state.wakes_at()?))).collect())
}
