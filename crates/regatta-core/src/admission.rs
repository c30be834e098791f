//! What to start now: a function of the running and the ready tasks.
//!
//! Invariants: at most `max_workers` tasks run at once, at most the limit of each group, and never two tasks whose
//! declared writes overlap. A task whose work is not settled yet keeps its places reserved, so that later tasks start
//! from a base that contains its work.

use std::collections::BTreeMap;

use crate::id::TaskId;
use crate::repos::RepoName;
use crate::spec::TaskSpec;
use crate::writes::{WritePath, first_overlap};

/// How much may run at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of running agents.
    pub max_workers: u32,
    /// Limits per group; an unnamed group has a limit of one.
    pub groups: BTreeMap<String, u32>,
    /// Limits of single repositories; `None` is the project's own.
    pub repos: BTreeMap<Option<RepoName>, u32>,
}

impl Limits {
    /// The limit of `group`.
    pub fn of_group(&self, group: &str) -> u32 {
        self.groups.get(group).copied().unwrap_or(1)
    }
}

/// A task that has started and is not settled.
#[derive(Clone, Debug, PartialEq)]
pub struct Active {
    /// The task's id.
    pub task: TaskId,
    /// The places it declares to write.
    pub writes: Vec<WritePath>,
    /// The group it belongs to.
    pub group: Option<String>,
    /// The repository it works in.
    pub repo: Option<RepoName>,
    /// True while its agent, or the judging of its work, occupies a worker; a car in the train does not.
    pub occupies_worker: bool,
}

impl Active {
    /// Takes the relevant part of `spec`.
    pub fn of(spec: &TaskSpec, occupies_worker: bool) -> Self {
        Self {
            task: spec.id.clone(),
            writes: spec.writes.clone(),
            group: spec.concurrency_group.clone(),
            repo: spec.repo.clone(),
            occupies_worker,
        }
    }
}

/// Why a ready task is not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// All workers are busy.
    Workers,
    /// Its group is full.
    Group(String),
    /// As many agents as allowed work in its repository; `None` is the project's own.
    Repo(Option<RepoName>),
    /// It writes to a place that an unsettled task has reserved.
    Writes {
        /// The task that reserved it.
        other: TaskId,
        /// The reserved place.
        path: WritePath,
    },
}

impl std::fmt::Display for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Hold::Workers => f.write_str("`max_workers` agents are running"),
            Hold::Group(group) => write!(f, "group {group} is full"),
            Hold::Repo(Some(name)) => write!(f, "`max_workers` agents are running in {name}"),
            Hold::Repo(None) => {
                f.write_str("`max_workers` agents are running in the project's own repository")
            }
            Hold::Writes { other, path } => write!(f, "{other} writes {path}"),
        }
    }
}

/// What to start, in order, and why the other tasks wait.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Admission {
    /// Tasks to start.
    pub start: Vec<TaskId>,
    /// Tasks not to start, each with the reason.
    pub held: Vec<(TaskId, Hold)>,
}

/// Picks the tasks from `ready`, given in claim order, that may start beside `active`.
pub fn admit<'a>(
    limits: &Limits,
    active: &[Active],
    ready: impl IntoIterator<Item = &'a TaskSpec>,
) -> Admission {
    let mut active = active.to_vec();
    let mut admission = Admission::default();
    for spec in ready {
        match hold(limits, &active, spec) {
            Some(why) => admission.held.push((spec.id.clone(), why)),
            None => {
                admission.start.push(spec.id.clone());
                active.push(Active::of(spec, true));
            }
        }
    }
    admission
}

fn hold(limits: &Limits, active: &[Active], spec: &TaskSpec) -> Option<Hold> {
    // A task never blocks itself: its reservation may have outlived its last attempt.
    let others = || active.iter().filter(|other| other.task != spec.id);
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    if count(others().filter(|other| other.occupies_worker).count()) >= limits.max_workers {
        return Some(Hold::Workers);
    }
    if let Some(group) = &spec.concurrency_group {
        let busy =
            others().filter(|other| other.occupies_worker && other.group.as_ref() == Some(group)).count();
        if count(busy) >= limits.of_group(group) {
            return Some(Hold::Group(group.clone()));
        }
    }
    if let Some(max) = limits.repos.get(&spec.repo) {
        let busy = others().filter(|other| other.occupies_worker && other.repo == spec.repo).count();
        if count(busy) >= *max {
            return Some(Hold::Repo(spec.repo.clone()));
        }
    }
    others().find_map(|other| {
        let (_, theirs) = first_overlap(&spec.writes, &other.writes)?;
        Some(Hold::Writes { other: other.task.clone(), path: theirs.clone() })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spec(id: &str) -> TaskSpec {
        TaskSpec::plain(TaskId::parse(id).unwrap(), "sim", "do it")
    }

    fn limits(max_workers: u32) -> Limits {
        Limits { max_workers, groups: [("db".to_owned(), 2)].into(), ..Limits::default() }
    }

    fn writing(id: &str, paths: &[&str]) -> TaskSpec {
        let mut task = spec(id);
        task.writes = paths.iter().map(|path| WritePath::parse(path).unwrap()).collect();
        task
    }

    #[test]
    fn overlapping_writes_wait_for_each_other_and_the_rest_goes_on() {
        let tasks = [writing("a", &["src/"]), writing("b", &["src/x.rs"]), writing("c", &["docs/*.md"])];
        let admission = admit(&limits(8), &[], &tasks);
        assert_eq!(admission.start.iter().map(TaskId::as_str).collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(admission.held[0].1.to_string(), "a writes src");
    }

    #[test]
    fn a_car_in_the_train_keeps_its_places_but_no_worker() {
        let landing = [Active::of(&writing("a", &["src/"]), false)];
        let tasks = [writing("b", &["src/x.rs"]), writing("c", &[])];
        let admission = admit(&limits(1), &landing, &tasks);
        assert_eq!(admission.start.iter().map(TaskId::as_str).collect::<Vec<_>>(), ["c"]);
    }

    proptest! {
        #[test]
        fn no_limit_is_ever_exceeded(
            max_workers in 1u32..6,
            groups in proptest::collection::vec(0u8..4, 1..24),
            places in proptest::collection::vec(0u8..6, 24),
        ) {
            let tasks: Vec<TaskSpec> = groups.iter().zip(&places).enumerate().map(|(n, (group, place))| {
                let mut task = writing(&format!("t{n}"), &[&format!("dir{place}/")]);
                task.concurrency_group = (*group > 0).then(|| if *group == 1 { "db".into() } else { format!("g{group}") });
                task
            }).collect();
            let limits = limits(max_workers);
            let admission = admit(&limits, &[], &tasks);
            prop_assert!(admission.start.len() <= max_workers as usize);
            prop_assert_eq!(admission.start.len() + admission.held.len(), tasks.len());
            let started: Vec<&TaskSpec> = tasks.iter().filter(|task| admission.start.contains(&task.id)).collect();
            for (n, task) in started.iter().enumerate() {
                for other in &started[n + 1..] {
                    prop_assert!(first_overlap(&task.writes, &other.writes).is_none());
                }
                if let Some(group) = &task.concurrency_group {
                    let same = started.iter().filter(|other| other.concurrency_group.as_ref() == Some(group)).count();
                    prop_assert!(same <= limits.of_group(group) as usize);
                }
            }
        }
    }
}
