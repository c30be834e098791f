//! Tries tasks again where the last attempt stopped.

use regatta_core::state::{StateName, TaskState};
use regatta_engine::clock;
use regatta_store::{Operation, RequestId, TaskRecord};

use super::requeue::{Lane, restart};
use super::{Changed, Changes, Did, unfit};
use crate::operator::{Operator, Selection, dependencies_first};
use crate::refusal::Refusal;

/// A request to try tasks again, in their lanes and with the last failure as guidance.
#[derive(Clone, Debug)]
pub struct RetryRequest {
    /// The tasks; `All` is every task that is blocked, failed or skipped.
    pub tasks: Selection,
    /// The conversation of the next attempt.
    pub conversation: Conversation,
}

/// Which conversation the next attempt has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversation {
    /// The last one, if the agent can resume it.
    Resume,
    /// A new one.
    Fresh,
}

impl Operator {
    /// Tries tasks again. Charged attempts are reset; a parked task only stops waiting.
    pub async fn retry(&self, request: &RetryRequest) -> Result<Changes, Refusal> {
        let found = self.select(&request.tasks, &StateName::all_that(StateName::can_retry)).await?;
        let mut changes = Changes::default();
        for task in dependencies_first(found) {
            changes.push(&task.spec.id, retry(self, &task, request.conversation).await);
        }
        Ok(changes)
    }
}

async fn retry(
    operator: &Operator,
    seen: &TaskRecord,
    conversation: Conversation,
) -> Result<Changed, Refusal> {
    let alone = operator.alone(&seen.spec.id).await?;
    let task = operator.store.task(&seen.spec.id).await?;
    let again = matches!(
        task.state,
        TaskState::Blocked { .. }
            | TaskState::Failed { .. }
            | TaskState::Cancelled { .. }
            | TaskState::Skipped { .. }
            | TaskState::Parked { .. }
    );
    if again && conversation == Conversation::Fresh {
        let operation = Operation::EndConversations;
        operator.store.operate(&task.spec.id, &operation, &RequestId::fresh(), clock::now()).await?;
    }
    match &task.state {
        TaskState::Pending { .. } if matches!(seen.state, TaskState::Skipped { .. }) => {
            Ok(Changed { task, did: Did::Pending, salvaged: None })
        }
        TaskState::Parked { .. } if !operator.takers.is_abandoned(&task.queue) => {
            let (id, at) = (&task.spec.id, clock::now());
            operator.store.operate(id, &Operation::Due, &RequestId::fresh(), at).await?;
            let task = operator.store.task(id).await?;
            Ok(Changed { task, did: Did::Pending, salvaged: None })
        }
        _ if again => restart(operator, &task, Lane::Keep, &alone).await,
        _ => Err(unfit(&task, "retried")),
    }
}
