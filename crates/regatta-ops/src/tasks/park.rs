//! Holds tasks back until a time, or until they are unparked.

use regatta_core::state::{StateName, TaskState};
use regatta_core::time::Timestamp;
use regatta_engine::clock;
use regatta_store::{Operation, RequestId, StoreError, TaskRecord};

use super::{Changed, Changes, Did, unfit};
use crate::operator::{Operator, Selection};
use crate::refusal::Refusal;

/// The end of time, for tasks that wait until they are unparked.
pub const FOREVER: Timestamp = Timestamp::from_millis(253_370_764_800_000);

/// A request to hold back tasks that have not started.
#[derive(Clone, Debug)]
pub struct ParkRequest {
    /// The tasks; `All` is every pending task.
    pub tasks: Selection,
    /// Until when; [`FOREVER`] is until they are unparked.
    pub until: Timestamp,
    /// The reason, for people.
    pub why: Option<String>,
}

impl Operator {
    /// Parks tasks. Nothing is charged; tasks that depend on a parked task wait with it.
    pub async fn park(&self, request: &ParkRequest) -> Result<Changes, Refusal> {
        let found = self.select(&request.tasks, &[StateName::Pending]).await?;
        let detail = request.why.clone().unwrap_or_else(|| format!("parked by {}", self.by));
        let mut changes = Changes::default();
        for task in found {
            changes.push(&task.spec.id, park(self, &task, request.until, &detail).await);
        }
        Ok(changes)
    }

    /// Lets parked tasks start. `All` is every parked task.
    pub async fn unpark(&self, tasks: &Selection) -> Result<Changes, Refusal> {
        let found = self.select(tasks, &[StateName::Parked]).await?;
        let mut changes = Changes::default();
        for task in found {
            changes.push(&task.spec.id, unpark(self, &task).await);
        }
        Ok(changes)
    }
}

async fn park(
    operator: &Operator,
    task: &TaskRecord,
    until: Timestamp,
    detail: &str,
) -> Result<Changed, Refusal> {
    let id = &task.spec.id;
    let operation = Operation::Park { until, detail: detail.to_owned() };
    match operator.store.operate(id, &operation, &RequestId::fresh(), clock::now()).await {
        Ok(()) => {}
        Err(StoreError::Refused(_)) => return Err(unfit(&operator.store.task(id).await?, "parked")),
        Err(error) => return Err(error.into()),
    }
    let did = Did::Parked((until < FOREVER).then_some(until));
    Ok(Changed { task: operator.store.task(id).await?, did, salvaged: None })
}

/// Whether it waits to be unparked and not for a time.
pub fn waits_for_a_word(state: &TaskState) -> bool {
    matches!(state, TaskState::Parked { until, .. } if *until >= FOREVER)
}

async fn unpark(operator: &Operator, task: &TaskRecord) -> Result<Changed, Refusal> {
    let id = &task.spec.id;
    match operator.store.operate(id, &Operation::Due, &RequestId::fresh(), clock::now()).await {
        Ok(()) => {}
        Err(StoreError::Refused(_)) => {
            let task = operator.store.task(id).await?;
            return Err(match task.state {
                TaskState::Pending { .. } => unfit(&task, "unparked: it is not waiting for a time"),
                _ => unfit(&task, "unparked"),
            });
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Changed { task: operator.store.task(id).await?, did: Did::Pending, salvaged: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_time_can_be_written_down() {
        assert_eq!(FOREVER.to_string(), "9999-01-01T00:00:00.000Z");
    }
}
