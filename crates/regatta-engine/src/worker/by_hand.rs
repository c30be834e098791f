//! A task that a crew member works on by hand, in its own lane.
//!
//! The work is proven like an agent's: committed, checked, and put into the train. If that fails the member keeps the
//! task, corrects it and submits it again.

use std::path::PathBuf;
use std::sync::Arc;

use regatta_core::attempt::{Attempt, Evidence};
use regatta_core::exit::Exit;
use regatta_core::oid::Oid;
use regatta_core::verdict::Statement;
use regatta_store::{Claim, TaskRecord};
use tokio::sync::{Notify, watch};

use super::settle::Proven;
use super::{Worker, WorkerError};
use crate::context::Context;
use crate::landing::boarding::Boarded;
use crate::meter::Meter;
use crate::process::hold;

/// Creates the lane of a task that `member` holds, or reuses the existing one, and returns its path.
pub async fn lane(ctx: Arc<Context>, claim: Claim, member: &str) -> Result<PathBuf, WorkerError> {
    let (_never, stop) = watch::channel(None);
    let record = Attempt::new(claim.attempt, member);
    let mut worker = Worker::new(ctx, claim, record, stop, unmetered());
    Ok(worker.prepare().await?.lane.path)
}

/// Submits the work in the lane of an attempt. `Some` says why it is not good enough; then nothing has changed.
pub async fn hand_in(
    ctx: Arc<Context>,
    claim: Claim,
    record: Attempt,
    statement: Statement,
) -> Result<Option<String>, WorkerError> {
    let (_never, stop) = watch::channel(None);
    let run_dir = ctx.repository.run_dir(&claim.task, claim.attempt);
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
        return Ok(Some(format!("{} was checked out in its lane", worker.ctx.repository.target)));
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

/// What a user takes from a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Taken {
    /// Its commits.
    Work {
        /// The commit the lane started from.
        base: Oid,
        /// The commit that may land.
        head: Oid,
    },
    /// The lane has nothing to land.
    Nothing,
    /// It cannot be taken as it is, for this reason.
    Unfit(String),
}

/// Commits what an attempt left in its lane and checks whether it may land, for a user who accepts it whatever its
/// verdict. The task's own checks are not run: they are part of that verdict. The task's state does not change.
pub async fn take(ctx: Arc<Context>, task: &TaskRecord, record: Attempt) -> Result<Taken, WorkerError> {
    let (_never, stop) = watch::channel(None);
    let claim = Claim {
        task: task.spec.id.clone(),
        fence: 0,
        attempt: record.n,
        session: ctx.services.session.clone(),
        spec: task.spec.clone(),
        charged: task.charged,
        environment_failures: 0,
        prompt: None,
        standing: None,
    };
    let run_dir = ctx.repository.run_dir(&claim.task, claim.attempt);
    let summary = record.work_summary().to_owned();
    let mut worker = Worker::new(ctx, claim, record, stop, unmetered());
    worker.learn_secrets(None);
    let Some(site) = worker.site_of_record(run_dir).await? else {
        return Ok(Taken::Unfit("its lane is gone".to_owned()));
    };
    if hold::is_held(&worker.ctx.repository.hold_of(&worker.claim.task)) {
        return Ok(Taken::Unfit("a process is working in its lane".to_owned()));
    }
    if let Some(harm) = worker.mend(&site).await? {
        return Ok(Taken::Unfit(harm.to_owned()));
    }
    if worker.took_the_target(&site).await? {
        return Ok(Taken::Unfit(format!("{} was checked out in its lane", worker.ctx.repository.target)));
    }
    if worker.claim.spec.auto_commit {
        if let Some(why) = worker.commit(&site, &summary).await? {
            return Ok(Taken::Unfit(worker.redact(&why)));
        }
    } else if let Some(first) =
        worker.git(&site, |ctx, lane| ctx.repository.lanes.uncommitted(lane)).await?.first()
    {
        let why = format!("it left work uncommitted, first {}, and auto_commit is off", first.display());
        return Ok(Taken::Unfit(why));
    }
    if let Boarded::Unfit(why) = worker.board(&site).await? {
        return Ok(Taken::Unfit(worker.redact(&why)));
    }
    let head = worker.git(&site, |ctx, lane| ctx.repository.lanes.take_over(lane)).await?;
    let at = head.clone();
    let files =
        worker.git(&site, move |ctx, lane| ctx.repository.work.paths_between(&lane.base, &at)).await?;
    if let Some(state) = files.iter().find(|path| crate::git::is_state(path)) {
        let why = format!("it committed {}, but Regatta's state must never be committed", state.display());
        return Ok(Taken::Unfit(why));
    }
    if let Some(why) = worker.took_a_stash(&site, &head).await? {
        return Ok(Taken::Unfit(worker.redact(&why)));
    }
    if head == site.lane.base || files.is_empty() {
        return Ok(Taken::Nothing);
    }
    let held = head.clone();
    worker
        .git(&site, move |ctx, lane| {
            let mut kept = vec![held.clone()];
            if !ctx.repository.work.is_ancestor(&lane.base, &held)? {
                kept.push(lane.base.clone());
            }
            ctx.repository.repo.keep(&lane.task, &kept)
        })
        .await?;
    Ok(Taken::Work { base: site.lane.base, head })
}

/// A member's usage is not counted.
fn unmetered() -> Arc<Meter> {
    Meter::new(Arc::new(Notify::new()), None)
}
