//! The lane of a task that a member works on by hand.

use std::path::PathBuf;
use std::sync::Arc;

use regatta_core::attempt::Attempt;
use regatta_core::causes::with_causes;
use regatta_core::verdict::Statement;
use regatta_engine::context::Context;
use regatta_engine::notice::notices;
use regatta_engine::trust::Purpose;
use regatta_engine::worker::{WorkerError, by_hand};
use regatta_store::{Claim, Member, Outcome, Store};

use super::held::{record, settle};
use crate::assemble::assemble;
use crate::project::Project;
use crate::refusal::{Refusal, RefusalKind};

/// The engine's context, in the member's name.
async fn context(
    project: &Project,
    store: &Arc<dyn Store>,
    member: &Member,
) -> Result<Arc<Context>, Refusal> {
    let (notices, _watching) = notices();
    assemble(project, store.clone(), member.session.clone(), Purpose::Continue, notices).await
}

fn failed(error: &WorkerError) -> Refusal {
    Refusal::new(RefusalKind::Git, with_causes(error))
        .hinted("`regatta doctor` checks the repository and its lanes")
}

/// Makes the lane of a task that was just claimed; if that fails, the claim is given back.
pub(super) async fn make(
    project: &Project,
    store: &Arc<dyn Store>,
    member: &Member,
    claim: &Claim,
) -> Result<PathBuf, Refusal> {
    let made = async {
        let ctx = context(project, store, member).await?;
        let made = by_hand::lane(ctx, claim.clone(), member.name.as_str()).await;
        made.map_err(|error| failed(&error))
    };
    match made.await {
        Ok(lane) => Ok(lane),
        Err(error) => {
            let why = format!("no lane could be made: {}", error.message);
            let attempt = record(store.as_ref(), claim).await?;
            settle(store.as_ref(), member, claim, attempt, Outcome::Release { why }).await?;
            Err(error)
        }
    }
}

/// Hands in the work in the lane.
pub(super) async fn hand_in(
    project: &Project,
    store: &Arc<dyn Store>,
    member: &Member,
    claim: &Claim,
    attempt: Attempt,
    statement: Statement,
) -> Result<(), Refusal> {
    let ctx = context(project, store, member).await?;
    let task = &claim.task;
    match by_hand::hand_in(ctx, claim.clone(), attempt, statement).await {
        Ok(None) => Ok(()),
        Ok(Some(why)) => Err(Refusal::refused(format!("{task} did not pass: {why}")).hinted(format!(
            "you still hold it: fix that in its lane (`regatta lane path {task}`) and complete it again"
        ))),
        Err(WorkerError::Store(error)) => Err(error.into()),
        Err(error) => Err(failed(&error)),
    }
}
