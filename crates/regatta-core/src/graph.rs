//! Tasks as a graph: its cycles, what could run together, and a drawing.
//!
//! Dependencies on tasks outside the given list count as met: they belong to someone else.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::hash::Hash;

use crate::id::TaskId;
use crate::plain;
use crate::spec::TaskSpec;
use crate::writes::first_overlap;

/// A task's id and its dependencies.
pub(crate) type Link<'a> = (&'a TaskId, Vec<&'a TaskId>);

/// The first cycle, with its first task repeated at the end: `a`, `b`, `a` if `a` needs `b` and `b` needs `a`.
pub fn cycle(tasks: &[TaskSpec]) -> Option<Vec<TaskId>> {
    let links: Vec<Link<'_>> = tasks.iter().map(|task| (&task.id, task.deps.iter().collect())).collect();
    cycles(&links).into_iter().next()
}

/// For every task its dependencies by position; those outside the list are left out.
fn edges<N: Eq + Hash>(links: &[(&N, Vec<&N>)]) -> Vec<Vec<usize>> {
    let index: HashMap<&N, usize> = links.iter().enumerate().map(|(n, (id, _))| (*id, n)).collect();
    links.iter().map(|(_, deps)| deps.iter().filter_map(|dep| index.get(dep).copied()).collect()).collect()
}

/// A set of cycles such that removing one task of each leaves none. In the order of the tasks.
pub(crate) fn cycles(links: &[Link<'_>]) -> Vec<Vec<TaskId>> {
    let deps = edges(links);
    let mut alive = vec![true; links.len()];
    let mut found = Vec::new();
    loop {
        peel(&deps, &mut alive);
        // Every remaining task needs another remaining one, so following them leads into a cycle.
        let Some(start) = alive.iter().position(|alive| *alive) else { return found };
        let mut way = Vec::new();
        let mut met: HashMap<usize, usize> = HashMap::new();
        let mut at = start;
        while !met.contains_key(&at) {
            met.insert(at, way.len());
            way.push(at);
            match deps[at].iter().find(|dep| alive[**dep]) {
                Some(next) => at = *next,
                None => return found,
            }
        }
        let mut round = way.split_off(met[&at]);
        let first = round.iter().enumerate().min_by_key(|(_, task)| **task).map_or(0, |(n, _)| n);
        round.rotate_left(first);
        round.iter().for_each(|task| alive[*task] = false);
        let names = round.iter().chain(round.first());
        found.push(names.map(|task| links[*task].0.clone()).collect());
    }
}

/// Repeatedly removes the tasks that need no remaining task.
fn peel(deps: &[Vec<usize>], alive: &mut [bool]) {
    let mut waiting: Vec<usize> =
        deps.iter().map(|deps| deps.iter().filter(|dep| alive[**dep]).count()).collect();
    let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); deps.len()];
    for (task, needs) in deps.iter().enumerate() {
        needs.iter().for_each(|dep| dependents[*dep].push(task));
    }
    let mut free: Vec<usize> = (0..deps.len()).filter(|task| alive[*task] && waiting[*task] == 0).collect();
    while let Some(task) = free.pop() {
        alive[task] = false;
        for dependent in &dependents[task] {
            waiting[*dependent] = waiting[*dependent].saturating_sub(1);
            if alive[*dependent] && waiting[*dependent] == 0 {
                free.push(*dependent);
            }
        }
    }
}

/// Which tasks wait for which, directly or through others.
pub(crate) struct Order {
    reaches: Vec<Vec<u64>>,
}

