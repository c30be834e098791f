//! Landing by hand: `regatta land ID`, with or without a daemon.

use std::collections::BTreeSet;
use std::sync::Arc;

use regatta_core::id::TaskId;
use regatta_core::session::SessionKind;
use regatta_core::state::TaskState;
use tokio::sync::watch;

use super::train::{CarNews, LOOK_AGAIN, round};
use crate::context::Context;
use crate::engine::{Ended, EngineError};
use crate::persist::until_answered;
use crate::run::{end_idle_dead, in_session, tidy_up};
use crate::worker::Stop;

/// Lands until none of `tasks` is in the train any more, or all that are left wait for something.
pub async fn land_now(
    ctx: Arc<Context>,
    tasks: &[TaskId],
    stop: watch::Receiver<bool>,
) -> Result<Ended, EngineError> {
    let (order, ordered) = watch::channel(None);
    let mut asked = stop.clone();
    tokio::spawn(async move {
        while asked.changed().await.is_ok() {
            let why = "Regatta was stopped".to_owned();
            let _ = order.send(Some(Stop::Interrupt { why, now: true }));
        }
        // The stop order must outlive its sender: a train without a sender would never receive it.
        order.closed().await;
    });
    let what = format!("land {}", tasks.iter().map(TaskId::as_str).collect::<Vec<_>>().join(" "));
    in_session(&ctx, SessionKind::Land, &what, |cut_off| until_settled(&ctx, tasks, ordered, stop, cut_off))
        .await
}

async fn until_settled(
    ctx: &Arc<Context>,
    tasks: &[TaskId],
    ordered: watch::Receiver<Option<Stop>>,
    mut stop: watch::Receiver<bool>,
    cut_off: watch::Receiver<Option<String>>,
) -> Result<Ended, EngineError> {
    let mut changed = until_answered(|| ctx.services.store.subscribe()).await?;
    loop {
        changed.mark_unchanged();
        let (mut waiting, mut held_elsewhere) = (Vec::new(), false);
        for yard in yards_of(ctx, tasks).await? {
            let result = round(yard, ordered.clone(), CarNews::of_store(ctx).await?).await?;
            waiting.extend(result.waiting);
            held_elsewhere |= result.held_elsewhere;
        }
        if *stop.borrow() {
            return Ok(Ended::Interrupted);
        }
        if let Some(why) = cut_off.borrow().clone() {
            return Err(EngineError::CutOff(why));
        }
        let mut moving = false;
        for task in tasks {
            let record = until_answered(|| ctx.services.store.task(task)).await?;
            let waits = waiting.iter().any(|(other, _)| other == task);
            moving |= matches!(record.state, TaskState::Landing { .. }) && !waits;
        }
        if !moving {
            tidy_up(ctx).await;
            return Ok(Ended::Settled);
        }
        if held_elsewhere {
            end_idle_dead(ctx).await?;
            tokio::select! {
                Ok(()) = changed.changed() => {}
                Ok(()) = stop.changed() => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }
}

/// The repositories of these tasks.
async fn yards_of(ctx: &Arc<Context>, tasks: &[TaskId]) -> Result<Vec<Arc<Context>>, EngineError> {
    let mut names = BTreeSet::new();
    for task in tasks {
        names.insert(until_answered(|| ctx.services.store.task(task)).await?.spec.repo);
    }
    names.iter().map(|name| ctx.of(name.as_ref()).map_err(EngineError::Refused)).collect()
}
