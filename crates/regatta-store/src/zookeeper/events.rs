//! Reads the event log.
//!
//! Invariant: events are numbered by the ensemble, in the transaction that makes them true, without gaps. So a reader
//! knows the names of the next ones, and one that continues from the last number misses none.

use regatta_core::event::Event;
use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use zookeeper_client::Stat;

use super::look::{Answer, Ask, Look, Seeing};
use super::paths::{self, EVENTS};
use crate::stored::from_json;
use crate::{Result, StoreError};

/// How many events are read at first: a reader that follows has usually missed few.
const FEW: u64 = 50;

/// How many are read at once after that.
const MANY: u64 = 4000;

/// An event as it is read.
#[derive(Deserialize)]
pub(super) struct EventText<'a> {
    pub(super) at: i64,
    pub(super) task: Option<TaskId>,
    pub(super) attempt: Option<u32>,
    #[serde(borrow)]
    pub(super) body: &'a RawValue,
}

pub(super) async fn after(
    look: &Look<'_>,
    seq: u64,
    task: Option<&TaskId>,
    limit: usize,
) -> Seeing<Vec<Event>> {
    if let Some(task) = task
        && look.data(&paths::task(&task.folded())).await?.is_none()
    {
        return Err(StoreError::NotFound(format!("task {task}")).into());
    }
    let mut events = Vec::new();
    let (mut next, mut count) = (seq.saturating_add(1), if task.is_some() { MANY } else { FEW });
    let most = u64::try_from(limit).unwrap_or(u64::MAX);
    while events.len() < limit {
        if task.is_none() {
            count = count.min(most - u64::try_from(events.len()).unwrap_or(most));
        }
        let mut asks = vec![Ask::Data(EVENTS.to_owned())];
        asks.extend((next..next.saturating_add(count)).map(|seq| Ask::Data(paths::event(seq))));
        let mut answers = look.read(&asks).await?.into_iter();
        let last = answers.next().and_then(Answer::data).map_or(0, |(_, stat)| last(&stat));
        for answer in answers {
            let Some((text, _)) = answer.data() else { return Ok(events) };
            let event = event(next, &text)?;
            next += 1;
            let is_wanted =
                task.is_none_or(|task| event.task.as_ref().is_some_and(|of| of.folded() == task.folded()));
            if is_wanted && events.len() < limit {
                events.push(event);
            }
        }
        if next > last {
            return Ok(events);
        }
        count = MANY.min(last + 1 - next);
    }
    Ok(events)
}

fn event(seq: u64, text: &str) -> Result<Event> {
    let it: EventText<'_> = from_json("an event", text)?;
    Ok(Event {
        seq,
        at: Timestamp::from_millis(it.at),
        task: it.task,
        attempt: it.attempt,
        body: from_json("an event", it.body.get())?,
    })
}

pub(super) async fn last_seq(look: &Look<'_>) -> Seeing<u64> {
    Ok(look.data(EVENTS).await?.map_or(0, |(_, stat)| last(&stat)))
}

/// How many events were ever created: what the server reports as changes of a directory is twice the number of
/// creations, less the number of nodes that are left.
pub(super) fn last(events: &Stat) -> u64 {
    u64::try_from((i64::from(events.cversion) + i64::from(events.num_children)) / 2).unwrap_or(0)
}
