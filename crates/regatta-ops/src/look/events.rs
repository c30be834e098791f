//! The event log, page by page.

use std::collections::VecDeque;

use regatta_core::event::{Event, EventBody};
use regatta_core::id::TaskId;
use regatta_store::Store;

use crate::changes::StoreChanges;
use crate::project::{Project, find_task};
use crate::refusal::Refusal;

/// How many events are read at once.
const PAGE: usize = 1000;

/// A request for events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventsRequest {
    /// Only events of this task: an id, or the beginning of one.
    pub task: Option<String>,
    /// Only events after this number.
    pub since: u64,
    /// Of those that exist, only the last.
    pub last: Option<usize>,
    /// Also those that come later, without an end.
    pub follow: bool,
}

impl Project {
    /// Passes events to `each`, oldest first.
    pub async fn events(&self, request: &EventsRequest, mut each: impl FnMut(&Event)) -> Result<(), Refusal> {
        let store = if request.follow && request.task.is_none() {
            self.store_to_follow().await?
        } else if request.task.is_none() && !self.has_store() {
            return Ok(());
        } else {
            self.store().await?
        };
        let store = store.as_ref();
        let task = match &request.task {
            Some(text) => Some(find_task(store, text).await?.spec.id),
            None => None,
        };
        let mut changes = StoreChanges::of(store).await?;
        let mut after = request.since;
        if let Some(n) = request.last {
            after = before_last(store, after, task.as_ref(), n).await?;
        }
        loop {
            each_after(store, &mut after, task.as_ref(), &mut each).await?;
            if !request.follow {
                return Ok(());
            }
            changes.next().await?;
        }
    }
}

/// Passes every event after `after` to `each`, and advances `after`.
pub async fn each_after(
    store: &dyn Store,
    after: &mut u64,
    task: Option<&TaskId>,
    mut each: impl FnMut(&Event),
) -> Result<(), Refusal> {
    loop {
        let events = store.events(*after, task, PAGE).await?;
        for event in &events {
            *after = event.seq;
            each(event);
        }
        if events.len() < PAGE {
            return Ok(());
        }
    }
}

/// The number after which the last `n` events come.
pub async fn before_last(
    store: &dyn Store,
    after: u64,
    task: Option<&TaskId>,
    n: usize,
) -> Result<u64, Refusal> {
    let last = store.last_seq().await?;
    if task.is_none() {
        // Event numbers have no gaps, except for rolled-back ones.
        return Ok(after.max(last.saturating_sub(n as u64)));
    }
    let (mut read, mut seqs) = (after, VecDeque::from([after]));
    each_after(store, &mut read, task, |event| {
        seqs.push_back(event.seq);
        if seqs.len() > n + 1 {
            seqs.pop_front();
        }
    })
    .await?;
    Ok(seqs.front().copied().unwrap_or(after))
}

/// The process id that was started for an attempt.
pub async fn started_pid(store: &dyn Store, id: &TaskId, attempt: u32) -> Result<Option<u32>, Refusal> {
    let (mut after, mut pid) = (0, None);
    each_after(store, &mut after, Some(id), |event| {
        if let EventBody::Started { pid: started } = event.body
            && event.attempt == Some(attempt)
            && started != 0
        {
            pid = Some(started);
        }
    })
    .await?;
    Ok(pid)
}