impl Order {
    pub(crate) fn new(links: &[Link<'_>]) -> Self {
        let deps = edges(links);
        let words = links.len().div_ceil(64);
        let mut reaches = vec![vec![0u64; words]; links.len()];
        // Dependencies come first, so that their own are already known.
        for task in dependencies_first(&deps) {
            let mut row = std::mem::take(&mut reaches[task]);
            for dep in &deps[task] {
                row[dep / 64] |= 1 << (dep % 64);
                row.iter_mut().zip(&reaches[*dep]).for_each(|(ours, theirs)| *ours |= theirs);
            }
            reaches[task] = row;
        }
        Self { reaches }
    }

    /// Whether one of the two waits for the other.
    pub(crate) fn connects(&self, a: usize, b: usize) -> bool {
        let has = |row: &Vec<u64>, n: usize| row.get(n / 64).is_some_and(|word| word & (1 << (n % 64)) != 0);
        has(&self.reaches[a], b) || has(&self.reaches[b], a)
    }
}

/// All tasks, each after its dependencies as far as cycles allow.
fn dependencies_first(deps: &[Vec<usize>]) -> Vec<usize> {
    let mut done = vec![false; deps.len()];
    let mut open = vec![false; deps.len()];
    let mut order = Vec::with_capacity(deps.len());
    for start in 0..deps.len() {
        let mut stack = vec![(start, 0)];
        while let Some((task, n)) = stack.pop() {
            if done[task] {
                continue;
            }
            open[task] = true;
            match deps[task].get(n) {
                Some(dep) => {
                    stack.push((task, n + 1));
                    if !done[*dep] && !open[*dep] {
                        stack.push((*dep, 0));
                    }
                }
                None => {
                    done[task] = true;
                    order.push(task);
                }
            }
        }
    }
    order
}

/// The tasks in stages that could run together: each after all its dependencies, higher priority first.
///
/// Tasks go into different stages if their writes overlap or if their group is at its limit (one, unless `limits` names
/// it). Tasks in a cycle are in no stage.
pub fn stages(tasks: &[TaskSpec], limits: &BTreeMap<String, u32>) -> Vec<Vec<TaskId>> {
    let names: BTreeSet<&TaskId> = tasks.iter().map(|task| &task.id).collect();
    let mut done: BTreeSet<&TaskId> = BTreeSet::new();
    let mut left: Vec<&TaskSpec> = tasks.iter().collect();
    left.sort_by_key(|task| std::cmp::Reverse(task.priority));
    let mut stages = Vec::new();
    loop {
        let mut stage: Vec<&TaskSpec> = Vec::new();
        let mut in_group: BTreeMap<&str, u32> = BTreeMap::new();
        let mut later = Vec::new();
        for task in left {
            let ready = task.deps.iter().all(|dep| done.contains(dep) || !names.contains(dep));
            let group = task.concurrency_group.as_deref();
            let full = group.is_some_and(|group| {
                in_group.get(group).copied().unwrap_or(0) >= limits.get(group).copied().unwrap_or(1)
            });
            if ready
                && !full
                && stage.iter().all(|other| first_overlap(&task.writes, &other.writes).is_none())
            {
                if let Some(group) = group {
                    *in_group.entry(group).or_default() += 1;
                }
                stage.push(task);
            } else {
                later.push(task);
            }
        }
        if stage.is_empty() {
            return stages;
        }
        done.extend(stage.iter().map(|task| &task.id));
        stages.push(stage.into_iter().map(|task| task.id.clone()).collect());
        left = later;
    }
}

/// Draws the graph: one line per task, below the first of its dependencies, with the others noted.
///
/// `label` gives the text of a line. Tasks in a cycle come last unless another task leads to them.
pub fn render(tasks: &[TaskSpec], label: impl Fn(&TaskId) -> String) -> String {
    let links: Vec<Link<'_>> = tasks.iter().map(|task| (&task.id, task.deps.iter().collect())).collect();
    draw(&links, label)
}

/// The same for whatever depends on each other: each name with those it comes after.
pub(crate) fn draw<N: Eq + Hash + fmt::Display>(
    links: &[(&N, Vec<&N>)],
    label: impl Fn(&N) -> String,
) -> String {
    let deps = edges(links);
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); links.len()];
    for (task, deps) in deps.iter().enumerate() {
        if let Some(parent) = deps.first() {
            children[*parent].push(task);
        }
    }
    let roots = (0..links.len()).filter(|task| deps[*task].is_empty());
    let circular = (0..links.len()).filter(|task| !deps[*task].is_empty());
    let mut drawn = vec![false; links.len()];
    let mut text = String::new();
    for root in roots.chain(circular) {
        // Each entry: the task, the prefix of its line, and its branch sign.
        let mut stack = vec![(root, String::new(), "")];
        while let Some((task, indent, branch)) = stack.pop() {
            if std::mem::replace(&mut drawn[task], true) {
                continue;
            }
            let (name, after) = &links[task];
            text.push_str(&indent);
            text.push_str(branch);
            text.push_str(&plain::spaced(&label(name)));
            let parent =
                if branch.is_empty() { None } else { deps[task].first().map(|parent| links[*parent].0) };
            text.push_str(&further(after, parent));
            text.push('\n');
            let below = match branch {
                "" => indent,
                "└─ " => indent + "   ",
                _ => indent + "│  ",
            };
            let next: Vec<usize> = children[task].iter().copied().filter(|child| !drawn[*child]).collect();
            for (n, child) in next.iter().enumerate().rev() {
                let branch = if n + 1 == next.len() { "└─ " } else { "├─ " };
                stack.push((*child, below.clone(), branch));
            }
        }
    }
    text
}

/// Names the dependencies that the drawing does not show.
fn further<N: Eq + fmt::Display>(after: &[&N], parent: Option<&N>) -> String {
    let names: Vec<String> =
        after.iter().filter(|dep| Some(**dep) != parent).map(ToString::to_string).collect();
    match (names.is_empty(), parent) {
        (true, _) => String::new(),
        (false, None) => format!(" (after {})", names.join(", ")),
        (false, Some(_)) => format!(" (also after {})", names.join(", ")),
    }
}

#[cfg(test)]
mod tests;
