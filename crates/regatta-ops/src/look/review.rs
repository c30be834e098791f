//! The tasks as a reviewer sees them: what decides the column of each, read from beside the tasks.

use std::collections::HashMap;

use regatta_core::forge::board::{Standing, column_of};
use regatta_core::forge::pull::Column;
use regatta_core::forge::record::PullRecord;
use regatta_core::id::TaskId;
use regatta_core::part::Part;
use regatta_core::repos::RepoName;
use regatta_core::state::{StateName, TaskState};
use regatta_core::train::{Car, CarStep};
use regatta_engine::context::train_of;
use regatta_store::{Store, TaskBrief};

use crate::project::Project;
use crate::pulls::records;
use crate::refusal::Refusal;

/// A train of the project: the one of its own repository, or of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Train {
    /// The other repository.
    pub repo: Option<RepoName>,
    /// Its name in the store.
    pub name: String,
}

impl Project {
    /// The trains of all repositories that can be used, the one of the project's own first.
    pub fn trains(&self) -> Vec<Train> {
        let train = |project: Project| {
            let repo = project.name_in_project().cloned();
            let target = if repo.is_none() { project.train_target() } else { project.target() };
            let name = train_of(repo.as_ref(), &target.ok()?);
            Some(Train { repo, name })
        };
        self.usable_repos().into_iter().filter_map(train).collect()
    }
}

/// The states in which a task can have a column.
pub fn states_with_a_column() -> Vec<StateName> {
    StateName::all_that(|name| !matches!(name, StateName::Landed | StateName::Cancelled | StateName::Skipped))
}

/// Whether the links of its chain judge the work of a task, and land it.
pub fn is_judged(part: Option<&Part>) -> bool {
    matches!(part, Some(Part::Builder { lands: true, .. }))
}

/// The steps of all cars, and the columns of their pull requests.
#[derive(Clone, Debug, Default)]
pub struct Board {
    steps: HashMap<TaskId, CarStep>,
    pulls: HashMap<TaskId, Column>,
}

impl Board {
    /// Reads the cars of these trains.
    pub async fn load(store: &dyn Store, trains: &[Train]) -> Result<Self, Refusal> {
        let mut cars = Vec::new();
        for train in trains {
            cars.extend(store.cars(&train.name).await?);
        }
        Self::around(store, cars).await
    }

    /// The board of these cars; reads their pull requests, if there are any.
    pub async fn around(store: &dyn Store, cars: Vec<Car>) -> Result<Self, Refusal> {
        let is_proposed = |car: &Car| matches!(car.step, CarStep::Proposed { .. });
        let pulls = if cars.iter().any(is_proposed) { records(store).await? } else { Vec::new() };
        Ok(Self::of(cars, pulls))
    }

    /// The board of these cars, and of the pull requests that are open.
    pub fn of(cars: impl IntoIterator<Item = Car>, pulls: impl IntoIterator<Item = PullRecord>) -> Self {
        let open = pulls.into_iter().filter(|record| record.end.is_none());
        Self {
            steps: cars.into_iter().map(|car| (car.task, car.step)).collect(),
            pulls: open.filter_map(|record| Some((record.task, record.shown?.column))).collect(),
        }
    }

    /// The column of a task in this state; `None` once nothing is left to do about it.
    pub fn column(&self, task: &TaskId, state: &TaskState, is_judged: bool) -> Option<Column> {
        let (step, pull) = (self.steps.get(task), self.pulls.get(task).copied());
        column_of(&Standing { state, is_judged, step, pull })
    }

    /// The column of a task in a list.
    pub fn column_of(&self, task: &TaskBrief) -> Option<Column> {
        self.column(&task.id, &task.state, is_judged(task.part.as_ref()))
    }
}
