//! What an engine remembers during its life. Its copies share one memory, and a reload keeps it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use tokio::sync::watch;

use crate::fleet::FleetMemory;
use crate::landing::pulls::PullMemory;
use crate::landing::train::TrainMemory;
use crate::siblings::LastLook;

/// A task whose work waits for a person, at this commit.
type Guarded = (TaskId, Option<String>);

/// The memory of one engine.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// What passed and what failed on the way to the target. Of one repository.
    pub(crate) train: Arc<TrainMemory>,
    /// When pull requests were looked at, and what passed. Of one repository.
    pub(crate) pulls: Arc<PullMemory>,
    /// How current it was when its remote was last asked. Of one repository.
    pub(crate) upstream: Arc<LastLook>,
    /// Held while an account is chosen. Of the project.
    pub(crate) choosing: Arc<tokio::sync::Mutex<()>>,
    /// Lanes of settled tasks that could not be removed in time. Of one repository.
    lanes_to_retire: Arc<Mutex<BTreeSet<TaskId>>>,
    /// Tasks for which a follow-up may wait: one came while their agents worked, or nobody listened for a while.
    follow_ups: Arc<Mutex<BTreeSet<TaskId>>>,
    /// Tasks whose dependencies had all landed when their attempt was prepared.
    on_landed_work: Arc<Mutex<BTreeSet<(TaskId, u32)>>>,
    /// Whether the notice about a weaker sandbox was shown.
    told_of_sandbox: Arc<AtomicBool>,
    /// Whether the notice about limits that do not hold was shown.
    told_of_limits: Arc<AtomicBool>,
    /// Signals that work was saved that is not at the hub yet. Of one repository.
    pub(crate) saved: Arc<tokio::sync::Notify>,
    /// Work of chains that waits for a person, by task and commit.
    told_of_guard: Arc<Mutex<BTreeSet<Guarded>>>,
    /// Why the store does not answer, if so. Of the project.
    pub(crate) store_away: watch::Sender<Option<String>>,
    /// This node among others.
    pub(crate) fleet: Arc<FleetMemory>,
}

impl Memory {
    /// The memory for another repository of the project.
    pub(super) fn for_repository(&self) -> Self {
        Self {
            train: Arc::new(TrainMemory::beside(&self.train)),
            pulls: Arc::default(),
            lanes_to_retire: Arc::default(),
            saved: Arc::default(),
            upstream: Arc::default(),
            ..self.clone()
        }
    }

    /// True once per commit: for the first word about work of a chain that waits for a person.
    pub(crate) fn first_word_about_guard(&self, chain: &TaskId, head: Option<&Oid>) -> bool {
        let mut told = self.told_of_guard.lock().unwrap_or_else(PoisonError::into_inner);
        told.insert((chain.clone(), head.map(ToString::to_string)))
    }

    /// All dependencies of this attempt have landed.
    pub(crate) fn is_on_landed_work(&self, task: &TaskId, attempt: u32) {
        let mut known = self.on_landed_work.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert((task.clone(), attempt));
    }

    /// Whether all dependencies of this attempt had landed when it was prepared. Asked once.
    pub(crate) fn was_on_landed_work(&self, task: &TaskId, attempt: u32) -> bool {
        let mut known = self.on_landed_work.lock().unwrap_or_else(PoisonError::into_inner);
        let was = known.contains(&(task.clone(), attempt));
        known.retain(|(other, _)| other != task);
        was
    }

    /// A follow-up may wait for this task.
    pub(crate) fn has_follow_up(&self, task: &TaskId) {
        self.follow_ups.lock().unwrap_or_else(PoisonError::into_inner).insert(task.clone());
    }

    /// Whether a follow-up may wait for this task.
    pub(crate) fn may_have_follow_up(&self, task: &TaskId) -> bool {
        self.follow_ups.lock().unwrap_or_else(PoisonError::into_inner).contains(task)
    }

    /// An attempt of this task begins: its events are heard from now on.
    pub(crate) fn forget_follow_ups(&self, task: &TaskId) {
        self.follow_ups.lock().unwrap_or_else(PoisonError::into_inner).remove(task);
    }

    /// True once: for the first word about a weaker sandbox.
    pub(crate) fn first_word_about_sandbox(&self) -> bool {
        !self.told_of_sandbox.swap(true, Ordering::Relaxed)
    }

    /// True once: for the first word about limits of an attempt that do not hold here.
    pub(crate) fn first_word_about_limits(&self) -> bool {
        !self.told_of_limits.swap(true, Ordering::Relaxed)
    }

    /// Lanes of settled tasks that could not be removed in time.
    pub(crate) fn lanes_to_retire(&self) -> MutexGuard<'_, BTreeSet<TaskId>> {
        self.lanes_to_retire.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
