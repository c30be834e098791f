//! Kept lanes do not pile up: past a number, or when the disk runs low, the oldest lanes of settled tasks go.
//!
//! Invariant: only lanes of tasks that nobody works on, and never unsaved work: what is in them is salvaged first.

use std::sync::Arc;

use regatta_core::id::TaskId;
use regatta_core::state::TaskState;
use regatta_core::time::Timestamp;
use regatta_store::StoreError;

use crate::clock;
use crate::context::Context;
use crate::engine::EngineError;
use crate::lanes::{RetireMode, Retired};
use crate::machine::Reading;
use crate::persist::until_answered;

/// Takes away what is too much, oldest first.
pub(crate) async fn keep_house(ctx: &Arc<Context>) -> Result<(), EngineError> {
    if ctx.options.keep_lanes {
        return Ok(());
    }
    let lines = &ctx.config.limits;
    let disk_is_low = || Reading::take(lines, ctx.lanes.root()).disk_is_low(lines);
    let most =
        ctx.config.lane.max_kept.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
    if most == usize::MAX && !disk_is_low() {
        return Ok(());
    }
    let settled = settled_lanes(ctx).await?;
    let mut left = settled.len();
    for (_, task) in settled {
        if left <= most && !disk_is_low() {
            break;
        }
        let id = task.clone();
        match ctx.blocking(move |ctx| ctx.lanes.retire(&id, RetireMode::SalvageFirst, clock::now())).await {
            Ok(Retired::Removed { salvaged }) => {
                let kept =
                    salvaged.map_or_else(String::new, |salvaged| format!("; its work is {}", salvaged.name));
                ctx.say(format!("{task}: its lane was taken away to make room{kept}"));
                left -= 1;
            }
            Ok(Retired::Kept(why)) => ctx.say(format!("{task}: its lane stays: {why}")),
            Ok(Retired::NoLane) => left -= 1,
            Err(error) => ctx.say(format!("{task}: its lane stays: could not {error}")),
        }
    }
    Ok(())
}

/// Lanes of tasks that are settled or wait for a person, the one that was left alone longest first.
async fn settled_lanes(ctx: &Arc<Context>) -> Result<Vec<(Timestamp, TaskId)>, EngineError> {
    let mut found = Vec::new();
    for info in ctx.blocking(|ctx| ctx.lanes.list()).await? {
        match until_answered(|| ctx.store.task(&info.task)).await {
            Ok(record) if record.state.is_terminal() || matches!(record.state, TaskState::Blocked { .. }) => {
                found.push((record.updated_at, info.task));
            }
            Ok(_) | Err(StoreError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    found.sort();
    Ok(found)
}
