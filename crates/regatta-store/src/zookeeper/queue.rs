//! Ready tasks and timers.
//!
//! Invariant: a task is ready exactly if it has an entry among those that are: pending, with no time to wait for, all
//! dependencies met.

use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;

use super::look::{Look, Seeing};
use super::{entries, tasks};
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
    let found = names.iter().filter_map(|name| entries::read_ready(name)).filter(|(key, _)| is_later(key));
    let found: Vec<_> = found.take(limit).collect();
    let specs = tasks::specs(look, found.iter().map(|(_, name)| name)).await?;
    Ok(found.into_iter().zip(specs).map(|((key, _), spec)| Ready { key, spec }).collect())
}

pub(super) async fn timers(look: &Look<'_>, queue: &str, limit: usize) -> Seeing<Vec<(TaskId, Timestamp)>> {
    let names = look.names(&entries::timers(queue)).await?;
    let names: Vec<_> = names.iter().filter_map(|name| entries::read_timer(name)).take(limit).collect();
    let found = tasks::read(look, &names).await?;
    // A name may be older than the task that it led to.
    Ok(found.into_iter().filter_map(|(_, task)| Some((task.id, task.state.wakes_at()?))).collect())
}
