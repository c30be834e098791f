//! The registered repositories of a project: made, listed, added to.

use std::path::{Path, PathBuf};

use regatta_engine::git::Repo;

use super::ParallelOptions;
use super::registry::{Entry, Registry};
use crate::documents::{RegistryDocument, RepositoriesDocument, RepositoryAdded};
use crate::project::{expand_home, start_dir};
use crate::refusal::{Refusal, RefusalKind};

/// A request to register a repository.
#[derive(Clone, Debug)]
pub struct AddRepositoryRequest {
    /// The name to register it under.
    pub name: String,
    /// The path of its checkout.
    pub path: PathBuf,
    /// The branch that its tasks start from.
    pub default_branch: String,
    /// Kept for parallel-agents; only the default is accepted.
    pub branch_prefix_prd: String,
    /// The same for generic tasks.
    pub branch_prefix_generic: String,
}

impl ParallelOptions {
    /// The registered repositories, and the settings.
    pub fn repositories(&self) -> Result<RepositoriesDocument, Refusal> {
        let registry = Registry::load(self)?;
        let ignored = registry.ignored();
        let Registry { dir: root, config, entries: repositories, .. } = registry;
        Ok(RepositoriesDocument { config, repositories, root, ignored })
    }

    /// Makes a registry in a directory that need not be a repository. Existing files stay. Lists the repositories beside
    /// `beside`.
    pub async fn init(&self, beside: Option<&Path>) -> Result<RegistryDocument, Refusal> {
        let siblings = beside.map(siblings).transpose()?.unwrap_or_default();
        let (mut registry, lock) = Registry::load_locked(self).await?;
        let (config_created, state_created) = (!registry.exists, !registry.has_state);
        if config_created {
            registry.save_config(&lock)?;
        }
        if state_created {
            registry.save_state(&lock)?;
        }
        if let Ok(repo) = Repo::discover(&start_dir(&self.project)?, None) {
            regatta_engine::trust::state_dir::make(&repo)?;
            repo.exclude(&["/.regatta/"])?;
        }
        let Registry { dir: root, config, state, .. } = registry;
        Ok(RegistryDocument { config, config_created, root, siblings, state, state_created })
    }

    /// Registers a repository.
    pub async fn add_repository(&self, request: &AddRepositoryRequest) -> Result<RepositoryAdded, Refusal> {
        let name = request.name.trim();
        if name.is_empty() || name.contains(char::is_control) {
            return Err(Refusal::usage(format!("{:?} is not a valid name for a repository", request.name))
                .hinted("for example the name of its directory"));
        }
        if request.branch_prefix_prd != "prd/" || request.branch_prefix_generic != "task/" {
            return Err(Refusal::usage("the branches of tasks are regatta/ID; you cannot choose the prefix")
                .hinted("remove --branch-prefix-prd and --branch-prefix-generic; push under any name: git push origin regatta/ID:NAME"));
        }
        let Ok(path) = std::fs::canonicalize(expand_home(&request.path.to_string_lossy())) else {
            return Err(Refusal::not_found(format!("Path does not exist: {}", request.path.display()))
                .hinted("--path names the checkout of a repository"));
        };
        let repo = Repo::discover(&path, None).ok().filter(|repo| repo.toplevel == path);
        let Some(repo) = repo else {
            return Err(Refusal::new(RefusalKind::Git, format!("Not a git repo: {}", path.display()))
                .hinted("give the top directory of a checkout, or create one: git init"));
        };
        let branch = &request.default_branch;
        let tip = repo.branch_tip(branch).map_err(|_| no_branch(branch, &path))?;
        if tip.is_none() {
            return Err(no_branch(branch, &path));
        }
        let (mut registry, lock) = Registry::load_locked(self).await?;
        for entry in &registry.entries {
            if entry.name == name {
                return Err(Refusal::refused(format!("Repository '{name}' already registered"))
                    .hinted(format!("it is {}; choose another name", entry.path.display())));
            }
            if std::fs::canonicalize(&entry.path).is_ok_and(|known| known == path) {
                return Err(Refusal::refused(format!("Path already registered under name '{}'", entry.name))
                    .hinted("`regatta repo list` shows all"));
            }
        }
        let entry = Entry {
            name: name.to_owned(),
            path,
            default_branch: request.default_branch.clone(),
            branch_prefix_prd: request.branch_prefix_prd.clone(),
            branch_prefix_generic: request.branch_prefix_generic.clone(),
        };
        registry.entries.push(entry.clone());
        registry.save_config(&lock)?;
        let excluded = repo.common_dir.join("info/exclude");
        let before = std::fs::read(&excluded).ok();
        regatta_engine::trust::state_dir::make(&repo)?;
        repo.exclude(&["/.regatta/"])?;
        let exclude_updated = std::fs::read(&excluded).ok() != before;
        Ok(RepositoryAdded { added: entry, exclude_updated, root: registry.dir })
    }
}

fn no_branch(branch: &str, path: &std::path::Path) -> Refusal {
    Refusal::new(RefusalKind::Git, format!("{} has no branch {branch:?}", path.display()))
        .hinted("give the branch that work starts from: --default-branch BRANCH; it needs a first commit")
}

/// Directories beside `start` that contain a repository, sorted.
pub fn siblings(start: &Path) -> Result<Vec<std::path::PathBuf>, Refusal> {
    let start = std::fs::canonicalize(start).map_err(|error| Refusal::io("reading", start, &error))?;
    let Some(parent) = start.parent() else { return Ok(Vec::new()) };
    let entries = std::fs::read_dir(parent).map_err(|error| Refusal::io("reading", parent, &error))?;
    let mut found: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir() && path.join(".git").exists())
        .filter(|path| std::fs::canonicalize(path).is_ok_and(|real| real != start))
        .collect();
    found.sort();
    Ok(found)
}
