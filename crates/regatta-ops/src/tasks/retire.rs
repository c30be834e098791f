//! Removes a task's lane, never the work in it.

use std::sync::Arc;
use std::time::Duration;

use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::state::TaskState;
use regatta_engine::clock;
use regatta_engine::lanes::{Alone, Lanes, RetireMode, Retired};
use regatta_store::{RequestId, Store, StoreError, TaskRecord};

use crate::project::{Project, find_task};
use crate::refusal::{Refusal, RefusalKind};

/// A parked task that wakes sooner than this may be started while its lane is being removed.
const SOON: Duration = Duration::from_secs(60);

/// Removes the lane of one task. Returns the ref under which work was saved, if any.
pub async fn retire_lane(
    project: &Project,
    store: Option<&Arc<dyn Store>>,
    id: &TaskId,
    force_salvage: bool,
) -> Result<Option<String>, Refusal> {
    let spec = match store {
        Some(store) => record(store.as_ref(), id).await?.map(|task| task.spec),
        None => None,
    };
    let project = &project.in_repo(spec.and_then(|spec| spec.repo).as_ref())?;
    let Some(lanes) = project.lanes()? else { return Err(no_lane(id)) };
    let alone = alone(&lanes, id).await?;
    let task = match &store {
        Some(store) => record(store.as_ref(), id).await?,
        None => None,
    };
    if let Some(why) = task.as_ref().and_then(in_the_way) {
        let error = Refusal::refused(format!("{id} is {why}"));
        return Err(error.hinted(match task.map(|task| task.state) {
            Some(TaskState::Pending { .. } | TaskState::Parked { .. }) => {
                format!("`regatta park {id}` holds it back, `regatta cancel {id}` cancels it")
            }
            _ => format!("`regatta wait {id}` waits until it ends, `regatta cancel {id}` cancels it"),
        }));
    }
    let mode = match (store, &task) {
        (Some(store), Some(task)) => mode(store.as_ref(), &lanes, task).await?,
        _ => RetireMode::IfClean,
    };
    let mut retired = retire(&lanes, id, mode, &alone).await?;
    if let (Retired::Kept(_), true) = (&retired, force_salvage) {
        retired = retire(&lanes, id, RetireMode::SalvageFirst, &alone).await?;
    }
    let salvaged = match retired {
        Retired::NoLane => return Err(no_lane(id)),
        Retired::Kept(why) => {
            let error = Refusal::refused(format!("the lane of {id} stays: {why}"));
            let hint = if force_salvage {
                format!("Regatta cannot save this; handle it by hand (`regatta lane path {id}`)")
            } else {
                format!(
                    "`regatta diff {id}` shows its work; `regatta lane retire --force-salvage {id}` saves it and removes the lane"
                )
            };
            return Err(error.hinted(hint));
        }
        Retired::Removed { salvaged } => salvaged.map(|salvage| salvage.name),
    };
    if let (Some(store), Some(reference)) = (store, &salvaged) {
        let why = "its lane was removed".to_owned();
        let event = EventBody::Salvaged { reference: reference.clone(), why };
        let known = task.is_some().then_some(id);
        store.append(known, None, &event, &RequestId::fresh(), clock::now()).await?;
    }
    Ok(salvaged)
}

/// The task, even if only its lane is left.
pub async fn whose(project: &Project, text: &str) -> Result<(TaskId, Option<Arc<dyn Store>>), Refusal> {
    let store = if project.has_store() { Some(project.store().await?) } else { None };
    let found = match &store {
        Some(store) => find_task(store.as_ref(), text).await,
        None => Err(Refusal::not_found(format!("there is no task {text:?}"))),
    };
    match found {
        Ok(task) => Ok((task.spec.id, store)),
        Err(error) => {
            let id = TaskId::parse(text).ok();
            let lane = match (&id, project.lanes()?) {
                (Some(id), Some(lanes)) if error.kind == RefusalKind::NotFound => lanes.find(id)?,
                _ => None,
            };
            lane.map(|lane| (lane.task, store)).ok_or(error)
        }
    }
}

fn no_lane(id: &TaskId) -> Refusal {
    Refusal::not_found(format!("{id} has no lane")).hinted("`regatta lane list` shows all")
}

/// The task's record; `None` if the store no longer knows it.
pub async fn record(store: &dyn Store, id: &TaskId) -> Result<Option<TaskRecord>, Refusal> {
    match store.task(id).await {
        Ok(task) => Ok(Some(task)),
        Err(StoreError::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Why the task's state keeps its lane: an agent works in it, or may do so at any moment.
pub fn in_the_way(task: &TaskRecord) -> Option<String> {
    match &task.state {
        TaskState::Pending { .. } => Some("pending, and can start in its lane at any moment".to_owned()),
        TaskState::Parked { until, .. } if *until <= clock::now().plus(SOON) => {
            Some("parked, and starts in its lane within a minute".to_owned())
        }
        TaskState::Landing { .. } => Some("being landed".to_owned()),
        state if state.is_claimed() => Some(format!("{}: its lane is in use", state.name())),
        _ => None,
    }
}

/// Landed work may have other commits on the target than in the lane. See [`Lanes::landed_mode`].
pub async fn mode(store: &dyn Store, lanes: &Lanes, task: &TaskRecord) -> Result<RetireMode, Refusal> {
    if !matches!(task.state, TaskState::Landed { .. }) {
        return Ok(RetireMode::IfClean);
    }
    let attempts = store.attempts(&task.spec.id).await?;
    Ok(lanes.landed_mode(&task.spec.id, &attempts)?)
}

/// See [`Lanes::alone`].
pub async fn alone(lanes: &Lanes, id: &TaskId) -> Result<Alone, Refusal> {
    let (lanes, id) = (lanes.clone(), id.clone());
    Ok(tokio::task::spawn_blocking(move || lanes.alone(&id)).await.expect("locking does not panic")?)
}

/// Removes the lane, if no process runs in it and nothing in it would be lost.
pub async fn retire(
    lanes: &Lanes,
    id: &TaskId,
    mode: RetireMode,
    _alone: &Alone,
) -> Result<Retired, Refusal> {
    if let Some(lane) = lanes.find(id)?
        && lanes.in_use(&lane)
    {
        return Err(Refusal::refused(format!("a process is using the lane of {id}"))
            .hinted(format!("leave {} first", lane.path.display())));
    }
    let (lanes, id) = (lanes.clone(), id.clone());
    let retired = tokio::task::spawn_blocking(move || lanes.retire(&id, mode, clock::now()));
    Ok(retired.await.expect("git work does not panic")?)
}
