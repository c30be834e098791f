//! What an engine does at the hub beside its tasks, in the background: saved work is pushed, lanes of tasks that went on
//! elsewhere are given up, and one engine of all, the clerk, deletes refs that nobody needs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use regatta_core::causes::with_causes;
use regatta_core::id::TaskId;
use regatta_core::node::NodeDuty;
use regatta_core::state::TaskState;
use tokio::time::Instant;

use super::{salvage, strays};
use crate::context::Context;
use crate::engine::EngineError;
use crate::git::Oid;
use crate::hub::{Answer, Hub, Move, names};
use crate::persist::until_answered;
use crate::records::Records;
use crate::session;

/// The role of the engine that tidies the hub.
pub const CLERK: &str = "clerk";
/// Longest interval between two looks.
const INTERVAL: Duration = Duration::from_secs(60);

/// How often the hub is looked at although nothing happens here.
pub(crate) fn interval() -> Duration {
    INTERVAL.min(session::lease())
}

/// How long a run that ends waits for its saved work to be pushed.
const LAST_PUSH: Duration = Duration::from_secs(30);
/// Maximum number of refs that one push deletes.
const MOST_DELETED: usize = 500;

/// Does the chores until it is dropped.
pub(crate) async fn serve(ctx: Arc<Context>, hub: Hub) {
    super::checkpoint::sweep(&ctx.repository.state_dir);
    let mut told = BTreeSet::new();
    let mut failure = String::new();
    let mut pruned_at: Option<Instant> = None;
    loop {
        let failed = match once(&ctx, &hub, &mut told, &mut pruned_at).await {
            Ok(()) => String::new(),
            Err(error) => with_causes(&error),
        };
        if !failed.is_empty() && failed != failure {
            ctx.say(format!("what is saved here is not all at the hub yet: {failed}"));
        }
        failure = failed;
        tokio::select! {
            () = tokio::time::sleep(interval()) => {}
            () = ctx.memory.saved.notified() => {}
        }
    }
}

async fn once(
    ctx: &Arc<Context>,
    hub: &Hub,
    told: &mut BTreeSet<String>,
    pruned_at: &mut Option<Instant>,
) -> Result<(), EngineError> {
    // One that fails does not keep the others from being done.
    let given_up = strays::give_up(ctx, told).await;
    let sent = send_saved(ctx, hub, told).await;
    let tidied = if pruned_at.is_none_or(|at| at.elapsed() >= interval()) {
        *pruned_at = Some(Instant::now());
        tidy(ctx, hub).await
    } else {
        Ok(())
    };
    given_up.and(sent).and(tidied)
}

async fn tidy(ctx: &Arc<Context>, hub: &Hub) -> Result<(), EngineError> {
    let store = &ctx.services.store;
    let is_leaving = matches!(ctx.memory.fleet.order.borrow().duty, NodeDuty::Drain | NodeDuty::Kill);
    if !is_leaving && until_answered(|| store.elect(CLERK, &ctx.services.session)).await?.is_some() {
        prune(ctx, hub).await?;
    }
    forget(ctx, hub).await
}

async fn send_saved(ctx: &Arc<Context>, hub: &Hub, told: &mut BTreeSet<String>) -> Result<(), EngineError> {
    let hub = hub.clone();
    for stays in ctx.blocking(move |ctx| salvage::send(ctx, &hub)).await? {
        let text = format!("{} is not sent to the hub: {}", stays.name, stays.why);
        if told.insert(text.clone()) {
            ctx.say(text);
        }
    }
    Ok(())
}

/// Pushes what was saved before a run ends.
pub(crate) async fn finish(ctx: &Arc<Context>, hub: &Hub) {
    let mut told = BTreeSet::new();
    let failed = match tokio::time::timeout(LAST_PUSH, send_saved(ctx, hub, &mut told)).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => with_causes(&error),
        Err(_) => "no answer".to_owned(),
    };
    ctx.say(format!("saved work is not all at the hub; the next engine here pushes it: {failed}"));
}

/// Deletes the refs of work and checkpoints of tasks that have landed, in one push.
pub(crate) async fn prune(ctx: &Arc<Context>, hub: &Hub) -> Result<(), EngineError> {
    let at_hub = hub.clone();
    let refs = ctx
        .blocking(move |_| {
            let mut refs = at_hub.read_below(names::WORK)?;
            refs.extend(at_hub.read_below(names::WIP)?);
            Ok(refs)
        })
        .await?;
    let mut moves: Vec<Move> = over(ctx, refs)
        .await?
        .into_iter()
        .map(|(name, oid)| Move { name, from: Some(oid), to: None })
        .collect();
    moves.truncate(MOST_DELETED);
    if moves.is_empty() {
        return Ok(());
    }
    let hub = hub.clone();
    ctx.blocking(move |_| {
        match hub.push(&moves, false)? {
            // What is left is deleted the next time.
            Answer::Done | Answer::Stale(_) | Answer::Refused(_) | Answer::Unknown(_) => Ok(()),
        }
    })
    .await?;
    Ok(())
}

/// Releases what this clone has fetched of tasks that have landed.
async fn forget(ctx: &Arc<Context>, hub: &Hub) -> Result<(), EngineError> {
    let held = ctx
        .blocking(|ctx| {
            let mut held = BTreeMap::new();
            for prefix in [names::WORK, names::WIP] {
                for (name, oid) in ctx.repository.repo.refs_below(&names::here(prefix))? {
                    if let Some(rest) = name.strip_prefix(names::HERE) {
                        held.insert(format!("refs/{rest}"), oid);
                    }
                }
            }
            Ok(held)
        })
        .await?;
    let names: Vec<String> = over(ctx, held).await?.into_iter().map(|(name, _)| name).collect();
    let hub = hub.clone();
    ctx.blocking(move |_| hub.forget(&names)).await?;
    Ok(())
}

/// Those of these refs whose task needs them no more.
async fn over(ctx: &Arc<Context>, refs: BTreeMap<String, Oid>) -> Result<Vec<(String, Oid)>, EngineError> {
    let mut of_task: BTreeMap<TaskId, Vec<(String, Oid)>> = BTreeMap::new();
    for (name, oid) in refs {
        if let Some(task) = names::task_of(&name) {
            of_task.entry(task).or_default().push((name, oid));
        }
    }
    let records = Records::load(ctx.services.store.as_ref(), of_task.keys()).await?;
    let mut found = Vec::new();
    for (task, refs) in of_task {
        // Another store may use the hub, too: what this one does not know stays.
        let Some(record) = records.get(&task) else { continue };
        let until = match &record.state {
            TaskState::Landed { attempt, .. } => *attempt,
            // A cancelled task may be retried, and others may be built on what it has done.
            _ => continue,
        };
        let is_over = |name: &str| attempt_in(name).is_some_and(|n| n <= until);
        found.extend(refs.into_iter().filter(|(name, _)| is_over(name)));
    }
    Ok(found)
}

/// The number of the attempt that a ref is of.
fn attempt_in(name: &str) -> Option<u32> {
    name.rsplit('/').next()?.split('.').next()?.parse().ok()
}
