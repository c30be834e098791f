//! The event log, page by page.

use std::collections::VecDeque;

use regatta_core::event::{Event, EventBody};
use regatta_core::id::TaskId;
use regatta_store::Store;

use crate::refusal::Refusal;

/// How many events are read at once.
const PAGE: usize = 1000;

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
