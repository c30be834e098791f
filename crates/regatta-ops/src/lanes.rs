//! Operations on lanes: list them, find one, remove one, remove those that are no longer needed.

use regatta_core::state::TaskState;
use regatta_engine::clock;
use regatta_engine::lanes::{LaneInfo, Lanes, Retired};
use regatta_engine::travel::last_with_lane;
use regatta_store::{Store, TaskRecord};

use crate::documents::{LaneDocument, LanePathDocument, RetiredDocument, SweptDocument, SweptLaneDocument};
use crate::look::status::lane_elsewhere;
use crate::project::{Project, find_task};
use crate::refusal::{Refusal, RefusalKind};
use crate::tasks::retire::{alone, in_the_way, mode, record, retire, retire_lane, whose};

/// A request to remove a task's lane.
#[derive(Clone, Debug)]
pub struct RetireRequest {
    /// The task, or the beginning of its id.
    pub task: String,
    /// Save work that is in no commit or on no branch, then remove the lane.
    pub force_salvage: bool,
}

/// A request to remove the lanes that are no longer needed.
#[derive(Clone, Copy, Debug, Default)]
pub struct SweepRequest {
    /// Only report what would be removed.
    pub dry_run: bool,
}

impl Project {
    /// Every lane; with `pooled` also those in the pool.
    pub fn list_lanes(&self, pooled: bool) -> Result<Vec<LaneDocument>, Refusal> {
        let mut found = Vec::new();
        for project in self.usable_repos() {
            let Some(lanes) = project.lanes()? else { continue };
            let in_pool = if pooled { lanes.pooled() } else { Vec::new() };
            let used = lanes.list()?.into_iter().map(LaneDocument::from);
            found.extend(used.chain(in_pool.into_iter().map(LaneDocument::from)));
        }
        Ok(found)
    }

    /// Where a task's lane is.
    pub async fn lane_path(&self, task: &str) -> Result<LanePathDocument, Refusal> {
        let store = self.store().await?;
        let spec = find_task(store.as_ref(), task).await?.spec;
        let lanes = self.of_task(&spec)?.lanes()?;
        let task = spec.id;
        let lane = match lanes {
            Some(lanes) => lanes.find(&task)?,
            None => None,
        };
        let attempts = store.attempts(&task).await?;
        if let Some(lane) = lane_elsewhere(last_with_lane(&attempts)) {
            return Err(Refusal::not_found(format!("the lane of {task} is on another machine: {lane}"))
                .hinted(format!("`regatta diff {task}` shows its work from here")));
        }
        match lane.filter(|lane| lane.path.is_dir()) {
            Some(lane) => Ok(LanePathDocument { base: lane.base, path: lane.path, task }),
            None => Err(Refusal::not_found(format!("{task} has no lane"))
                .hinted(format!("`regatta status {task}` shows what happened to it"))),
        }
    }

    /// Removes a task's lane, never the work in it. A lane that is already gone is no error.
    pub async fn retire(&self, request: &RetireRequest) -> Result<RetiredDocument, Refusal> {
        let (task, store) = whose(self, &request.task).await?;
        match retire_lane(self, store.as_ref(), &task, request.force_salvage).await {
            Ok(salvaged) => Ok(RetiredDocument { removed: true, salvaged, task }),
            Err(error) if error.kind == RefusalKind::NotFound => {
                Ok(RetiredDocument { removed: false, salvaged: None, task })
            }
            Err(error) => Err(error),
        }
    }

    /// Removes the lanes of ended tasks that hold no unsaved work, the lanes in the pool, and leftovers of removals.
    pub async fn sweep(&self, request: &SweepRequest) -> Result<SweptDocument, Refusal> {
        let dry_run = request.dry_run;
        let mut swept = SweptDocument { dry_run, lanes: Vec::new(), leftovers: 0, pooled: 0 };
        let Some(lanes) = self.lanes()? else { return Ok(swept) };
        let store = if self.has_store() { Some(self.store().await?) } else { None };
        let readers = lanes.root().join(".readers");
        for info in lanes.list()?.into_iter().filter(|info| !info.path.starts_with(&readers)) {
            swept.lanes.push(one(&lanes, store.as_deref(), info, dry_run).await?);
        }
        swept.leftovers = left_over(&lanes);
        swept.pooled = lanes.pooled().iter().filter(|lane| lane.held_by.is_none()).count();
        if !dry_run {
            // Unused readers and gates go too, and so does the trash.
            let sweeping = tokio::task::spawn_blocking(move || {
                lanes.sweep(clock::now())?;
                lanes.trim_pool(0)
            });
            sweeping.await.expect("git work does not panic")?;
        }
        Ok(swept)
    }
}

async fn one(
    lanes: &Lanes,
    store: Option<&dyn Store>,
    info: LaneInfo,
    dry_run: bool,
) -> Result<SweptLaneDocument, Refusal> {
    let id = &info.task;
    let alone = alone(lanes, id).await?;
    let task = match store {
        Some(store) => record(store, id).await?.map(|task| (task, store)),
        None => None,
    };
    let stays = |why: String| SweptLaneDocument { goes: false, task: id.clone(), why };
    let Some((task, store)) = task else {
        return Ok(stays(format!("the store has no such task; `regatta lane retire {id}` removes it")));
    };
    if let Some(why) = keeps(&task) {
        return Ok(stays(why));
    }
    let state = task.state.name();
    let goes = |why: String| SweptLaneDocument { goes: true, task: id.clone(), why };
    if dry_run {
        if let Some(why) = info.broken {
            return Ok(goes(format!("{state}; {why}, so it is repaired first and checked afterwards")));
        }
        if lanes.find(id)?.is_some_and(|lane| lanes.in_use(&lane)) {
            return Ok(stays("a process is running in it".to_owned()));
        }
        return Ok(match lanes.would_stay(id, mode(store, lanes, &task).await?)? {
            Some(why) => stays(why.to_string()),
            None => goes(format!("{state}, and nothing in it would be lost")),
        });
    }
    Ok(match retire(lanes, id, mode(store, lanes, &task).await?, &alone).await {
        Ok(Retired::Removed { .. } | Retired::NoLane) => goes(format!("{state}, and nothing in it was lost")),
        Ok(Retired::Kept(why)) => stays(why.to_string()),
        // A lane that cannot be removed does not keep the others.
        Err(error) => stays(error.message),
    })
}

/// Why the task may still need its lane.
fn keeps(task: &TaskRecord) -> Option<String> {
    let id = &task.spec.id;
    match &task.state {
        TaskState::Blocked { .. } => Some(format!("blocked: `regatta retry {id}` would continue in it")),
        TaskState::Parked { .. } => Some("parked: the task will continue in it".to_owned()),
        _ => in_the_way(task),
    }
}

/// Removed lanes that are not deleted yet.
fn left_over(lanes: &Lanes) -> usize {
    std::fs::read_dir(lanes.root().join(".trash")).map_or(0, |entries| entries.count())
}
