//! The order of the train, defined once: landing, `land status`, the MCP server and `top` all use `in_order`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use regatta_core::id::TaskId;
use regatta_core::radar::{CarPlace, conflicts, spread};
use regatta_core::state::TaskState;
use regatta_core::train::{Car, order};
use regatta_store::{Store, StoreError};

use super::chain::{Approval, approval};
use crate::radar::last_sighting;
use crate::records::Records;

/// The dependencies of cars, by approval, so that nothing is read twice: direct ones and, unless these have landed,
/// theirs.
#[derive(Debug, Default)]
pub struct Deps {
    of: HashMap<Approval, Vec<TaskId>>,
    /// Direct dependencies of tasks, as far as known from elsewhere.
    known: BTreeMap<TaskId, KnownDeps>,
    /// Dependencies that had landed when they were read.
    landed: BTreeSet<TaskId>,
}

/// What an engine knows about the dependencies of one of its own tasks.
#[derive(Clone, Debug)]
pub(crate) struct KnownDeps {
    /// The direct ones.
    pub(crate) deps: Vec<TaskId>,
    /// All of them had landed when the work was begun.
    pub(crate) all_landed: bool,
}

impl Deps {
    pub(super) fn new(known: BTreeMap<TaskId, KnownDeps>) -> Self {
        Self { known, ..Self::default() }
    }

    /// The dependencies of a car, as far as loaded.
    pub(super) fn of(&self, car: &Car) -> &[TaskId] {
        self.of.get(&approval(car)).map_or(&[], Vec::as_slice)
    }

    /// Whether this dependency had landed when it was read.
    pub(super) fn is_met(&self, dep: &TaskId) -> bool {
        self.landed.contains(dep)
    }

    /// Reads what is not known yet, level by level: one call for each level of dependencies, whatever their number.
    async fn load(&mut self, store: &dyn Store, cars: &[Car]) -> Result<(), StoreError> {
        let here: BTreeSet<Approval> = cars.iter().map(approval).collect();
        self.of.retain(|car, _| here.contains(car));
        let new: Vec<&Car> = cars.iter().filter(|car| !self.of.contains_key(&approval(car))).collect();
        let unknown = new.iter().map(|car| &car.task).filter(|task| !self.known.contains_key(*task));
        let records = Records::load(store, unknown).await?;
        let mut direct: BTreeMap<TaskId, Vec<TaskId>> = BTreeMap::new();
        for car in &new {
            let known = self.known.remove(&car.task);
            if let Some(KnownDeps { deps, all_landed: true }) = &known {
                self.landed.extend(deps.iter().cloned());
            }
            let deps = known.map(|known| known.deps);
            let deps = deps.or_else(|| Some(records.get(&car.task)?.spec.deps.clone()));
            direct.insert(car.task.clone(), deps.unwrap_or_default());
        }
        // The dependencies of each dependency; none for one that has landed.
        let mut below: BTreeMap<TaskId, Vec<TaskId>> = BTreeMap::new();
        let mut open: BTreeSet<TaskId> = direct.values().flatten().cloned().collect();
        open.retain(|dep| !self.landed.contains(dep));
        while !open.is_empty() {
            let records = Records::load(store, &open).await?;
            for dep in std::mem::take(&mut open) {
                let record = records.get(&dep);
                let deps = match record.map(|record| (record.met(), &record.spec.deps)) {
                    Some((Some(TaskState::Landed { .. }), _)) => {
                        self.landed.insert(dep.clone());
                        Vec::new()
                    }
                    Some((_, deps)) => deps.clone(),
                    None => Vec::new(),
                };
                below.insert(dep, deps);
            }
            open = below.values().flatten().filter(|dep| !below.contains_key(*dep)).cloned().collect();
        }
        for car in new {
            let mut found: Vec<TaskId> = Vec::new();
            let mut open = direct.get(&car.task).cloned().unwrap_or_default();
            while let Some(dep) = open.pop() {
                if !found.contains(&dep) {
                    open.extend(below.get(&dep).into_iter().flatten().cloned());
                    found.push(dep);
                }
            }
            self.of.insert(approval(car), found);
        }
        Ok(())
    }

    /// For each car the positions of those before it that it builds on.
    pub(super) fn needs(&self, cars: &[Car]) -> Vec<Vec<usize>> {
        let place = |task: &TaskId| cars.iter().position(|car| car.task == *task);
        cars.iter()
            .enumerate()
            .map(|(n, car)| {
                let mut needs: Vec<usize> =
                    self.of(car).iter().filter_map(place).filter(|m| *m < n).collect();
                needs.sort_unstable();
                needs
            })
            .collect()
    }
}

/// Sorts cars: dependencies first, then by priority, then by approval; cars that the radar saw conflict are moved
/// apart.
pub async fn in_order(
    store: &dyn Store,
    state_dir: &Path,
    mut cars: Vec<Car>,
    deps: &mut Deps,
) -> Result<Vec<Car>, StoreError> {
    order(&mut cars);
    deps.load(store, &cars).await?;
    let conflicts = match cars.len() {
        0 | 1 => Default::default(),
        _ => last_sighting(state_dir).map(|seen| conflicts(&seen.findings)).unwrap_or_default(),
    };
    let here: BTreeSet<&TaskId> = cars.iter().map(|car| &car.task).collect();
    let depends = |car: &Car| deps.of(car).iter().any(|dep| here.contains(dep));
    if conflicts.is_empty() && !cars.iter().any(depends) {
        return Ok(cars);
    }
    let place =
        |car: &Car| CarPlace { task: car.task.clone(), priority: car.priority, deps: deps.of(car).to_vec() };
    let places: Vec<CarPlace> = cars.iter().map(place).collect();
    Ok(spread(&places, &conflicts).into_iter().map(|n| cars[n].clone()).collect())
}
