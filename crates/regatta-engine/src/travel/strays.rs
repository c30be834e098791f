//! Lanes of tasks that another clone has worked on since: this clone was cut off, and others continued.
//!
//! What is left in such a lane is saved and offered at the hub, and the lane is given up. Nothing of it lands.

use std::collections::BTreeSet;
use std::sync::Arc;

use regatta_core::causes::with_causes;
use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_store::{RequestId, SessionId, StoreError};

use super::{is_elsewhere, last_with_lane, salvage};
use crate::clock;
use crate::context::Context;
use crate::engine::EngineError;
use crate::lanes::{LanePurpose, RetireMode, Retired};
use crate::leftovers;
use crate::persist::until_answered;
use crate::process::hold::{self, Vacated};
use crate::session;

/// Why such a lane is given up.
const WHY: &str = "its task went on elsewhere";

/// Gives up the lanes of tasks that went on elsewhere. A lane that cannot be given up is reported, once, and stays.
pub(super) async fn give_up(ctx: &Arc<Context>, told: &mut BTreeSet<String>) -> Result<(), EngineError> {
    let lanes = ctx.blocking(|ctx| ctx.repository.lanes.list()).await?;
    let of_task = lanes.into_iter().filter(|info| info.purpose == LanePurpose::Task);
    let tasks: Vec<TaskId> = of_task.map(|info| info.task).collect();
    if tasks.is_empty() {
        return Ok(());
    }
    for (task, attempts) in until_answered(|| ctx.services.store.attempts_of(&tasks)).await? {
        if last_with_lane(&attempts).is_some_and(is_elsewhere) {
            let stays = match give_up_lane(ctx, &task).await {
                Ok(stays) => stays,
                Err(EngineError::Git(error)) => Some(format!("its lane is kept: {}", with_causes(&error))),
                Err(error) => return Err(error),
            };
            if let Some(why) = stays {
                let text = format!("{task}: {WHY}; {why}");
                if told.insert(text.clone()) {
                    ctx.say(text);
                }
            }
        }
    }
    Ok(())
}

/// Whether the last attempt that had a lane had it in another clone.
async fn went_on_elsewhere(ctx: &Context, task: &TaskId) -> Result<bool, EngineError> {
    match until_answered(|| ctx.services.store.attempts(task)).await {
        Ok(attempts) => Ok(last_with_lane(&attempts).is_some_and(is_elsewhere)),
        Err(StoreError::NotFound(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether a session is of an engine in this clone.
async fn is_of_this_clone(ctx: &Context, session: &SessionId) -> Result<bool, EngineError> {
    if *session == ctx.services.session {
        return Ok(true);
    }
    let own = session::place().map(|place| place.id);
    let sessions = until_answered(|| ctx.services.store.sessions()).await?;
    Ok(sessions.iter().any(|info| info.session == *session && own.is_some() && info.node.place == own))
}

/// Gives up one lane. Returns why it stays, if so.
async fn give_up_lane(ctx: &Arc<Context>, task: &TaskId) -> Result<Option<String>, EngineError> {
    let id = task.clone();
    let _alone = ctx.blocking(move |ctx| ctx.repository.lanes.alone(&id)).await?;
    let record = until_answered(|| ctx.services.store.task(task)).await?;
    // A worker of this clone that prepares the task handles its old lane itself.
    let is_ours = match &record.session {
        Some(session) => is_of_this_clone(ctx, session).await?,
        None => false,
    };
    if is_ours || !went_on_elsewhere(ctx, task).await? {
        return Ok(None);
    }
    let state_dir = &ctx.repository.state_dir;
    leftovers::end_in(&salvage::runs_of(state_dir, task)).await;
    let (path, lane) = (ctx.repository.hold_of(task), ctx.repository.lanes.root().join(task.as_str()));
    let id = task.clone();
    let vacated = tokio::task::spawn_blocking(move || hold::vacate(&path, id.as_str(), Some(&lane), true));
    if !matches!(vacated.await.expect("looking for processes does not panic"), Ok(Vacated::Free(_))) {
        return Ok(Some("processes that cannot be stopped are in its lane".to_owned()));
    }
    let id = task.clone();
    let retired = ctx
        .blocking(move |ctx| ctx.repository.lanes.retire(&id, RetireMode::SalvageFirst, clock::now()))
        .await?;
    match retired {
        Retired::Removed { salvaged: Some(kept) } => {
            let body = EventBody::Salvaged { reference: kept.name.clone(), why: WHY.to_owned() };
            let request = RequestId::fresh();
            let store = &ctx.services.store;
            until_answered(|| store.append(Some(task), None, &body, &request, clock::now())).await?;
            ctx.say(format!("{task}: {WHY}; what was left in its lane is kept as {}", kept.name));
        }
        Retired::Kept(why) => return Ok(Some(format!("its lane is kept: {why}"))),
        Retired::Removed { salvaged: None } | Retired::NoLane => {}
    }
    Ok(None)
}
