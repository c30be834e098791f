//! Moves cars that conflict with each other apart.

use std::collections::BTreeSet;

use crate::id::TaskId;

/// The facts that decide a car's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarPlace {
    /// The task of the car.
    pub task: TaskId,
    /// Its priority; higher comes first.
    pub priority: i32,
    /// The tasks that have to land before it.
    pub deps: Vec<TaskId>,
}

/// The order of `cars`, as positions in the list, with conflicting cars as far apart as the rest allows.
///
/// `cars` comes in the order of the train: priority, then approval. Regardless of conflicts, a car comes after those of
/// the list that it depends on, and before all of a lower priority that it does not depend on. Among cars of one
/// priority, the first that conflicts with none before it is next; if every one does, the one whose last conflict is
/// the furthest back. A list without conflicts keeps its order.
///
/// So the front of the train is work that merges, which is what a batch is made of, and conflicting cars come late,
/// when it is known whether the other one landed at all.
pub fn spread(cars: &[CarPlace], conflicts: &BTreeSet<(TaskId, TaskId)>) -> Vec<usize> {
    let conflict = |a: &TaskId, b: &TaskId| {
        conflicts.contains(&(a.clone(), b.clone())) || conflicts.contains(&(b.clone(), a.clone()))
    };
    let mut order: Vec<usize> = Vec::with_capacity(cars.len());
    let mut left: Vec<usize> = (0..cars.len()).collect();
    while !left.is_empty() {
        let is_free = |n: usize| {
            let waits = |m: &usize| *m != n && cars[n].deps.contains(&cars[*m].task);
            !left.iter().any(waits)
        };
        // The store never returns a cycle of dependencies; if it did, the cycle would keep its order.
        let free: Vec<usize> = left.iter().copied().filter(|n| is_free(*n)).collect();
        let free = if free.is_empty() { left.clone() } else { free };
        let first = free.iter().map(|n| cars[*n].priority).max().unwrap_or_default();
        let last_conflict = |n: &usize| {
            order
                .iter()
                .rposition(|placed| conflict(&cars[*placed].task, &cars[*n].task))
                .map_or(0, |at| at + 1)
        };
        // `min_by_key` returns the first of equals: the order of the train.
        let next = free.iter().copied().filter(|n| cars[*n].priority == first).min_by_key(last_conflict);
        let next = next.expect("one of them has the highest priority");
        left.retain(|n| *n != next);
        order.push(next);
    }
    order
}
