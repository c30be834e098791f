//! Records of several tasks, read by one call.

use std::collections::BTreeMap;

use regatta_core::id::TaskId;
use regatta_store::{Result, Store, TaskQuery, TaskRecord};

use crate::persist::until_answered;

/// The records of those tasks that exist. Ids are compared regardless of case, as in the store.
#[derive(Debug, Default)]
pub(crate) struct Records(BTreeMap<String, TaskRecord>);

impl Records {
    /// Reads them; no call for none.
    pub(crate) async fn load<'a>(
        store: &dyn Store,
        ids: impl IntoIterator<Item = &'a TaskId>,
    ) -> Result<Self> {
        let ids: Vec<TaskId> = ids.into_iter().cloned().collect();
        if ids.is_empty() {
            return Ok(Self::default());
        }
        let query = TaskQuery { ids: Some(ids), ..TaskQuery::default() };
        let found = until_answered(|| store.tasks(&query)).await?;
        Ok(Self(found.into_iter().map(|record| (record.spec.id.folded(), record)).collect()))
    }

    pub(crate) fn get(&self, task: &TaskId) -> Option<&TaskRecord> {
        self.0.get(&task.folded())
    }

    pub(crate) fn remove(&mut self, task: &TaskId) -> Option<TaskRecord> {
        self.0.remove(&task.folded())
    }
}
