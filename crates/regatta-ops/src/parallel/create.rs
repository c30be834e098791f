//! Makes a task in a registered repository, to be started later.

use regatta_core::id::TaskId;
use regatta_core::spec::TaskSpec;
use regatta_core::state::TaskState;
use regatta_engine::clock;
use regatta_store::{IfPresent, NewTask, Operation, RequestId, Store, StoreError};
use serde_json::json;

use super::registry::Registry;
use super::{FoundTask, ParallelOptions, Repositories, Repository};
use crate::documents::{ParallelCreated, ParallelKind, ParallelStatus, UNSTARTED_QUEUE};
use crate::refusal::{Refusal, RefusalKind};
use crate::tasks::{FOREVER, generic};

/// How many numbers to try while other processes take them.
const TRIES: u64 = 1000;

/// A request to make a task in a registered repository.
#[derive(Clone, Debug)]
pub struct CreateRequest {
    /// What it is for.
    pub kind: ParallelKind,
    /// The repository, by its registered name.
    pub repo: String,
    /// Its id: PRD-N, which a prd task needs, or GEN-N.
    pub task_id: Option<String>,
    /// One line that describes it.
    pub description: String,
    /// Tasks it waits for, as a note for people.
    pub blocked_by: Vec<String>,
}

impl ParallelOptions {
    /// Makes a task in a registered repository; [`ParallelOptions::start`] gives it its prompt.
    pub async fn create(&self, request: &CreateRequest) -> Result<ParallelCreated, Refusal> {
        let wanted = wanted(request)?;
        let description = request.description.trim();
        if description.is_empty() {
            return Err(Refusal::usage("the description is empty").hinted("describe the task in one line"));
        }
        let (mut registry, lock) = Registry::load_locked(self).await?;
        let repositories = Repositories::open(&registry, self).await?;
        let repository = repositories.named(&request.repo)?;
        let tasks = repositories.tasks().await?;
        below_cap(&registry, &tasks, &request.repo)?;
        repository.home().require_trust().await?;
        let store = repository.create_store().await?;
        let id = match wanted {
            Some(id) => {
                let known = repositories.look(&registry, &id).await?;
                if let Some(known) =
                    known.as_ref().filter(|known| known.status(&registry) != ParallelStatus::Destroyed)
                {
                    return Err(Refusal::refused(format!("Active task already exists: {id}")).hinted(
                        format!(
                            "it is {} in {}; `regatta task destroy --task-id {id}` removes it",
                            known.task.state.name(),
                            known.repository.name
                        ),
                    ));
                }
                let spec = repository.order(&id, description, description)?;
                put(store.as_ref(), &spec, IfPresent::Restart).await?;
                id
            }
            None => {
                let numbers = tasks.iter().filter_map(|found| number(&found.task.spec.id));
                let last = numbers.max().unwrap_or(0).max(registry.last_number());
                let (id, n) = put_numbered(repository, store.as_ref(), last, description).await?;
                registry.state.insert("gen_seq".to_owned(), json!(n));
                id
            }
        };
        park(store.as_ref(), &id).await?;
        let note = registry.note_mut(&id, &request.repo);
        note.blocked_by = request.blocked_by.iter().map(|id| id.trim().to_owned()).collect();
        note.blocked_by.retain(|id| !id.is_empty());
        (note.pr, note.destroyed_at) = (None, None);
        registry.save_state(&lock)?;
        let task = store.task(&id).await?;
        let found = FoundTask { repository, store, task };
        Ok(ParallelCreated { task: found.document(&registry).await? })
    }
}

/// The requested id, if any.
fn wanted(request: &CreateRequest) -> Result<Option<TaskId>, Refusal> {
    let (prefix, word) = match request.kind {
        ParallelKind::Prd => ("PRD-", "PRD"),
        ParallelKind::Generic => ("GEN-", "generic"),
    };
    let Some(text) = &request.task_id else {
        return match request.kind {
            ParallelKind::Prd => {
                Err(Refusal::usage("PRD task requires --task-id").hinted("for example: --task-id PRD-010"))
            }
            ParallelKind::Generic => Ok(None),
        };
    };
    let id = TaskId::parse(text).ok().filter(|id| ParallelKind::of(id) == Some(request.kind));
    id.map(Some).ok_or_else(|| {
        Refusal::usage(format!("Invalid {word} id: {text} (expected {prefix}<digits>)"))
            .hinted("omit --task-id for a generic task: it gets the next number")
    })
}

fn number(id: &TaskId) -> Option<u64> {
    id.as_str().strip_prefix("GEN-")?.parse().ok()
}

fn below_cap(registry: &Registry, tasks: &[FoundTask<'_>], repo: &str) -> Result<(), Refusal> {
    let counts = |found: &&FoundTask<'_>| {
        found.repository.name == repo
            && found.status(registry) != ParallelStatus::Destroyed
            && !matches!(found.task.state, TaskState::Landed { .. })
    };
    let (n, cap) = (tasks.iter().filter(counts).count(), registry.cap());
    if n as u64 >= cap && registry.exists {
        return Err(Refusal::refused(format!("Worktree cap reached for repo '{repo}' ({n}/{cap}).")).hinted(
            format!(
                "Destroy a task first (`regatta task destroy`), or raise max_worktrees_per_repo in {}",
                registry.dir.join("config.json").display()
            ),
        ));
    }
    Ok(())
}

/// Adds the task under the next free number. If another process takes that number first, the next one is tried.
async fn put_numbered(
    repository: &Repository,
    store: &dyn Store,
    last: u64,
    description: &str,
) -> Result<(TaskId, u64), Refusal> {
    for n in last + 1..=last.saturating_add(TRIES) {
        let id = generic(n);
        // A branch of that name holds a task's work, even if the store no longer knows the task.
        if repository.project.repo.branch_tip(&id.branch())?.is_some() {
            continue;
        }
        let spec = repository.order(&id, description, description)?;
        match put(store, &spec, IfPresent::Refuse).await {
            Ok(()) => return Ok((id, n)),
            Err(error) if error.kind == RefusalKind::Refused => {}
            Err(error) => return Err(error),
        }
    }
    Err(Refusal::refused("no free id was found").hinted("name it yourself: --task-id GEN-N"))
}

/// Adds the task to a queue that no engine takes from.
async fn put(store: &dyn Store, spec: &TaskSpec, if_present: IfPresent) -> Result<(), Refusal> {
    let new = [NewTask { spec: spec.clone(), queue: UNSTARTED_QUEUE.to_owned(), if_present }];
    Ok(store.enqueue(&new, &RequestId::fresh(), clock::now()).await?)
}

/// Parks the task, so that its status says what it waits for.
async fn park(store: &dyn Store, id: &TaskId) -> Result<(), Refusal> {
    let detail = format!("ready to start: regatta task start --task-id {id} --prompt \"…\"");
    let operation = Operation::Park { until: FOREVER, detail };
    match store.operate(id, &operation, &RequestId::fresh(), clock::now()).await {
        // No engine takes it from that queue anyway.
        Ok(()) | Err(StoreError::Refused(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
