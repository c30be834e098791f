//! Tasks that have started and are not settled: their declared writes stay reserved for them.

use std::collections::BTreeMap;

use regatta_core::id::TaskId;
use regatta_core::spec::TaskSpec;
use regatta_core::state::TaskState;
use regatta_core::writes::first_overlap;
use regatta_store::TaskQuery;

use super::{Engine, EngineError};
use crate::persist::until_answered;

/// The reservations of one engine.
#[derive(Default)]
pub(super) struct Reservations(BTreeMap<TaskId, TaskSpec>);

impl Reservations {
    pub(super) fn insert(&mut self, spec: TaskSpec) {
        self.0.insert(spec.id.clone(), spec);
    }

    /// True if it had one.
    pub(super) fn remove(&mut self, task: &TaskId) -> bool {
        self.0.remove(task).is_some()
    }

    pub(super) fn of(&self, task: &TaskId) -> Option<&TaskSpec> {
        self.0.get(task)
    }

    pub(super) fn specs(&self) -> impl Iterator<Item = &TaskSpec> {
        self.0.values()
    }

    fn overlap(&self, spec: &TaskSpec) -> bool {
        self.specs().any(|other| first_overlap(&spec.writes, &other.writes).is_some())
    }
}

impl Engine {
    /// Tasks of this queue that started before keep their places reserved: the first to arrive, if two overlapping ones
    /// were started. Two reservations that wait for each other would wait forever. Chains are found on the way.
    pub(crate) async fn reserve_begun(&mut self) -> Result<(), EngineError> {
        let query = TaskQuery { queue: Some(self.queue.clone()), ..TaskQuery::default() };
        for record in until_answered(|| self.ctx.services.store.tasks(&query)).await? {
            self.chains.find(&record.spec);
            // A task that now waits for others could wait for one that its own reservation holds back.
            let begun = record.attempts > 0 && !record.state.is_terminal() && record.waiting_on.is_empty();
            let blocked = matches!(record.state, TaskState::Blocked { .. });
            if begun && !blocked && !self.reservations.overlap(&record.spec) {
                self.reservations.insert(record.spec);
            }
        }
        Ok(())
    }
}
