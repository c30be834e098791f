//! Operations on tasks: each task is changed, or refused with a reason.

mod add;
mod assign;
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
pub(crate) use enqueue::{group_warnings, present, put};
pub use land::{BoardRequest, Resumed, Way, Why};
pub use park::{FOREVER, ParkRequest, waits_for_a_word};
pub use retry::{Conversation, RetryRequest};
pub use send::{BroadcastRequest, Broadcasted, SendRequest, When, beginning, line};

use crate::documents::{ChangedDocument, ChangesDocument, RefusedDocument, TaskDocument};
use crate::operator::Operator;
use crate::refusal::Refusal;

/// What was done to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Did {
    /// It was cancelled.
    Cancelled,
    /// The process that holds it was asked to cancel it.
    CancelAsked,
    /// It waits to be started.
    Pending,
    /// It waits until this time, or until it is unparked.
    Parked(Option<Timestamp>),
    /// Only this node may work on it; any node if there is none.
    Assigned(Option<String>),
    /// Its work was put into the train, with this result.
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
            Did::Assigned(None) => f.write_str("is for any node"),
            Did::Assigned(Some(node)) => write!(f, "is for {node}"),
            Did::Landed(what) => f.write_str(what),
        }
    }
}

/// A changed task.
#[derive(Clone, Debug)]
pub struct Changed {
    /// The task in its new state.
    pub task: TaskRecord,
    /// What was done.
    pub did: Did,
    /// The ref with the work from its lane, if that was saved.
    pub salvaged: Option<String>,
}

impl Changed {
    /// The result as a sentence.
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

/// The results of an operation for each task.
#[derive(Debug, Default)]
pub struct Changes {
    /// Those that were changed.
    pub changed: Vec<Changed>,
    /// Those that were refused, with the reason.
    pub refused: Vec<(TaskId, Refusal)>,
}

impl Changes {
    /// Adds the result of one task.
    pub fn push(&mut self, id: &TaskId, result: Result<Changed, Refusal>) {
        match result {
            Ok(changed) => self.changed.push(changed),
            Err(refusal) => self.refused.push((id.clone(), refusal)),
        }
    }

    /// The result of an operation on a single task.
    pub fn only(mut self) -> Result<Changed, Refusal> {
        match (self.changed.pop(), self.refused.pop()) {
            (Some(changed), _) => Ok(changed),
            (None, Some((_, refusal))) => Err(refusal),
            (None, None) => Err(Refusal::not_found("nothing to do")),
        }
    }

    /// The results as a document.
    pub fn document(&self, operator: &Operator) -> ChangesDocument {
        let changed = |changed: &Changed| ChangedDocument {
            task: TaskDocument::from(&changed.task),
            salvaged: changed.salvaged.clone(),
        };
        let refused = |(id, refusal): &(TaskId, Refusal)| RefusedDocument::of(id, refusal);
        ChangesDocument {
            tasks: self.changed.iter().map(changed).collect(),
            refused: self.refused.iter().map(refused).collect(),
            daemon: operator.takers.daemon_document(),
            warnings: Vec::new(),
        }
    }
}

/// The refusal of an operation that does not fit the state: it names both, and gives the next steps.
pub(crate) fn unfit(task: &TaskRecord, cannot: &str) -> Refusal {
    let (id, state) = (&task.spec.id, task.state.name());
    let message = match &task.state {
        TaskState::Landed { .. } if matches!(cannot, "landed" | "landed again") => {
            format!("{id} has already landed")
        }
        TaskState::Failed { .. } => format!("{id} failed, so it cannot be {cannot}"),
        _ => format!("{id} is {state}, so it cannot be {cannot}"),
    };
    let refusal = Refusal::refused(message).about(task);
    match &task.state {
        TaskState::Skipped { dependency, .. } => {
            refusal.hinted(format!("`regatta requeue {dependency}` brings it back with what it needs"))
        }
        _ => refusal.offering(id, next::next(task, true).acts.iter().copied()),
    }
}
