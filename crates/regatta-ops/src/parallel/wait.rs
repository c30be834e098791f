//! Waits for a task of a registered repository, as the live watcher of parallel-agents does.

use std::sync::Arc;
use std::time::Duration;

use regatta_core::id::TaskId;

use super::registry::Registry;
use super::start::wait_for_process;
use super::{FoundTask, ParallelOptions, Repositories};
use crate::changes::StoreChanges;
use crate::documents::{ParallelStatus, WatchDocument};
use crate::look::events::started_pid;
use crate::refusal::{Refusal, RefusalKind};
use crate::wait::{Granularity, Lines, Listener, TaskWatch};

/// A request to wait for a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParallelWaitRequest {
    pub task: String,
    /// How much to report, by name; by default what the registry says.
    pub granularity: Option<String>,
    /// Give up after this long.
    pub timeout: Option<Duration>,
}

/// How the wait ended. Each has its own exit code in parallel-agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParallelWaited {
    /// The task is settled.
    Ended,
    /// There is no granularity with this name.
    UnknownGranularity(String),
    /// There is no such task, or it was destroyed.
    NotFound,
    /// The task was never started.
    NoProcess(TaskId),
    /// The time ran out.
    TimedOut,
}

impl ParallelOptions {
    /// Resolves when nothing more of the task starts by itself, or the time ran out. If its daemon is gone while there
    /// is work for it, it is started again.
    pub async fn wait(
        &self,
        request: &ParallelWaitRequest,
        listener: Listener,
    ) -> Result<ParallelWaited, Refusal> {
        let registry = Registry::load(self)?;
        let wanted = request.granularity.clone().unwrap_or_else(|| registry.granularity());
        let Some(granularity) = Granularity::ALL.into_iter().find(|one| one.as_str() == wanted) else {
            return Ok(ParallelWaited::UnknownGranularity(wanted));
        };
        let repositories = Repositories::open(&registry, self).await?;
        let found = match repositories.find(&registry, &request.task).await {
            Ok(found) if found.status(&registry) != ParallelStatus::Destroyed => found,
            Ok(_) => return Ok(ParallelWaited::NotFound),
            Err(why) if [RefusalKind::NotFound, RefusalKind::Usage].contains(&why.kind) => {
                return Ok(ParallelWaited::NotFound);
            }
            Err(why) => return Err(why),
        };
        found.serve_if_moving(&registry).await?;
        let watched = watch(found, granularity, listener);
        match request.timeout {
            None => watched.await,
            Some(patience) => {
                tokio::time::timeout(patience, watched).await.unwrap_or(Ok(ParallelWaited::TimedOut))
            }
        }
    }
}

async fn watch(
    mut found: FoundTask<'_>,
    granularity: Granularity,
    listener: Listener,
) -> Result<ParallelWaited, Refusal> {
    let id = found.task.spec.id.clone();
    if found.is_unstarted() {
        return Ok(ParallelWaited::NoProcess(id));
    }
    // It was started a moment ago, and its process is about to appear.
    let seen = found.task.clone();
    wait_for_process(&mut found).await?;
    let pid = started_pid(found.store.as_ref(), &id, found.task.attempts).await?;
    let state = found.task.state.kind();
    listener(WatchDocument::Watching { task: id, state, pid, granularity, note: None });
    let changes = StoreChanges::of(found.store.as_ref()).await?;
    let project = &found.repository.project;
    let watch = Arc::new(TaskWatch::new(project, found.store.clone(), granularity, Lines::Raw, listener));
    watch.follow(seen, changes).await?;
    Ok(ParallelWaited::Ended)
}
