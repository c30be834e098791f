//! What tasks left behind after their work landed: lanes and branches, here and at the remote.
//!
//! Invariant: only what holds nothing but landed work goes, and a branch only from the commit that was looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use regatta_core::forge::record::{PullEnd, PullRecord};
use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::state::TaskState;
use regatta_store::StoreError;

use super::desk::remote_of;
use super::{all_records, branch};
use crate::context::Context;
use crate::engine::EngineError;
use crate::git::{Expect, GitError, RefEdit, RefOutcome};
use crate::lanes::{LaneInfo, LanePurpose, RetireMode, Retired};
use crate::persist::until_answered;

/// What is left of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftoverKind {
    /// Its lane.
    Lane,
    /// Its branch here.
    Branch,
    /// The branch of its pull request.
    RemoteBranch,
}

/// Something that a task left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The task.
    pub task: TaskId,
    /// What it is.
    pub kind: LeftoverKind,
    /// Its path, its branch, or its remote and branch.
    pub name: String,
    /// Whether it goes.
    pub goes: bool,
    /// The reason.
    pub why: String,
}

/// What was found.
#[derive(Debug, Default)]
pub struct CleanedUp {
    /// By repository and task.
    pub found: Vec<Leftover>,
    /// Why branches at remotes were not looked at.
    pub unseen: Vec<String>,
}

/// What a task left, before it is known whether it goes.
#[derive(Default)]
struct Left {
    lane: Option<LaneInfo>,
    branch: Option<Oid>,
    /// The remote, the branch and its commit.
    there: Option<(String, String, Oid)>,
}

/// What landed of a task.
struct Landed {
    /// The head that was merged, or the work that landed.
    head: Option<Oid>,
    target: Option<Oid>,
    /// The number of its merged pull request.
    number: Option<u64>,
    /// Why the task needs everything itself.
    busy: Option<String>,
}

