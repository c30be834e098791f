//! What can be done to tasks, and what comes of it: each task is changed, or refused with its reason.

mod add;
mod cancel;
mod enqueue;
mod land;
pub mod next;
mod park;
pub(crate) mod requeue;
pub mod retire;
mod retry;
mod send;

use std::fmt;

use regatta_core::id::TaskId;
use regatta_core::state::TaskState;
use regatta_core::time::Timestamp;
use regatta_store::TaskRecord;

pub use add::{AddRequest, generic, plain_order};
pub use cancel::CancelRequest;
pub use enqueue::{EnqueueRequest, Enqueued, Source, dependencies, parse_for_daemon, there_already};
pub use land::{BoardRequest, Resumed, Why};
pub use park::{FOREVER, ParkRequest, waits_for_a_word};
pub use retry::{Conversation, RetryRequest};
pub use send::{BroadcastRequest, Broadcasted, SendRequest, When, beginning, line};

use crate::documents::{ChangedDocument, ChangesDocument, RefusedDocument, TaskDocument};
use crate::operator::Operator;
use crate::refusal::Refusal;
use crate::step::Act;

/// What was done to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Did {
    /// It is cancelled.
    Cancelled,
    /// The process that holds it was asked to cancel it.
    CancelAsked,
    /// It waits to be started.
    Pending,
    /// It waits until this time; without one, until it is unparked.
    Parked(Option<Timestamp>),
    /// Its work was sent to the train; its state says what came of that.
    Landed(String),
}

/// As the end of a sentence that begins with the task's id.
impl fmt::Display for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Did::Cancelled => f.write_str("cancelled"),
            Did::CancelAsked => f.write_str("will be cancelled by the run that holds it"),
            Did::Pending => f.write_str("is pending again"),
            Did::Parked(None) => f.write_str("is parked until `regatta unpark`"),
            Did::Parked(Some(until)) => write!(f, "is parked until {}", crate::when::moment(*until)),
            Did::Landed(what) => f.write_str(what),
        }
    }
}

/// One task that was changed.
#[derive(Clone, Debug)]
pub struct Changed {
    /// The task as it is now.
    pub task: TaskRecord,
    /// What was done.
    pub did: Did,
    /// Where the work went that was in its lane.
    pub salvaged: Option<String>,
}

impl Changed {
    /// The whole sentence.
    pub fn sentence(&self) -> String {
        let id = &self.task.spec.id;
        let saved = self.salvaged.as_ref().map(|name| format!("; what was in its lane is in {name}"));
        let saved = saved.unwrap_or_default();
        match self.did {
            Did::Parked(None) => format!("{id} is parked until `regatta unpark {id}`{saved}"),
            ref did => format!("{id} {did}{saved}"),
        }
    }
}

/// What an operation did to the tasks it was given.
#[derive(Debug, Default)]
pub struct Changes {
    /// Those that were changed.
    pub changed: Vec<Changed>,
    /// Those that were refused, with the reason.
    pub refused: Vec<(TaskId, Refusal)>,
}

impl Changes {
    /// Adds what became of one task.
    pub fn push(&mut self, id: &TaskId, result: Result<Changed, Refusal>) {
        match result {
            Ok(changed) => self.changed.push(changed),
            Err(refusal) => self.refused.push((id.clone(), refusal)),
        }
    }

    /// What became of the one task that the operation was for.
    pub fn only(mut self) -> Result<Changed, Refusal> {
        match (self.changed.pop(), self.refused.pop()) {
            (Some(changed), _) => Ok(changed),
            (None, Some((_, refusal))) => Err(refusal),
            (None, None) => Err(Refusal::not_found("there was nothing to do")),
        }
    }

    /// For programs.
    pub fn document(&self, operator: &Operator) -> ChangesDocument {
        let changed = |changed: &Changed| ChangedDocument {
            task: TaskDocument::from(&changed.task),
            salvaged: changed.salvaged.clone(),
        };
        let refused = |(id, refusal): &(TaskId, Refusal)| RefusedDocument {
            id: id.clone(),
            error: refusal.message.clone(),
            hint: refusal.hint(),
        };
        ChangesDocument {
            tasks: self.changed.iter().map(changed).collect(),
            refused: self.refused.iter().map(refused).collect(),
            daemon: operator.takers.daemon_document(),
            warnings: Vec::new(),
        }
    }
}

/// What can be done to a task in this state: the one table behind every refusal, `status` and the keys of `top`.
pub fn acts(state: &TaskState) -> &'static [Act] {
    match state {
        TaskState::Pending { .. } => &[Act::Status, Act::Cancel],
        TaskState::Claimed { .. } | TaskState::Running { .. } | TaskState::Judging { .. } => {
            &[Act::Wait, Act::Cancel]
        }
        TaskState::Landing { .. } => &[Act::Wait],
        TaskState::Parked { .. } => &[Act::Unpark, Act::Cancel],
        TaskState::Done { .. } => &[Act::Land, Act::Requeue],
        TaskState::Landed { .. } => &[Act::Requeue],
        TaskState::Skipped { .. } => &[Act::Status],
        TaskState::Failed { .. } | TaskState::Cancelled { .. } | TaskState::Blocked { .. } => {
            &[Act::Retry, Act::Requeue]
        }
    }
}

/// Why an operation does not fit the state: both are named, and the next steps are given.
pub(crate) fn unfit(task: &TaskRecord, cannot: &str) -> Refusal {
    let (id, state) = (&task.spec.id, task.state.name());
    let refusal = Refusal::refused(format!("{id} is {state}, so it cannot be {cannot}")).about(task);
    match &task.state {
        TaskState::Skipped { dependency } => {
            refusal.hinted(format!("`regatta requeue {dependency}` brings it back with what it needs"))
        }
        state => refusal.offering(id, acts(state).iter().copied()),
    }
}
