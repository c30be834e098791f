//! The repositories in `repos` of the settings: listed, added, found, compared with their remotes, pulled, and how they
//! depend on each other.

mod add;
mod discover;
mod freshness;
mod graph;
mod list;

pub use add::{AddRepoRequest, ImportRequest};
pub use discover::DiscoverRequest;

use std::path::PathBuf;
use std::sync::Mutex;

use regatta_core::repos::RepoConfig;
use regatta_engine::git::Repo;

use crate::project::{Project, expand_home, normal};
use crate::refusal::{Refusal, RefusalKind};

/// How many remotes are asked at the same time.
const AT_ONCE: usize = 4;

/// A project that has several repositories.
#[derive(Clone)]
pub struct ProjectRepos {
    project: Project,
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
    fn rows(&self, names: &[String]) -> Result<Vec<RepoConfig>, Refusal> {
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
                    let why = config.repo_named(name).err();
                    let (message, hint) = why.unwrap_or_default();
                    return Err(Refusal::not_found(message).hinted(hint));
                }
            }
        }
        Ok(rows)
    }

    /// The directory of a row.
    fn dir(&self, row: &RepoConfig) -> PathBuf {
        let anchor = self.project.config_file.as_deref().and_then(|file| file.parent());
        let anchor = anchor.filter(|dir| dir.is_absolute()).unwrap_or(&self.project.repo.toplevel);
        let dir = normal(&anchor.join(expand_home(&row.path)));
        dir.canonicalize().unwrap_or(dir)
    }

    /// The project as the tasks of a row see it: its repository, with the row's settings.
    fn open(&self, row: &RepoConfig) -> Result<Project, Refusal> {
        if row.is_home() {
            let config = self.project.config.of_repo(None);
            return Ok(Project { config, ..self.project.clone() });
        }
        let dir = self.dir(row);
        if !dir.is_dir() {
            return Err(Refusal::not_found(format!("{}: there is no directory {}", row.name, dir.display()))
                .hinted(format!("clone it there, or correct `path` of {} in regatta.yaml", row.name)));
        }
        let repo = Repo::discover(&dir, None)?;
        if repo.toplevel.canonicalize().ok().as_ref() != Some(&dir) {
            let message = format!(
                "{}: {} is inside the repository {}",
                row.name,
                dir.display(),
                repo.toplevel.display()
            );
            return Err(Refusal::new(RefusalKind::Git, message)
                .hinted("`path` names the top directory of a checkout"));
        }
        Ok(Project { repo, config: self.project.config.of_repo(Some(&row.name)), ..self.project.clone() })
    }
}

/// Applies `act` to all items, some at a time; the results are in the order of the items.
fn some_at_once<T: Send, R: Send>(items: Vec<T>, act: impl Fn(T) -> R + Sync) -> Vec<R> {
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
async fn aside<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
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
