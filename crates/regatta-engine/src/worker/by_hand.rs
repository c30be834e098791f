//! A task that a member of the crew works on by hand, in a lane of its own.
//!
//! What it hands in is proven as an agent's work is: committed, checked, and put into the train. Where that fails the
//! member keeps the task, mends it and hands it in again.

use std::path::PathBuf;
use std::sync::Arc;

use regatta_core::attempt::{Attempt, Evidence};
use regatta_core::exit::Exit;
use regatta_core::verdict::Statement;
use regatta_store::Claim;
use tokio::sync::{Notify, watch};

use super::settle::Proven;
use super::{Worker, WorkerError};
use crate::context::Context;
use crate::meter::Meter;

/// Makes the lane of a task that `member` holds, or takes up the one that was left, and says where it is.
pub async fn lane(ctx: Arc<Context>, claim: Claim, member: &str) -> Result<PathBuf, WorkerError> {
    let (_never, stop) = watch::channel(None);
    let record = Attempt::new(claim.attempt, member);
    let mut worker = Worker::new(ctx, claim, record, stop, unmetered());
    Ok(worker.prepare().await?.lane.path)
}

/// Hands in what is in the lane of an attempt. `Some` says why it is not good enough; then nothing has changed.
pub async fn hand_in(
    ctx: Arc<Context>,
    claim: Claim,
    record: Attempt,
    statement: Statement,
) -> Result<Option<String>, WorkerError> {
    let (_never, stop) = watch::channel(None);
    let run_dir = ctx.run_dir(&claim.task, claim.attempt);
    std::fs::create_dir_all(&run_dir).map_err(|source| WorkerError::Io {
        doing: "making",
        path: run_dir.clone(),
        source,
    })?;
    let mut worker = Worker::new(ctx, claim, record, stop, unmetered());
    worker.record.exit = Some(Exit::Exited { code: 0 });
    let Some(site) = worker.site_of_record(run_dir).await? else {
        return Ok(Some("its lane is gone".to_owned()));
    };
    if let Some(harm) = worker.mend(&site).await? {
        return Ok(Some(harm.to_owned()));
    }
    if worker.took_the_target(&site).await? {
        return Ok(Some(format!("{} was checked out in its lane", worker.ctx.target)));
    }
    let said = Evidence::Said { by: "by-hand".to_owned(), statement: statement.clone() };
    worker.record.evidence.push(said);
    match worker.prove(&site, &statement).await? {
        Proven::Bad { why } | Proven::Unfit { why } => Ok(Some(worker.redact(&why))),
        Proven::Good { verdict, head } => {
            worker.good(&site, verdict, &statement, head).await?;
            Ok(None)
        }
    }
}

/// Nobody counts what a person uses.
fn unmetered() -> Arc<Meter> {
    Meter::new(Arc::new(Notify::new()), None)
}
