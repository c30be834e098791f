//! The order of the train, defined once: landing, `land status`, the MCP server and `top` all use `in_order`.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use regatta_core::id::TaskId;
use regatta_core::radar::{CarPlace, conflicts, spread};
use regatta_core::state::TaskState;
use regatta_core::train::{Car, order};
use regatta_store::{Store, StoreError};

use super::chain::{Approval, approval};
use crate::persist::until_answered;
use crate::radar::last_sighting;

/// The dependencies of cars, by approval, so that nothing is read twice: direct ones and, unless these have landed,
/// theirs.
#[derive(Debug, Default)]
pub struct Deps(HashMap<Approval, Vec<TaskId>>);

impl Deps {
    /// The dependencies of a car, as far as loaded.
    pub(super) fn of(&self, car: &Car) -> &[TaskId] {
        self.0.get(&approval(car)).map_or(&[], Vec::as_slice)
    }

    async fn load(&mut self, store: &dyn Store, cars: &[Car]) -> Result<(), StoreError> {
        let here: BTreeSet<Approval> = cars.iter().map(approval).collect();
        self.0.retain(|car, _| here.contains(car));
        for car in cars {
            let key = approval(car);
            if let Entry::Vacant(place) = self.0.entry(key) {
                place.insert(all_deps(store, &car.task).await?);
            }
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

async fn all_deps(store: &dyn Store, task: &TaskId) -> Result<Vec<TaskId>, StoreError> {
    let mut found: Vec<TaskId> = Vec::new();
    let mut open = until_answered(|| store.task(task)).await?.spec.deps;
    while let Some(dep) = open.pop() {
        if found.contains(&dep) {
            continue;
        }
        match until_answered(|| store.task(&dep)).await {
            Ok(record) if !matches!(record.met(), Some(TaskState::Landed { .. })) => {
                open.extend(record.spec.deps);
            }
            // This dependency has landed.
            Ok(_) | Err(StoreError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        found.push(dep);
    }
    Ok(found)
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
