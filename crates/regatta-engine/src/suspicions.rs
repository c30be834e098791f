//! The suspicions about a running attempt, from the event log.

use regatta_core::id::TaskId;
use regatta_core::suspicion::{Suspicion, note};
use regatta_store::{Result, Store};

/// Number of events read at once.
const EVENTS_AT_ONCE: usize = 1000;

/// The suspicions about an attempt that still hold.
pub async fn open_suspicions(store: &dyn Store, task: &TaskId, attempt: u32) -> Result<Vec<Suspicion>> {
    let (mut open, mut after) = (Vec::new(), 0);
    loop {
        let events = store.events(after, Some(task), EVENTS_AT_ONCE).await?;
        events.iter().for_each(|event| note(&mut open, event, attempt));
        match events.last() {
            Some(last) if events.len() == EVENTS_AT_ONCE => after = last.seq,
            _ => return Ok(open),
        }
    }
}
