//! Binds tasks to a node.

use regatta_engine::clock;
use regatta_store::{Operation, RequestId, StoreError, TaskRecord};

use super::{Changed, Changes, Did, unfit};
use crate::nodes::find;
use crate::operator::Operator;
use crate::refusal::Refusal;

impl Operator {
    /// Lets only one node work on tasks that no engine holds; any node if `node` is `None`.
    pub async fn assign(&self, node: Option<&str>, tasks: &[String]) -> Result<Changes, Refusal> {
        let node = match node {
            Some(text) => Some(find(self.store.as_ref(), text).await?.record.name),
            None => None,
        };
        let mut changes = Changes::default();
        for task in self.find(tasks).await? {
            changes.push(&task.spec.id, assign(self, &task, node.as_deref()).await);
        }
        Ok(changes)
    }
}

async fn assign(operator: &Operator, task: &TaskRecord, node: Option<&str>) -> Result<Changed, Refusal> {
    let id = &task.spec.id;
    let operation = Operation::Assign { node: node.map(str::to_owned), by: operator.by.clone() };
    match operator.store.operate(id, &operation, &RequestId::fresh(), clock::now()).await {
        Ok(()) => {}
        Err(StoreError::Refused(_)) => {
            return Err(unfit(&operator.store.task(id).await?, "assigned to a node"));
        }
        Err(error) => return Err(error.into()),
    }
    let did = Did::Assigned(node.map(str::to_owned));
    Ok(Changed { task: operator.store.task(id).await?, did, salvaged: None })
}
