//! Keeps lanes from piling up: beyond a number, or when the disk runs low, the oldest lanes of settled tasks are
//! removed. Pooled trees, which contain no work, are removed before them.
//!
//! Invariant: only lanes of tasks that no engine works on are removed, and never unsaved work: their content is
//! salvaged first.

use std::sync::Arc;

use regatta_core::id::TaskId;
use regatta_core::state::TaskState;
use regatta_core::time::{Timestamp, counted};
use regatta_store::StoreError;

use crate::context::Context;
use crate::engine::EngineError;
use crate::lanes::{RetireMode, Retired};
use crate::machine::Reading;
use crate::persist::until_answered;

/// Removes excess lanes, oldest first, and those that could not be removed earlier.
pub(crate) async fn keep_house(ctx: &Arc<Context>) -> Result<(), EngineError> {
    if ctx.settings.options.keep_lanes {
        return Ok(());
    }
    retire_again(ctx).await?;
    let lines = &ctx.settings.config.limits;
    let disk_is_low = || Reading::take(lines, ctx.repository.lanes.root()).disk_is_low(lines);
    let most = ctx
        .settings
        .config
        .lane
        .max_kept
        .map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
    if disk_is_low() {
        // Trees without work are removed first.
        let trimmed = ctx.blocking(|ctx| ctx.repository.lanes.trim_pool(0)).await?;
        if trimmed > 0 {
            ctx.say(format!("{} removed to free disk space", counted(trimmed, "pooled lane")));
        }
    }
    if most == usize::MAX && !disk_is_low() {
        return Ok(());
    }
    let settled = settled_lanes(ctx).await?;
    let mut left = settled.len();
    for (_, task) in settled {
        if left <= most && !disk_is_low() {
            break;
        }
        match ctx.retire_idle(&task, RetireMode::SalvageFirst).await {
            Ok(Retired::Removed { salvaged }) => {
                let kept = salvaged
                    .map_or_else(String::new, |salvaged| format!("; its work is kept as {}", salvaged.name));
                ctx.say(format!("{task}: its lane was removed to free disk space{kept}"));
                left -= 1;
            }
            Ok(Retired::Kept(why)) => ctx.say(format!("{task}: its lane is kept: {why}")),
            Ok(Retired::NoLane) => left -= 1,
            Err(error) => ctx.say(format!("{task}: its lane is kept: could not {error}")),
        }
    }
    Ok(())
}

/// Retries the removal of lanes, for example after a full disk. A task that was started again meanwhile keeps its lane.
pub(crate) async fn retire_again(ctx: &Arc<Context>) -> Result<(), EngineError> {
    let left = ctx.memory.lanes_to_retire().clone();
    if left.is_empty() {
        return Ok(());
    }
    for task in left {
        match how_to_retire(ctx, &task).await? {
            Some(mode) => ctx.clone().retire(&task, mode).await,
            None => drop(ctx.memory.lanes_to_retire().remove(&task)),
        }
    }
    Ok(())
}

/// How to remove the lane of a finally settled task; `None` if it stays.
pub(crate) async fn how_to_retire(
    ctx: &Arc<Context>,
    task: &TaskId,
) -> Result<Option<RetireMode>, EngineError> {
    let record = until_answered(|| ctx.services.store.task(task)).await;
    // A repository may have lanes of its own projects, too.
    let record = record.map(|record| (record.spec.repo == ctx.repository.name, record.state));
    match record {
        Ok((true, TaskState::Landed { .. })) => landed_mode(ctx, task).await.map(Some),
        Ok((true, TaskState::Done { .. })) => Ok(Some(RetireMode::IfClean)),
        Ok(_) | Err(StoreError::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// See [`Lanes::landed_mode`](crate::lanes::Lanes::landed_mode).
pub(crate) async fn landed_mode(ctx: &Arc<Context>, task: &TaskId) -> Result<RetireMode, EngineError> {
    let attempts = until_answered(|| ctx.services.store.attempts(task)).await?;
    let task = task.clone();
    Ok(ctx.blocking(move |ctx| ctx.repository.lanes.landed_mode(&task, &attempts)).await?)
}

/// Lanes of tasks that are settled or wait for a user, the least recently used first.
async fn settled_lanes(ctx: &Arc<Context>) -> Result<Vec<(Timestamp, TaskId)>, EngineError> {
    let mut found = Vec::new();
    for info in ctx.blocking(|ctx| ctx.repository.lanes.list()).await? {
        match until_answered(|| ctx.services.store.task(&info.task)).await {
            Ok(record) if record.state.is_settled() && record.spec.repo == ctx.repository.name => {
                found.push((record.updated_at, info.task));
            }
            Ok(_) | Err(StoreError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    found.sort();
    Ok(found)
}
