//! What an engine remembers during its life. Its copies share one memory, and a reload keeps it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use regatta_core::id::TaskId;

use crate::landing::train::TrainMemory;

/// The memory of one engine.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// What passed and what failed on the way to the target. Of one repository.
    pub(crate) train: Arc<TrainMemory>,
    /// Held while an account is chosen. Of the project.
    pub(crate) choosing: Arc<tokio::sync::Mutex<()>>,
    /// Lanes of settled tasks that could not be removed in time. Of one repository.
    lanes_to_retire: Arc<Mutex<BTreeSet<TaskId>>>,
}

impl Memory {
    /// Lanes of settled tasks that could not be removed in time.
    pub(crate) fn lanes_to_retire(&self) -> MutexGuard<'_, BTreeSet<TaskId>> {
        self.lanes_to_retire.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
