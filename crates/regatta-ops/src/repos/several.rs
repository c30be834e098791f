//! What the operations on all repositories of a project have in common.

use std::path::PathBuf;
use std::sync::Mutex;

use regatta_core::repos::RepoConfig;
use regatta_engine::git::Repo;

use crate::project::Project;
use crate::refusal::{Refusal, RefusalKind};

/// How many remotes are asked at the same time.
const AT_ONCE: usize = 4;

/// A project that has several repositories.
#[derive(Clone)]
pub struct ProjectRepos {
    pub(super) project: Project,
}

impl ProjectRepos {
    /// The repositories of a project; `None` if its settings have no `repos`.
    pub fn of(project: &Project) -> Option<Self> {
        (!project.config.repos.is_empty()).then(|| Self { project: project.clone() })
    }

    /// The same; refused without `repos`.
    pub fn require(project: &Project) -> Result<Self, Refusal> {
        Self::of(project).ok_or_else(|| {
            Refusal::not_found("this project has no `repos` in regatta.yaml")
                .hinted("`regatta repo discover` finds repositories; `regatta repo add NAME DIR` adds one")
        })
    }

    /// The rows that `names` mean; all without names.
    pub(super) fn rows(&self, names: &[String]) -> Result<Vec<RepoConfig>, Refusal> {
        let config = &self.project.config;
        if names.is_empty() {
            return Ok(config.repos.clone());
        }
        let mut rows: Vec<RepoConfig> = Vec::new();
        for name in names {
            match config.repos.iter().find(|row| row.name.as_str() == name) {
                Some(row) if rows.iter().any(|one| one.name == row.name) => {}
                Some(row) => rows.push(row.clone()),
                None => {
                    let (message, hint) = config.repo_named(name).err().unwrap_or_default();
                    return Err(Refusal::not_found(message).hinted(hint));
                }
            }
        }
        Ok(rows)
    }

    /// The directory of a row.
    pub(super) fn dir(&self, row: &RepoConfig) -> PathBuf {
        let dir = self.project.repo_path(row);
        dir.canonicalize().unwrap_or(dir)
    }

    /// The project as the tasks of a row see it: its repository, with the row's settings.
    pub(super) fn open(&self, row: &RepoConfig) -> Result<Project, Refusal> {
        if row.is_home() {
            let config = self.project.config.of_repo(None);
            return Ok(Project { config, ..self.project.clone() });
        }
        self.project.open_row(row, |path| Repo::discover(path, None)).map_err(|why| {
            let hint = format!("correct `path` of {} in regatta.yaml, or clone it there", row.name);
            Refusal::new(RefusalKind::Git, why).hinted(hint)
        })
    }

    /// The same, with the branch that its work lands on.
    pub(super) fn open_with_target(&self, row: &RepoConfig) -> Result<(Project, String), Refusal> {
        let project = self.open(row)?;
        let target = project.target()?;
        Ok((project, target))
    }
}

/// Applies `act` to all items, some at a time; the results are in the order of the items.
pub(super) fn some_at_once<T: Send, R: Send>(items: Vec<T>, act: impl Fn(T) -> R + Sync) -> Vec<R> {
    let n_items = items.len();
    let waiting = Mutex::new(items.into_iter().enumerate());
    let next = || waiting.lock().expect("no holder panics").next();
    let done = Mutex::new(Vec::with_capacity(n_items));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(n_items) {
            scope.spawn(|| {
                while let Some((index, item)) = next() {
                    let result = act(item);
                    done.lock().expect("no holder panics").push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no holder panics");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Runs what waits for git or for a remote on a thread of its own.
pub(super) async fn aside<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(act).await.expect("looking at repositories does not panic")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_few_run_at_once() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let results = some_at_once((0..50).collect(), |n: usize| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::yield_now();
            now.fetch_sub(1, Ordering::SeqCst);
            n * 2
        });
        assert_eq!(results, (0..50).map(|n| n * 2).collect::<Vec<_>>());
        assert!(most.into_inner() <= AT_ONCE);
        assert!(some_at_once(Vec::<u8>::new(), |n| n).is_empty());
    }
}