impl Landed {
    /// Whether a commit holds nothing that has not landed.
    fn has(&self, ctx: &Context, tip: &Oid) -> Result<bool, GitError> {
        if self.head.as_ref() == Some(tip) {
            return Ok(true);
        }
        let work = &ctx.repository.work;
        for landed in self.head.iter().chain(&self.target) {
            if work.exists(tip)? && work.exists(landed)? && work.is_ancestor(tip, landed)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn past(&self) -> String {
        match self.number {
            Some(number) => format!("it carries work past its merged pull request #{number}"),
            None => "it carries work past what landed".to_owned(),
        }
    }

    fn nothing_more(&self) -> String {
        match self.number {
            Some(number) => format!("#{number} is merged, and nothing more is in it"),
            None => "its task landed, and nothing more is in it".to_owned(),
        }
    }
}

/// Removes what landed tasks left behind, in all repositories; with `dry_run`, only finds it.
pub async fn clean_up(ctx: &Arc<Context>, dry_run: bool) -> Result<CleanedUp, EngineError> {
    let mut cleaned = CleanedUp::default();
    let records = all_records(ctx).await?;
    for yard in ctx.all() {
        let train = yard.repository.train();
        let merged: BTreeMap<TaskId, PullRecord> = records
            .iter()
            .filter(|record| record.train == train && matches!(record.end, Some(PullEnd::Merged { .. })))
            .map(|record| (record.task.clone(), record.clone()))
            .collect();
        let name = format!("refs/heads/{}", yard.repository.target);
        let target = yard.blocking(move |ctx| ctx.repository.repo.read_ref(&name)).await?;
        for (task, left) in everything_left(&yard, &merged, &mut cleaned.unseen).await? {
            let Some(landed) = landed(&yard, &task, merged.get(&task), target.clone()).await? else {
                continue;
            };
            cleaned.found.extend(one(&yard, &task, left, landed, dry_run).await?);
        }
    }
    Ok(cleaned)
}

/// Lanes, branches here, and branches of merged pull requests, by task.
async fn everything_left(
    ctx: &Arc<Context>,
    merged: &BTreeMap<TaskId, PullRecord>,
    unseen: &mut Vec<String>,
) -> Result<BTreeMap<TaskId, Left>, GitError> {
    const BRANCHES: &str = "refs/heads/regatta/";
    let mut all: BTreeMap<TaskId, Left> = BTreeMap::new();
    let (lanes, branches) = ctx
        .blocking(|ctx| Ok((ctx.repository.lanes.list()?, ctx.repository.repo.refs_below(BRANCHES)?)))
        .await?;
    for lane in lanes.into_iter().filter(|lane| lane.purpose == LanePurpose::Task) {
        let left = all.entry(lane.task.clone()).or_default();
        left.lane = Some(lane);
    }
    for (name, tip) in branches {
        let id = name.strip_prefix(BRANCHES).and_then(|id| TaskId::parse(id).ok());
        if let Some(id) = id {
            all.entry(id).or_default().branch = Some(tip);
        }
    }
    let mut places: BTreeMap<String, Vec<&PullRecord>> = BTreeMap::new();
    for record in merged.values() {
        places.entry(record.head_repo.to_string()).or_default().push(record);
    }
    for (repo, records) in places {
        let slug = records[0].head_repo.clone();
        let looked = ctx.blocking(move |ctx| {
            let Some(remote) = remote_of(ctx, &slug)? else { return Ok(None) };
            Ok(Some((branch::tips_there(ctx, &remote)?, remote)))
        });
        match looked.await {
            Ok(Some((tips, remote))) => {
                for record in records {
                    let Some(tip) = tips.get(&record.branch) else { continue };
                    let there = (remote.clone(), record.branch.clone(), tip.clone());
                    all.entry(record.task.clone()).or_default().there = Some(there);
                }
            }
            Ok(None) => unseen.push(format!("no remote leads to {repo}, so its branches stay")),
            Err(error) => {
                let why = ctx.settings.redact(&error.to_string());
                unseen.push(format!("the branches at {repo} stay: could not {why}"));
            }
        }
    }
    Ok(all)
}

/// What landed of a task; `None` if nothing did, or if the store does not know it.
async fn landed(
    ctx: &Arc<Context>,
    task: &TaskId,
    record: Option<&PullRecord>,
    target: Option<Oid>,
) -> Result<Option<Landed>, EngineError> {
    let state = match until_answered(|| ctx.services.store.task(task)).await {
        Ok(task) => task.state,
        Err(StoreError::NotFound(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let merged = record.and_then(|record| match &record.end {
        Some(PullEnd::Merged { head, .. }) => Some(head.clone()),
        _ => None,
    });
    let head = match (merged, &state) {
        (Some(head), _) => Some(head),
        (None, TaskState::Landed { attempt, .. }) => {
            let attempts = until_answered(|| ctx.services.store.attempts(task)).await?;
            attempts.into_iter().find(|made| made.n == *attempt).and_then(|made| made.head)
        }
        (None, _) => return Ok(None),
    };
    let busy = match state {
        TaskState::Landed { .. } => None,
        state => Some(format!("its task is {}", state.name())),
    };
    let number = record.and_then(|record| record.pull.as_ref()).map(|pull| pull.number.0);
    Ok(Some(Landed { head, target, number, busy }))
}

/// Decides about everything that one task left, and removes what goes.
async fn one(
    ctx: &Arc<Context>,
    task: &TaskId,
    left: Left,
    landed: Landed,
    dry_run: bool,
) -> Result<Vec<Leftover>, EngineError> {
    let landed = Arc::new(landed);
    let mut found = Vec::new();
    let mut put = |kind, name: String, decided: Result<String, String>| {
        let (goes, why) = match decided {
            Ok(why) => (true, why),
            Err(why) => (false, why),
        };
        let why = ctx.settings.redact(&why);
        found.push(Leftover { task: task.clone(), kind, name, goes, why });
    };
    let mut removed_lanes = BTreeSet::new();
    if let Some(lane) = left.lane {
        let path = lane.path.clone();
        let decided = remove_lane(ctx, lane, &landed, dry_run).await?;
        if decided.is_ok() {
            removed_lanes.insert(path.clone());
        }
        put(LeftoverKind::Lane, path.display().to_string(), decided);
    }
    if let Some(tip) = left.branch {
        let (task, landed) = (task.clone(), landed.clone());
        let name = task.branch();
        let decided =
            ctx.blocking(move |ctx| remove_branch(ctx, &task, tip, &landed, &removed_lanes, dry_run)).await?;
        put(LeftoverKind::Branch, name, decided);
    }
    if let Some((remote, branch, tip)) = left.there {
        let (name, landed) = (format!("{remote}/{branch}"), landed.clone());
        let decided =
            ctx.blocking(move |ctx| remove_there(ctx, (&remote, &branch), &tip, &landed, dry_run)).await?;
        put(LeftoverKind::RemoteBranch, name, decided);
    }
    Ok(found)
}

/// Why it went, or why it stays.
type Decided = Result<String, String>;

async fn remove_lane(
    ctx: &Arc<Context>,
    lane: LaneInfo,
    landed: &Arc<Landed>,
    dry_run: bool,
) -> Result<Decided, GitError> {
    if let Some(why) = &landed.busy {
        return Ok(Err(why.clone()));
    }
    if let Some(why) = lane.broken {
        return Ok(Err(format!("{why}; `regatta lane retire {}` repairs and removes it", lane.task)));
    }
    let (task, known) = (lane.task.clone(), landed.clone());
    let obstacle = ctx.blocking(move |ctx| {
        let lanes = &ctx.repository.lanes;
        let Some(place) = lanes.find(&lane.task)? else { return Ok(None) };
        if lanes.in_use(&place) {
            return Ok(Some("a process is running in it".to_owned()));
        }
        let has_all = match &lane.head {
            Some(head) => known.has(ctx, head)?,
            None => false,
        };
        if !has_all {
            return Ok(Some(known.past()));
        }
        Ok(lanes.would_stay(&lane.task, RetireMode::Landed)?.map(|why| why.to_string()))
    });
    if let Some(why) = obstacle.await? {
        return Ok(Err(why));
    }
    if !dry_run && let Retired::Kept(why) = ctx.retire_idle(&task, RetireMode::Landed).await? {
        return Ok(Err(why.to_string()));
    }
    Ok(Ok(landed.nothing_more()))
}

fn remove_branch(
    ctx: &Context,
    task: &TaskId,
    tip: Oid,
    landed: &Landed,
    removed_lanes: &BTreeSet<PathBuf>,
    dry_run: bool,
) -> Result<Decided, GitError> {
    if let Some(why) = &landed.busy {
        return Ok(Err(why.clone()));
    }
    if !landed.has(ctx, &tip)? {
        return Ok(Err(landed.past()));
    }
    let repo = &ctx.repository.repo;
    let name = format!("refs/heads/{}", task.branch());
    let checkouts = repo.checkouts()?;
    let holds = checkouts.iter().find(|it| it.holds(&name) && !removed_lanes.contains(&it.path));
    if let Some(checkout) = holds {
        return Ok(Err(format!("it is checked out in {}", checkout.path.display())));
    }
    if !dry_run {
        let edit = RefEdit { name, new: None, old: Expect::Is(tip) };
        if let RefOutcome::Moved { .. } = repo.update_refs(&[edit], "regatta: cleaned up")? {
            return Ok(Err("it was moved meanwhile".to_owned()));
        }
    }
    Ok(Ok(landed.nothing_more()))
}

fn remove_there(
    ctx: &Context,
    (remote, name): (&str, &str),
    tip: &Oid,
    landed: &Landed,
    dry_run: bool,
) -> Result<Decided, GitError> {
    if !ctx.settings.config.land.pr.delete_branch {
        return Ok(Err("land.pr.delete_branch is false".to_owned()));
    }
    // Only the merged head itself: a commit before it means that a person moved the branch back.
    if landed.head.as_ref() != Some(tip) {
        return Ok(Err(landed.past()));
    }
    if let Some(why) = &landed.busy {
        return Ok(Err(why.clone()));
    }
    if !dry_run && branch::delete(ctx, remote, name, tip)? == branch::Deleted::Stays {
        return Ok(Err(format!("{remote} did not delete it")));
    }
    Ok(Ok(landed.nothing_more()))
}
