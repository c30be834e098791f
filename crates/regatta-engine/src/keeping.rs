//! Which commits of which tasks Regatta's own refs keep, depending on the tasks' states in the store.
//!
//! Invariant: a commit is released only when its task has landed with it or after it, or when the target contains it.

use std::collections::BTreeMap;
use std::sync::Arc;

use regatta_core::attempt::Attempt;
use regatta_core::id::TaskId;
use regatta_core::state::{StateName, TaskState};
use regatta_core::train::{Car, LandRequest};
use regatta_core::verdict::Verdict;
use regatta_store::{StoreError, TaskQuery};

use crate::context::Context;
use crate::engine::EngineError;
use crate::git::{GitError, Oid, save_commit};
use crate::persist::until_answered;

/// What landed of a task.
pub(crate) enum Landed {
    /// The work of this attempt.
    With(u32),
    /// This car, just now.
    Car(Box<Car>),
}

/// Releases what was kept for a landed task, and its branch if that has nothing else. Errors are only reported: the
/// next start of an engine tries again.
pub(crate) async fn let_go(ctx: &Arc<Context>, task: &TaskId, landed: Landed) {
    let result = async {
        let attempts = match landed {
            // What was kept for a first attempt is what landed.
            Landed::Car(car) if car.attempt == 1 => {
                let LandRequest { base, head, .. } = car.request;
                vec![Attempt { base: Some(base), head: Some(head), ..Attempt::new(1, "") }]
            }
            landed => {
                let attempt = match landed {
                    Landed::With(attempt) => attempt,
                    Landed::Car(car) => car.attempt,
                };
                let mut attempts = until_answered(|| ctx.services.store.attempts(task)).await?;
                attempts.retain(|before| before.n <= attempt);
                attempts
            }
        };
        let (task, target) = (task.clone(), ctx.repository.target.clone());
        ctx.blocking(move |ctx| let_go_of(ctx, &task, &attempts, &target)).await?;
        Ok::<(), EngineError>(())
    };
    if let Err(error) = result.await {
        ctx.say(format!("{task}: the refs that held its work are kept for now: {error}"));
    }
}

/// `attempts` are those up to the one that landed. Work of an earlier one that is not in it goes to a salvage ref.
fn let_go_of(ctx: &Context, task: &TaskId, attempts: &[Attempt], target: &str) -> Result<(), GitError> {
    let heads = |attempt: &Attempt| attempt.head.clone();
    let Some(landed) = attempts.last().and_then(heads) else { return Ok(()) };
    let mut saved = vec![landed.clone()];
    for attempt in attempts {
        let Some(head) = heads(attempt).filter(|head| !saved.contains(head)) else { continue };
        let is_held = ctx.repository.repo.keeps(task, &head)?;
        if is_held && !ctx.repository.work.is_ancestor(&head, &landed)? {
            save_commit(&ctx.repository.repo, task, &head)?;
        }
        if is_held {
            saved.push(head);
        }
    }
    let tip = ctx.repository.repo.read_ref(&format!("refs/heads/{target}"))?;
    ctx.repository.repo.let_go(&ctx.repository.work, task, &commits_of(attempts.iter()), &saved, tip.as_ref())
}

/// Runs [`reconcile`] in the background when an engine starts.
pub(crate) fn begin(ctx: &Arc<Context>) {
    let ctx = ctx.clone();
    tokio::spawn(async move {
        for ctx in ctx.all() {
            let Err(error) = reconcile(&ctx).await else { continue };
            ctx.say(format!("the refs that hold tasks' work could not be checked: {error}"));
        }
    });
}

/// When an engine starts: keeps what an older version, or a killed process, did not keep yet, and releases what has
/// landed meanwhile.
async fn reconcile(ctx: &Arc<Context>) -> Result<(), EngineError> {
    let held = ctx.blocking(|ctx| ctx.repository.repo.kept()).await?;
    let mut by_task: BTreeMap<TaskId, Vec<Oid>> = BTreeMap::new();
    for (task, oid) in held {
        by_task.entry(task).or_default().push(oid);
    }
    for (task, held) in &by_task {
        let record = until_answered(|| ctx.services.store.task(task)).await;
        if record.as_ref().is_ok_and(|record| record.spec.repo != ctx.repository.name) {
            continue;
        }
        match record.map(|record| record.state) {
            Ok(TaskState::Landed { attempt, .. }) => let_go(ctx, task, Landed::With(attempt)).await,
            // It was removed from the store: only what the target contains may be released.
            Err(StoreError::NotFound(_)) => {
                let (task, held, target) = (task.clone(), held.clone(), ctx.repository.target.clone());
                ctx.blocking(move |ctx| forget_landed(ctx, &task, &held, &target)).await?;
            }
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
    }
    {
        let states = vec![StateName::Done, StateName::Blocked, StateName::Landing];
        let query = TaskQuery { states, ..TaskQuery::default() };
        for record in until_answered(|| ctx.services.store.tasks(&query)).await? {
            let task = record.spec.id.clone();
            let is_empty = matches!(record.state, TaskState::Done { head: None, .. });
            let is_elsewhere = record.spec.repo != ctx.repository.name;
            if by_task.contains_key(&task) || record.spec.read_only || is_empty || is_elsewhere {
                continue;
            }
            let attempts = until_answered(|| ctx.services.store.attempts(&task)).await?;
            let good =
                |attempt: &&Attempt| attempt.head.is_some() && attempt.verdict.is_some_and(Verdict::is_good);
            let needed = commits_of(attempts.iter().filter(good));
            if needed.is_empty() {
                continue;
            }
            let tip = ctx.repository.target.clone();
            ctx.blocking(move |ctx| hold(ctx, &task, needed, &tip)).await?;
        }
    }
    Ok(())
}

fn hold(ctx: &Context, task: &TaskId, needed: Vec<Oid>, target: &str) -> Result<(), GitError> {
    let tip = ctx.repository.repo.read_ref(&format!("refs/heads/{target}"))?;
    let mut held = Vec::new();
    for commit in needed {
        let is_in = match &tip {
            Some(tip) => {
                ctx.repository.work.has_commit(&commit)? && ctx.repository.work.is_ancestor(&commit, tip)?
            }
            None => false,
        };
        if !is_in && ctx.repository.work.has_commit(&commit)? {
            held.push(commit);
        }
    }
    ctx.repository.repo.keep(task, &held)
}

fn forget_landed(ctx: &Context, task: &TaskId, held: &[Oid], target: &str) -> Result<(), GitError> {
    let Some(tip) = ctx.repository.repo.read_ref(&format!("refs/heads/{target}"))? else { return Ok(()) };
    let mut landed = Vec::new();
    for commit in held {
        if ctx.repository.work.is_ancestor(commit, &tip)? {
            landed.push(commit.clone());
        }
    }
    ctx.repository.repo.let_go(&ctx.repository.work, task, &landed, &[], None)
}

fn commits_of<'a>(attempts: impl Iterator<Item = &'a Attempt>) -> Vec<Oid> {
    let commits = attempts.flat_map(|attempt| [&attempt.head, &attempt.base]).flatten();
    let mut commits: Vec<Oid> = commits.cloned().collect();
    commits.sort();
    commits.dedup();
    commits
}
