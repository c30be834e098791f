//! The current state of the train.

use regatta_core::oid::Oid;
use regatta_core::repos::RepoName;
use regatta_core::state::{StateName, TaskState};
use regatta_core::train::{Car, CarStep};
use regatta_engine::engine::EngineError;
use regatta_engine::hub::Hub;
use regatta_engine::landing::local::{self, Behind};
use regatta_engine::landing::order::{Deps, in_order};
use regatta_engine::landing::picture::{TestNow, under_test};
use regatta_engine::landing::target::{self, Stopped};
use regatta_engine::session::is_certainly_dead;
use regatta_store::{Store, TaskBrief, TaskQuery};

use crate::documents::{CarDocument, CarPullDocument, LandedDocument, TrainDocument};
use crate::project::Project;
use crate::pulls::records;
use crate::refusal::Refusal;

/// How many landed tasks are shown at the end.
const RECENT: usize = 5;

/// A car, and what its task waits for.
#[derive(Clone, Debug)]
pub struct Shown {
    pub car: Car,
    /// The repository it lands in, if it is not the project's own.
    pub repo: Option<RepoName>,
    /// Why it does not land by itself.
    pub waiting: Option<String>,
    /// Its pull request, if it has one.
    pub pull: Option<CarPullDocument>,
}

/// The current state of the train.
pub struct Picture {
    /// The branch it lands on.
    pub target: String,
    /// The tip of that branch.
    pub tip: Option<Oid>,
    /// The cars, in order; then those of the other repositories, each train in its own order.
    pub cars: Vec<Shown>,
    /// The tests in progress.
    pub tests: Vec<TestNow>,
    /// The last landed tasks.
    pub landed: Vec<TaskBrief>,
    /// Why nothing lands until a person decides.
    pub stopped: Option<Stopped>,
    /// With a hub: why the branch here does not have what landed there.
    pub behind: Option<Behind>,
}

/// The hub at which work lands, if there is one.
pub fn hub(project: &Project) -> Result<Option<Hub>, Refusal> {
    let shared = !project.store_url.starts_with("sqlite:");
    let found = Hub::find(&project.repo, &project.work()?, &project.config, shared);
    Ok(found.map_err(EngineError::from)?)
}

/// The hub, if clones that share the store exchange their work through it.
pub fn shared_hub(project: &Project) -> Result<Option<Hub>, Refusal> {
    let shared = !project.store_url.starts_with("sqlite:");
    if shared { hub(project) } else { Ok(None) }
}

/// Whether work lands at a hub. One that cannot be used is reported by what uses it.
pub fn is_at_hub(project: &Project) -> bool {
    hub(project).is_ok_and(|hub| hub.is_some())
}

/// With a hub: why the branch here does not have what landed there, as far as this machine knows.
pub fn behind(project: &Project) -> Result<Option<Behind>, Refusal> {
    let Ok(target) = project.target() else { return Ok(None) };
    if !project.has_store() || !is_at_hub(project) {
        return Ok(None);
    }
    Ok(local::behind(&project.repo, &project.work()?, &target)?)
}

/// Reads the train.
pub async fn picture(project: &Project) -> Result<Picture, Refusal> {
    let target = project.train_target()?;
    let (mut cars, mut tests, mut landed) = (Vec::new(), Vec::new(), Vec::new());
    // Before the first run there is no store and no train.
    if project.has_store() {
        let store = project.store().await?;
        cars = shown(project, store.as_ref(), (None, &target)).await?;
        for train in project.trains().iter().filter(|train| train.repo.is_some()) {
            cars.extend(shown(project, store.as_ref(), (train.repo.as_ref(), &train.name)).await?);
        }
        let sessions = store.sessions().await?;
        let alive = |session: &str| {
            sessions.iter().any(|info| info.session.0 == session && !is_certainly_dead(&info.node))
        };
        tests = under_test(&project.repo.state_dir, &target, alive);
        let query = TaskQuery { states: vec![StateName::Landed], limit: 0, ..TaskQuery::default() };
        landed = store.briefs(&query).await?;
        landed.sort_by_key(|task| std::cmp::Reverse(task.updated_at));
        landed.truncate(RECENT);
    }
    let mut tip = project.repo.branch_tip(&target)?.map(|tip| tip.oid().clone());
    if project.has_store() && is_at_hub(project) {
        tip = local::seen_at_hub(&project.repo, &target)?.or(tip);
    }
    let stopped = target::stopped(&project.repo.state_dir, &target);
    let behind = behind(project)?;
    Ok(Picture { target, tip, cars, tests, landed, stopped, behind })
}

/// The same as a document.
pub async fn train(project: &Project) -> Result<TrainDocument, Refusal> {
    let Picture { target, tip, cars, tests, landed, stopped, behind } = picture(project).await?;
    let land = &project.config.land;
    Ok(TrainDocument {
        behind: behind.map(|behind| behind.why),
        cars: cars.iter().map(|shown| car(shown, &tests)).collect(),
        gate: land.test_command.clone(),
        landed: landed.iter().map(landed_document).collect(),
        slots: land.parallel,
        stopped,
        strategy: land.strategy,
        target,
        tests,
        tip,
    })
}

async fn shown(
    project: &Project,
    store: &dyn Store,
    (repo, train): (Option<&RepoName>, &str),
) -> Result<Vec<Shown>, Refusal> {
    let cars = store.cars(train).await?;
    let cars = in_order(store, &project.repo.state_dir, cars, &mut Deps::default()).await?;
    let has_pulls = cars.iter().any(|car| car.request.via.is_pr());
    let pulls = if has_pulls { records(store).await? } else { Vec::new() };
    let mut shown = Vec::new();
    for car in cars {
        let waiting = match store.task(&car.task).await?.state {
            TaskState::Landing { waiting, .. } => waiting,
            // It has left the train since.
            _ => continue,
        };
        let record = pulls.iter().find(|record| record.task == car.task && record.end.is_none());
        let pull = record.and_then(CarPullDocument::of);
        shown.push(Shown { car, repo: repo.cloned(), waiting, pull });
    }
    Ok(shown)
}

/// The tests that a car is part of.
pub fn tests_of<'a>(car: &Car, tests: &'a [TestNow]) -> Vec<&'a TestNow> {
    tests.iter().filter(|test| test.cars.contains(&car.task)).collect()
}

fn car(shown: &Shown, tests: &[TestNow]) -> CarDocument {
    let Shown { car, repo, waiting, pull } = shown;
    let (step, candidate) = match &car.step {
        CarStep::Queued => ("queued", None),
        CarStep::Intended { .. } => ("intended", None),
        CarStep::Gated { candidate, .. } => ("gated", Some(candidate.clone())),
        CarStep::Proposing { head } => ("proposing", Some(head.clone())),
        CarStep::Proposed { head } => ("proposed", Some(head.clone())),
        CarStep::Merging { head, .. } => ("merging", Some(head.clone())),
    };
    CarDocument {
        attempt: car.attempt,
        candidate,
        checked: car.request.checked,
        head: car.request.head.clone(),
        id: car.task.clone(),
        priority: car.priority,
        pull: pull.clone(),
        repo: repo.clone(),
        step,
        under_test: tests_of(car, tests).iter().map(|test| test.candidate.clone()).collect(),
        waiting: waiting.clone(),
    }
}

fn landed_document(task: &TaskBrief) -> LandedDocument {
    let commit = match &task.state {
        TaskState::Landed { commit, .. } => Some(commit.clone()),
        _ => None,
    };
    LandedDocument { at: task.updated_at, commit, id: task.id.clone() }
}
