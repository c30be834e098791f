//! Removes tasks' worktrees, never their work.

use regatta_core::event::EventBody;
use regatta_core::state::TaskState;
use regatta_engine::clock;
use regatta_engine::git::DeletedBranch;
use regatta_engine::lanes::{KeptBecause, RetireMode, Retired};
use regatta_store::RequestId;

use super::pull_request::{Forges, check, remember};
use super::registry::Registry;
use super::{FoundTask, ParallelOptions, Repositories};
use crate::documents::{CleanupResult, ParallelCleanup, ParallelDestroyed, ParallelKind, ParallelStatus};
use crate::refusal::Refusal;
use crate::tasks::retire::{alone, in_the_way, mode, retire};

/// A request to stop a task's agent and remove its worktree.
#[derive(Clone, Debug)]
pub struct DestroyRequest {
    pub task_id: String,
    /// Delete its branch.
    pub delete_branch: bool,
    /// Remove a worktree with uncommitted changes too; they are saved first.
    pub force: bool,
}

/// A request to destroy all prd tasks whose pull request is merged.
#[derive(Clone, Debug)]
pub struct CleanupRequest {
    /// Only report what would be destroyed.
    pub dry_run: bool,
    /// The program to ask for pull requests.
    pub gh: String,
}

impl ParallelOptions {
    /// Stops a task's agent with everything it started, and removes its worktree. Commits that are on no branch are
    /// saved first.
    pub async fn destroy(&self, request: &DestroyRequest) -> Result<ParallelDestroyed, Refusal> {
        let registry = Registry::load(self)?;
        let repositories = Repositories::open(&registry, self).await?;
        let mut found = repositories.find(&registry, &request.task_id).await?;
        if found.status(&registry) == ParallelStatus::Destroyed && !request.delete_branch {
            return Err(Refusal::not_found(format!("No active task: {}", found.task.spec.id))
                .hinted("it was already destroyed; `regatta task list --include-history` shows it"));
        }
        destroy(&mut found, request.delete_branch, request.force, self).await
    }

    /// Destroys all prd tasks whose pull request is merged, with their branches. A worktree with uncommitted changes
    /// stays.
    pub async fn cleanup(&self, request: &CleanupRequest) -> Result<ParallelCleanup, Refusal> {
        let mut registry = Registry::load(self)?;
        let repositories = Repositories::open(&registry, self).await?;
        let (mut results, mut forges) = (Vec::new(), Forges::new(&request.gh));
        for mut found in repositories.tasks().await? {
            let id = found.task.spec.id.clone();
            if ParallelKind::of(&id) != Some(ParallelKind::Prd)
                || found.status(&registry) == ParallelStatus::Destroyed
            {
                continue;
            }
            let checked = check(&found, &mut forges).await?;
            remember(&mut registry, &found, &checked, self).await?;
            let pr = registry.note(&id, &found.repository.name).and_then(|note| note.pr.clone());
            let task_id = id;
            results.push(if !pr.as_ref().is_some_and(|pr| pr.is_merged()) {
                let state = pr.as_ref().and_then(|pr| pr.state.clone()).unwrap_or_default().to_uppercase();
                let reason = format!("pr_state={}", if state.is_empty() { "none" } else { &state });
                CleanupResult::Skipped { error: checked.error, pr, reason, task_id }
            } else if request.dry_run {
                CleanupResult::WouldDestroy { pr, task_id }
            } else {
                match destroy(&mut found, true, false, self).await {
                    Ok(detail) => CleanupResult::Destroyed { detail, pr, task_id },
                    Err(error) => {
                        CleanupResult::Error { hint: error.hint(), error: error.message, pr, task_id }
                    }
                }
            });
        }
        let destroyed = |result: &&CleanupResult| matches!(result, CleanupResult::Destroyed { .. });
        let (scanned, destroyed) = (results.len(), results.iter().filter(destroyed).count());
        Ok(ParallelCleanup { destroyed, results, scanned })
    }
}

async fn destroy(
    found: &mut FoundTask<'_>,
    delete_branch: bool,
    force: bool,
    options: &ParallelOptions,
) -> Result<ParallelDestroyed, Refusal> {
    let id = found.task.spec.id.clone();
    let ran = found.task.state.is_claimed();
    if !found.task.state.is_terminal() {
        found.repository.queue().await?.call_off(&found.task).await?;
        found.reload().await?;
    }
    let process_killed = ran && matches!(found.task.state, TaskState::Cancelled { .. });
    let (worktree_removed, mut salvaged) = remove_lane(found, force).await?;
    let (mut branch_deleted, mut branch_delete_error) = (false, None);
    if delete_branch {
        match found.repository.project.repo.delete_branch(&id) {
            Ok(DeletedBranch::Gone { salvaged: saved }) => {
                branch_deleted = true;
                salvaged.extend(saved);
            }
            Ok(DeletedBranch::Absent) => {}
            Ok(DeletedBranch::Kept(why)) => branch_delete_error = Some(why),
            Err(error) => branch_delete_error = Some(Refusal::from(error).message),
        }
    }
    for reference in &salvaged {
        let event = EventBody::Salvaged { reference: reference.clone(), why: "it was destroyed".to_owned() };
        found.store.append(Some(&id), None, &event, &RequestId::fresh(), clock::now()).await?;
    }
    let (mut registry, lock) = Registry::load_locked(options).await?;
    registry.note_mut(&id, &found.repository.name).destroyed_at = Some(clock::now());
    registry.save_state(&lock)?;
    Ok(ParallelDestroyed {
        branch_delete_error,
        branch_deleted,
        destroyed: id,
        process_killed,
        salvaged,
        state: found.task.state.kind(),
        worktree_removed,
    })
}

/// Removes the lane. Returns whether there was one, and where work that existed only there was saved.
async fn remove_lane(found: &FoundTask<'_>, force: bool) -> Result<(bool, Vec<String>), Refusal> {
    let id = &found.task.spec.id;
    let Some(lanes) = found.repository.project.lanes()? else { return Ok((false, Vec::new())) };
    let alone = alone(&lanes, id).await?;
    let task = found.store.task(id).await?;
    if let Some(why) = in_the_way(&task) {
        return Err(
            Refusal::refused(format!("{id} is {why}")).hinted("another process started it; try again")
        );
    }
    let mode = mode(found.store.as_ref(), &lanes, &task).await?;
    let mut retired = retire(&lanes, id, mode, &alone).await?;
    // Commits are always saved; uncommitted files only with --force.
    if let Retired::Kept(why) = &retired
        && (force || *why == KeptBecause::Unreferenced)
    {
        retired = retire(&lanes, id, RetireMode::SalvageFirst, &alone).await?;
    }
    match retired {
        Retired::NoLane => Ok((false, Vec::new())),
        Retired::Removed { salvaged } => Ok((true, salvaged.into_iter().map(|saved| saved.name).collect())),
        Retired::Kept(why) => {
            Err(Refusal::refused(format!("the worktree of {id} is kept: {why}")).hinted(if force {
                format!("Regatta cannot save this; handle it by hand (`regatta task status --task-id {id}`)")
            } else {
                "--force saves it under refs/regatta/salvage/ and removes the worktree".to_owned()
            }))
        }
    }
}
