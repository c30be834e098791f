//! Follow-up prompts for tasks in registered repositories.

use regatta_core::prompt::PromptState;
use regatta_core::state::TaskState;
use regatta_store::MAIN_QUEUE;

use super::registry::Registry;
use super::start::{begin, destroyed, require_prompt, wait_for_process};
use super::{FoundTask, ParallelOptions, Repositories};
use crate::documents::{ParallelBroadcast, ParallelRefused, ParallelSent, ParallelStatus};
use crate::refusal::Refusal;
use crate::tasks::{SendRequest, When};

/// A request to send a task's agent a message, or every task's agent.
#[derive(Clone, Debug)]
pub struct ParallelSendRequest {
    /// The message.
    pub prompt: String,
    /// The program to start instead of claude.
    pub claude: Option<String>,
}

impl ParallelOptions {
    /// Sends a task's agent a message. A task that was never started is started with it.
    pub async fn send(&self, task: &str, request: &ParallelSendRequest) -> Result<ParallelSent, Refusal> {
        require_prompt(&request.prompt)?;
        let (registry, lock) = Registry::load_locked(self).await?;
        let repositories = Repositories::open(&registry, self).await?;
        let mut found = repositories.find(&registry, task).await?;
        if found.status(&registry) == ParallelStatus::Destroyed {
            return Err(destroyed(&found));
        }
        let mut sent = tell(&mut found, request).await?;
        drop(lock);
        if sent.dispatched {
            wait_for_process(&mut found).await?;
        }
        sent.task = Some(found.document(&registry).await?);
        Ok(sent)
    }

    /// Sends every task's agent a message. Tasks that landed, failed or were destroyed are left out.
    pub async fn broadcast(&self, request: &ParallelSendRequest) -> Result<ParallelBroadcast, Refusal> {
        require_prompt(&request.prompt)?;
        let (registry, _lock) = Registry::load_locked(self).await?;
        let repositories = Repositories::open(&registry, self).await?;
        let (mut results, mut refused) = (Vec::new(), Vec::new());
        for mut found in repositories.tasks().await? {
            let hears = match found.status(&registry) {
                ParallelStatus::Created | ParallelStatus::Running | ParallelStatus::Exited => true,
                ParallelStatus::AwaitingMerge | ParallelStatus::Failed | ParallelStatus::Destroyed => false,
            };
            if !hears || matches!(found.task.state, TaskState::Landed { .. }) {
                continue;
            }
            match add(&mut found, request).await {
                Ok(sent) => results.push(sent),
                Err(error) => refused.push(ParallelRefused {
                    hint: error.hint(),
                    error: error.message,
                    task_id: found.task.spec.id,
                }),
            }
        }
        Ok(ParallelBroadcast { refused, total: results.len(), results })
    }
}

/// Sends the prompt to one task; returns the result.
async fn tell(found: &mut FoundTask<'_>, request: &ParallelSendRequest) -> Result<ParallelSent, Refusal> {
    if !found.is_unstarted() {
        return add(found, request).await;
    }
    let task_id = found.task.spec.id.clone();
    let daemon = begin(found, &request.prompt, request.claude.as_deref()).await?;
    let (position, state, task) = (None, None, None);
    Ok(ParallelSent { daemon, dispatched: true, position, queued_count: 0, state, task, task_id })
}

/// Queues the prompt, and starts a daemon if none runs.
async fn add(found: &mut FoundTask<'_>, request: &ParallelSendRequest) -> Result<ParallelSent, Refusal> {
    let queue = found.repository.queue().await?;
    let (task, text) = (found.task.spec.id.to_string(), request.prompt.clone());
    let sent = queue.send(&SendRequest { task, text, when: When::Next }).await?;
    found.reload().await?;
    let served = found.task.queue == MAIN_QUEUE && !found.task.state.is_terminal();
    let daemon = if served { found.repository.serve(request.claude.as_deref()).await? } else { None };
    let dispatched =
        sent.dispatched || (daemon.is_some() && sent.position == 1 && !found.task.state.is_claimed());
    // The daemon may have delivered it already.
    let prompts = found.store.prompts(&sent.task_id).await?;
    let queued = prompts.iter().filter(|prompt| prompt.state == PromptState::Queued);
    Ok(ParallelSent {
        daemon,
        dispatched,
        position: Some(sent.position),
        queued_count: queued.filter(|prompt| !dispatched || prompt.n != sent.prompt).count(),
        state: Some(found.task.state.kind()),
        task: None,
        task_id: sent.task_id,
    })
}
