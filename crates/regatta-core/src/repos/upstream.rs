//! Which task in a repository holds back tasks of those that build on it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Graph, RepoConfig, RepoName, Wait};
use crate::id::TaskId;
use crate::spec::TaskSpec;
use crate::state::StateName;

/// A task that is not settled.
#[derive(Clone, Debug)]
pub struct OpenTask {
    /// The repository it works in; `None` for the project's own.
    pub repo: Option<RepoName>,
    /// Its state.
    pub state: StateName,
    /// Everything it depends on.
    pub deps: Vec<TaskId>,
    /// What it still waits for.
    pub waiting_on: Vec<TaskId>,
}

/// The task that `spec` waits for, and the repository of that task. A task that waits for `spec`, or for something that
/// cannot move, holds nothing back.
pub fn upstream<'a>(
    repos: &'a [RepoConfig],
    graph: &Graph,
    spec: &TaskSpec,
    open: &'a BTreeMap<TaskId, OpenTask>,
) -> Option<(&'a RepoName, &'a TaskId)> {
    let is_own = |row: &&RepoConfig| match &spec.repo {
        Some(name) => row.name == *name,
        None => row.is_home(),
    };
    let own = repos.iter().find(is_own).filter(|row| row.wait != Wait::Never)?;
    let below = graph.below(&own.name);
    open.iter().find_map(|(id, task)| {
        let is_at = |row: &&RepoConfig| match &task.repo {
            Some(name) => row.name == *name,
            None => row.is_home(),
        };
        let row = repos.iter().find(is_at).filter(|row| below.contains(&row.name))?;
        let counts = match own.wait {
            Wait::Working => task.state.is_claimed(),
            _ => task.state.is_busy() || task.state == StateName::Pending,
        };
        let holds = counts
            && *id != spec.id
            && can_move(id, open, &mut BTreeSet::new())
            && !needs(id, &spec.id, open, &mut BTreeSet::new());
        holds.then_some((&row.name, id))
    })
}

fn can_move<'a>(
    id: &'a TaskId,
    open: &'a BTreeMap<TaskId, OpenTask>,
    seen: &mut BTreeSet<&'a TaskId>,
) -> bool {
    let Some(task) = open.get(id) else { return false };
    if task.state != StateName::Pending || !seen.insert(id) {
        return true;
    }
    task.waiting_on.iter().all(|dep| can_move(dep, open, seen))
}

/// Whether a task depends on another, directly or through others.
fn needs<'a>(
    id: &'a TaskId,
    other: &TaskId,
    open: &'a BTreeMap<TaskId, OpenTask>,
    seen: &mut BTreeSet<&'a TaskId>,
) -> bool {
    let Some(task) = open.get(id).filter(|_| seen.insert(id)) else { return false };
    task.deps.iter().any(|dep| dep == other || needs(dep, other, open, seen))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn id(text: &str) -> TaskId {
        TaskId::parse(text).unwrap()
    }

    fn open(tasks: &[(&str, &str, StateName, &[&str])]) -> BTreeMap<TaskId, OpenTask> {
        let made = tasks.iter().map(|(task, repo, state, deps)| {
            let deps: Vec<TaskId> = deps.iter().map(|dep| id(dep)).collect();
            let repo = RepoName::parse(repo).ok();
            (id(task), OpenTask { repo, state: *state, waiting_on: deps.clone(), deps })
        });
        made.collect()
    }

    #[test]
    fn downstream_waits_for_upstream_as_configured() {
        let held = |wait: &str, tasks: &[(&str, &str, StateName, &[&str])]| {
            let yaml =
                format!("repos: [{{ name: lib }}, {{ name: web, depends_on: [lib], wait: {wait} }}]\n");
            let (config, _) = parse("regatta.yaml", &yaml);
            let mut spec = TaskSpec::plain(id("w"), "sim", "x");
            spec.repo = RepoName::parse("web").ok();
            let (graph, open) = (Graph::declared(&config.repos), open(tasks));
            upstream(&config.repos, &graph, &spec, &open).map(|(repo, task)| format!("{task} in {repo}"))
        };
        let running = [("l", "lib", StateName::Running, &[][..])];
        let queued = [("l", "lib", StateName::Pending, &[][..])];
        assert_eq!(held("working", &running).as_deref(), Some("l in lib"));
        assert_eq!(held("working", &queued), None);
        assert_eq!(held("landed", &queued).as_deref(), Some("l in lib"));
        assert_eq!(held("never", &running), None);
        assert_eq!(held("landed", &[("o", "web", StateName::Running, &[])]), None, "not upstream");
        assert_eq!(
            held("landed", &[("l", "lib", StateName::Pending, &["w"])]),
            None,
            "it waits for this one"
        );
        assert_eq!(held("landed", &[("l", "lib", StateName::Pending, &["gone"])]), None, "it cannot move");
        assert_eq!(held("landed", &[("l", "lib", StateName::Blocked, &[])]), None);
    }
}
