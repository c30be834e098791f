//! `regatta task destroy` and `cleanup`: remove tasks' worktrees, never their work.

use regatta_core::event::EventBody;
use regatta_core::state::TaskState;
use regatta_engine::clock;
use regatta_engine::git::DeletedBranch;
use regatta_engine::lanes::{KeptBecause, RetireMode, Retired};
use regatta_store::RequestId;
use serde_json::{Value, json};

use super::pull_request::{Gh, check, remember};
use crate::cli::Global;
use regatta_ops::tasks::retire::{alone, in_the_way, mode, retire};

use crate::exit::Exit;
use crate::parallel::registry::Registry;
use crate::parallel::{Found, Repositories, kind};
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Stop a task's agent with everything it started, and remove its worktree. Prints JSON.
///
/// Commits that are on no branch are first saved under refs/regatta/salvage/ (`regatta salvage list`). A worktree with
/// uncommitted work stays, unless --force is given: then that work is saved there too.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task.
    #[arg(long, value_name = "ID")]
    task_id: String,
    /// Delete its branch. Commits that are on no other branch are saved first.
    #[arg(long)]
    delete_branch: bool,
    /// Remove a worktree with uncommitted changes too; they are saved first.
    #[arg(long)]
    force: bool,
}

/// Destroy all PRD tasks whose pull request is merged according to `gh`, with their branches. Prints JSON.
///
/// Generic tasks are never touched. A worktree with uncommitted changes stays.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CleanupArgs {
    /// Only show what would be destroyed.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    gh: Gh,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let registry = Registry::load(global)?;
    let repositories = Repositories::open(&registry, global).await?;
    let mut found = repositories.find(&registry, &args.task_id).await?;
    if found.status(&registry) == "destroyed" && !args.delete_branch {
        return Err(Refusal::not_found(format!("No active task: {}", found.task.spec.id))
            .hinted("it was already destroyed; `regatta task list --include-history` shows it"));
    }
    let done = destroy(&mut found, args.delete_branch, args.force, global).await?;
    ui.document(&done);
    Ok(Exit::Ok)
}

async fn destroy(
    found: &mut Found<'_>,
    delete_branch: bool,
    force: bool,
    global: &Global,
) -> Result<Value, Refusal> {
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
    let (mut registry, lock) = Registry::load_locked(global).await?;
    registry.note_mut(&id, &found.repository.name).destroyed_at = Some(clock::now());
    registry.save_state(&lock)?;
    Ok(json!({
        "destroyed": id,
        "worktree_removed": worktree_removed,
        "branch_deleted": branch_deleted,
        "branch_delete_error": branch_delete_error,
        "process_killed": process_killed,
        "salvaged": salvaged,
        "state": found.task.state.name(),
    }))
}

/// Removes the lane. Returns whether there was one, and where work that existed only there was saved.
async fn remove_lane(found: &Found<'_>, force: bool) -> Result<(bool, Vec<String>), Refusal> {
    let id = &found.task.spec.id;
    let Some(lanes) = found.repository.project.lanes()? else { return Ok((false, Vec::new())) };
    let alone = alone(&lanes, id).await?;
    let task = found.store.task(id).await?;
    if let Some(why) = in_the_way(&task) {
        return Err(
            Refusal::refused(format!("{id} is {why}")).hinted("another process started it; try again")
        );
    }
    let mut retired = retire(&lanes, id, mode(Some(&task)), &alone).await?;
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
            Err(Refusal::refused(format!("the worktree of {id} is kept: {why}")).hinted(match force {
                true => format!(
                    "Regatta cannot save this; handle it by hand (`regatta task status --task-id {id}`)"
                ),
                false => "--force saves it under refs/regatta/salvage/ and removes the worktree".to_owned(),
            }))
        }
    }
}

pub(crate) async fn cleanup(args: CleanupArgs, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let mut registry = Registry::load(global)?;
    let repositories = Repositories::open(&registry, global).await?;
    let mut results = Vec::new();
    for mut found in repositories.tasks().await? {
        let id = found.task.spec.id.clone();
        if kind(&id) != Some("prd") || found.status(&registry) == "destroyed" {
            continue;
        }
        let checked = check(&found, &args.gh).await?;
        remember(&mut registry, &found, &checked, global).await?;
        let pr = registry.note(&id, &found.repository.name).and_then(|note| note.pr.clone());
        let state = pr.as_ref().and_then(|pr| pr.state.clone()).unwrap_or_default().to_uppercase();
        results.push(if state != "MERGED" {
            let reason = format!("pr_state={}", if state.is_empty() { "none" } else { &state });
            json!({ "task_id": id, "action": "skipped", "reason": reason, "pr": pr, "error": checked.error })
        } else if args.dry_run {
            json!({ "task_id": id, "action": "would_destroy", "pr": pr })
        } else {
            match destroy(&mut found, true, false, global).await {
                Ok(detail) => json!({ "task_id": id, "action": "destroyed", "pr": pr, "detail": detail }),
                Err(error) => {
                    json!({ "task_id": id, "action": "error", "error": error.message, "hint": error.hint(), "pr": pr })
                }
            }
        });
    }
    let (scanned, destroyed) =
        (results.len(), results.iter().filter(|one| one["action"] == "destroyed").count());
    ui.document(&json!({ "results": results, "scanned": scanned, "destroyed": destroyed }));
    Ok(Exit::Ok)
}
