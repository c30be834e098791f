//! Looks at tasks in registered repositories.

use regatta_core::prompt::PromptState;

use super::registry::Registry;
use super::{ParallelOptions, Repositories, session_name};
use crate::attach::attach;
use crate::documents::crew::board;
use crate::documents::{
    ParallelAttach, ParallelList, ParallelStatus, ParallelStatusDocument, UnreadableRepository,
};
use crate::project::Project;
use crate::refusal::Refusal;
use crate::secrets::redactor;

/// The most bytes of a log to read for its last lines.
const MOST_LOG_BYTES: u64 = 1 << 20;

impl ParallelOptions {
    /// One task, and the last `tail` lines of its log. If its daemon is gone while there is work for it, it is started
    /// again.
    pub async fn status(&self, task: &str, tail: usize) -> Result<ParallelStatusDocument, Refusal> {
        let registry = Registry::load(self)?;
        let repositories = Repositories::open(&registry, self).await?;
        let mut found = repositories.find(&registry, task).await?;
        let daemon = found.serve_if_moving(&registry).await?;
        let held = found.task.state.is_claimed();
        let prompts = found.store.prompts(&found.task.spec.id).await?;
        let queued = prompts.iter().any(|prompt| prompt.state == PromptState::Queued);
        found.reload().await?;
        let task = found.document(&registry).await?;
        let redactor = redactor(&found.repository.project.config);
        let lines = match &task.log_path {
            Some(path) => last_lines(path, tail).map_err(|error| Refusal::io("reading", path, &error))?,
            None => Vec::new(),
        };
        Ok(ParallelStatusDocument {
            drained: daemon.is_some() && queued && !held,
            reaped: daemon.is_some() && held,
            daemon,
            log_tail: lines.iter().map(|line| redactor.redact(line).into()).collect(),
            task,
        })
    }

    /// The registry, if one exists or is named, or if tasks were made for the repositories of the project.
    pub fn registered(&self) -> Result<Option<Registry>, Refusal> {
        let registry = Registry::load(self)?;
        let is_used = registry.exists || self.root.is_some() || registry.has_state && registry.home.is_some();
        Ok(is_used.then_some(registry))
    }

    /// The tasks of all registered repositories, and the board of the current one.
    pub async fn list(&self, include_history: bool) -> Result<ParallelList, Refusal> {
        let registry = Registry::load(self)?;
        let (mut tasks, mut errors) = (Vec::new(), Vec::new());
        if !(registry.exists && registry.entries.is_empty()) || registry.home.is_some() {
            let repositories = Repositories::open(&registry, self).await?;
            for found in repositories.tasks().await? {
                if include_history || found.status(&registry) != ParallelStatus::Destroyed {
                    tasks.push(found.document(&registry).await?);
                }
            }
            let unreadable = repositories.unreadable.into_iter();
            errors = unreadable
                .map(|(repo, error)| UnreadableRepository { hint: error.hint(), error: error.message, repo })
                .collect();
        }
        let board = match Project::open(&self.project) {
            Ok(project) if project.has_store() => board(project.store().await?.as_ref(), Vec::new()).await?,
            _ => Vec::new(),
        };
        let board = board.into_iter().map(|(_, task)| task).collect();
        Ok(ParallelList { board, errors, tasks })
    }

    /// How to continue a task's conversation by hand. A worktree that is gone is made again.
    pub async fn attach(&self, task: &str) -> Result<ParallelAttach, Refusal> {
        let registry = Registry::load(self)?;
        let repositories = Repositories::open(&registry, self).await?;
        let found = repositories.find(&registry, task).await?;
        if found.status(&registry) == ParallelStatus::Destroyed {
            return Err(Refusal::not_found(format!("No active task: {}", found.task.spec.id))
                .hinted("it was destroyed; `regatta salvage list` shows its saved work"));
        }
        let attach = attach(&found.repository.project, found.store.clone(), &found.task, true).await?;
        Ok(ParallelAttach { attach, session_name: session_name(&found.task) })
    }
}

/// The last lines of a file that may be long; none if the file is gone.
fn last_lines(path: &std::path::Path, n: usize) -> std::io::Result<Vec<String>> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MOST_LOG_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(MOST_LOG_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(n)..].iter().map(|line| (*line).to_owned()).collect())
}
