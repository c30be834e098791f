//! The repositories of a project that has several: found, checked, and opened as projects of their own that share the
//! store and the settings.

mod add;
mod clone;
mod discover;
mod freshness;
mod graph;
mod list;
mod several;

pub use add::{AddRepoRequest, ImportRequest};
pub use discover::DiscoverRequest;
pub use several::ProjectRepos;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use regatta_core::admission::Limits;
use regatta_core::diagnostic::{Diagnostic, has_errors};
use regatta_core::repos::{DependsOn, Graph, RepoConfig, RepoName};
use regatta_core::spec::TaskSpec;
use regatta_engine::context::{OtherPlace, OtherRepository};
use regatta_engine::daemon::{Presence, presence};
use regatta_engine::git::{GitError, Repo};

use crate::project::{Project, expand_home, normal, shown};
use crate::refusal::{Refusal, RefusalKind};

/// The file with a machine's own paths, below `.regatta`.
pub const PATHS_FILE: &str = "repos.yaml";

impl Project {
    /// Applies `.regatta/repos.yaml` to the settings.
    pub(crate) fn read_repo_paths(&mut self) -> Result<(), Refusal> {
        let path = self.repo.state_dir.join(PATHS_FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(());
            }
            Err(error) => return Err(Refusal::io("reading", &path, &error)),
        };
        let found: Vec<Diagnostic> = self.config.apply_repo_paths(&shown(&path), &text);
        if has_errors(&found) { Err(Refusal::diagnosed(found)) } else { Ok(()) }
    }

    /// The project as seen from the repository of a task: the same store, with that repository's git, lanes, target and
    /// settings.
    pub fn of_task(&self, spec: &TaskSpec) -> Result<Project, Refusal> {
        self.in_repo(spec.repo.as_ref())
    }

    /// The project as seen from one of its repositories; `None` is its own.
    pub fn in_repo(&self, name: Option<&RepoName>) -> Result<Project, Refusal> {
        let Some(name) = name else { return Ok(self.clone()) };
        let Some(row) = self.config.repo(name) else {
            let (message, hint) = match self.config.repo_named(name.as_str()) {
                Ok(_) => (String::new(), String::new()),
                Err(unknown) => unknown,
            };
            return Err(Refusal::not_found(message).hinted(hint));
        };
        if row.is_home() {
            return Ok(self.clone());
        }
        self.open_row(row, Repo::find).map_err(|why| {
            let hint = "correct `path` in regatta.yaml, or name this machine's own in .regatta/repos.yaml";
            Refusal::new(RefusalKind::Git, format!("the repository {name} cannot be used: {why}"))
                .hinted(hint)
        })
    }

    /// The project as seen from each of its repositories that can be used.
    pub fn usable_repos(&self) -> Vec<Project> {
        std::iter::once(self.clone()).chain(self.usable_others().map(|(_, other)| other)).collect()
    }

    /// The same without its own, each with its name.
    pub(crate) fn usable_others(&self) -> impl Iterator<Item = (RepoName, Project)> {
        let open = |row: &RepoConfig| Some((row.name.clone(), self.open_row(row, Repo::find).ok()?));
        self.config.other_repos().filter_map(open)
    }

    fn open_row(
        &self,
        row: &RepoConfig,
        open: impl Fn(&Path) -> Result<Repo, GitError>,
    ) -> Result<Project, String> {
        let path = self.repo_path(row);
        let repo = open_at(&path, open)?;
        if repo.common_dir == self.repo.common_dir {
            return Err(format!(
                "{} is the project's own repository; its path in `repos` is `.`",
                path.display()
            ));
        }
        Ok(Project { repo, config: self.config.of_repo(Some(&row.name)), ..self.clone() })
    }

    /// Where a repository should be.
    pub fn repo_path(&self, row: &RepoConfig) -> PathBuf {
        let dir = self.config_file.as_deref().and_then(Path::parent).filter(|dir| *dir != self.repo.toplevel);
        let dir = dir.map_or_else(|| self.repo.root.clone(), Path::to_owned);
        let dir = std::path::absolute(&dir).unwrap_or(dir);
        normal(&dir.join(expand_home(&row.path)))
    }

    /// Whether this is the view from a repository besides the project's own.
    pub(crate) fn name_in_project(&self) -> Option<&RepoName> {
        let own = |row: &&RepoConfig| !row.is_home() && is_at(&self.repo, &self.repo_path(row));
        self.config.other_repos().find(own).map(|row| &row.name)
    }

    /// The other repositories for an engine, pulled first where `pull` is `auto`. What is wrong with one of them concerns
    /// only its own tasks.
    pub fn others(&self) -> Result<Vec<OtherRepository>, Refusal> {
        if self.config.other_repos().next().is_some() && !self.store_url.starts_with("sqlite:") {
            return Err(Refusal::usage(
                "a project with several repositories cannot use a store that machines share",
            )
            .hinted("remove `store`, or give each repository a project of its own"));
        }
        if let Some(repos) = ProjectRepos::of(self) {
            repos.pull_automatic();
        }
        let mut found: Vec<OtherRepository> = Vec::new();
        for row in self.config.other_repos() {
            let place = self.other(row).and_then(|place| {
                let same = |other: &OtherRepository| match &other.place {
                    Ok(other) => other.repo.common_dir == place.repo.common_dir,
                    Err(_) => false,
                };
                match found.iter().find(|other| same(other)) {
                    Some(other) => {
                        Err(format!("{} is the repository of {}, too", place.repo.root.display(), other.name))
                    }
                    None => Ok(place),
                }
            });
            found.push(OtherRepository { name: row.name.clone(), place });
        }
        Ok(found)
    }

    fn other(&self, row: &RepoConfig) -> Result<OtherPlace, String> {
        let project = self.open_row(row, |path| Repo::discover(path, None))?;
        if let Ok(Presence::Alive(info) | Presence::Stalled(info)) = presence(&project.repo) {
            return Err(format!(
                "a daemon of its own works in {}: process {}",
                project.repo.root.display(),
                info.identity.pid
            ));
        }
        let text = |refusal: Refusal| refusal.message;
        if self.trust_given {
            project.trust_git().map_err(text)?;
        }
        project.make_state_dir().map_err(text)?;
        let target = project.decide_target().map_err(text)?;
        if project.repo.branch_tip(&target).map_err(|error| format!("could not {error}"))?.is_none() {
            return Err(format!("there is no branch {target} to land on in {}", project.repo.root.display()));
        }
        let lanes_root = project.lanes_root();
        Ok(OtherPlace { repo: project.repo, target, lanes_root, config: project.config })
    }

    /// Which repository builds on which: as declared, and with `depends_on: auto` as the manifests show it now.
    pub fn graph(&self) -> Graph {
        let is_auto = |row: &RepoConfig| row.depends_on == DependsOn::Auto;
        match ProjectRepos::of(self).filter(|_| self.config.repos.iter().any(is_auto)) {
            Some(repos) => repos.dependencies().0.in_force(),
            None => Graph::declared(&self.config.repos),
        }
    }

    /// Adds the limits of the repositories.
    pub(crate) fn with_repo_limits(&self, limits: Limits) -> Limits {
        let capped = self.config.repos.iter().filter_map(|row| {
            let name = (!row.is_home()).then(|| row.name.clone());
            Some((name, row.max_workers?))
        });
        Limits { repos: capped.collect(), ..limits }
    }
}

/// The repository whose root is `path`; the error completes a sentence about it.
fn open_at(path: &Path, open: impl Fn(&Path) -> Result<Repo, GitError>) -> Result<Repo, String> {
    if !path.is_dir() {
        return Err(format!("there is no directory {}", path.display()));
    }
    let repo = match open(path) {
        Ok(repo) => repo,
        Err(GitError::NotARepository { .. }) => {
            return Err(format!("{} is not a repository", path.display()));
        }
        Err(error) => return Err(format!("could not {error}")),
    };
    if !is_at(&repo, path) {
        return Err(format!("{} is inside the repository {}", path.display(), repo.root.display()));
    }
    Ok(repo)
}

fn is_at(repo: &Repo, path: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(&repo.toplevel) == real(path)
}
