//! One repository: its git, its lanes, its state directory and the branch that work lands on.
//! A reload keeps it, and opens only what depends on settings again: the trusted git settings and the lanes.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use regatta_core::config::Config;
use regatta_core::id::TaskId;
use regatta_core::repos::RepoName;

use super::settings::pool_options;
use crate::engine::EngineError;
use crate::git::{Repo, TrustSnapshot, Work, replace_link};
use crate::hub::Hub;
use crate::lanes::Lanes;
use crate::notice::{Notice, Notices};
use crate::trust::{self, Purpose, TrustError};

/// A repository that an engine works in.
pub struct Repository {
    /// The repository.
    pub repo: Repo,
    /// Git on content, safe from what agents plant.
    pub work: Work,
    /// The lanes.
    pub lanes: Lanes,
    /// The user's checkout, from which files are brought into lanes.
    pub checkout: PathBuf,
    /// Its name, unless it is the project's own.
    pub name: Option<RepoName>,
    /// Its `.regatta`, with its lanes and git directories.
    pub state_dir: PathBuf,
    /// `.regatta` of the project, with its store, logs and runs.
    pub project_dir: PathBuf,
    /// The branch work lands on.
    pub target: String,
    /// The repository through which machines share work, if there is one.
    pub hub: Option<Hub>,
}

impl Repository {
    /// Opens what an engine needs from `repo`; `shared` if other machines may use its store. Refuses what the user does not trust.
    pub(super) fn open(
        repo: Repo,
        target: String,
        lanes_root: &Path,
        config: &Config,
        purpose: Purpose,
        shared: bool,
        notices: &Notices,
    ) -> Result<Self, EngineError> {
        trust::state_dir::make(&repo)?;
        trust::state_dir::check_lanes_root(lanes_root)?;
        let work = Work::new(&repo, trusted(&repo, purpose, notices)?);
        let lanes = Lanes::new(&repo, &work, lanes_root)?.with_pool(pool_options(config));
        let hub = Hub::find(&repo, &work, config, shared)?;
        if let Some(text) = lanes.follow_project()? {
            notices.tell(Notice::Say(text));
        }
        Ok(Self {
            work,
            lanes,
            checkout: repo.toplevel.clone(),
            name: None,
            state_dir: repo.state_dir.clone(),
            project_dir: repo.state_dir.clone(),
            target,
            hub,
            repo,
        })
    }

    /// The same as one of several repositories of a project.
    pub(super) fn named(self, name: RepoName, project_dir: &Path) -> Self {
        Self { name: Some(name), project_dir: project_dir.to_owned(), ..self }
    }

    /// The name of its train in the store.
    pub fn train(&self) -> String {
        train_of(self.name.as_ref(), &self.target)
    }

    /// The same repository and target under other settings.
    pub(super) fn reopen(
        &self,
        lanes_root: &Path,
        config: &Config,
        purpose: Purpose,
        shared: bool,
        notices: &Notices,
    ) -> Result<Self, EngineError> {
        Self::open(self.repo.clone(), self.target.clone(), lanes_root, config, purpose, shared, notices)
    }

    /// The directory in which agents find this program.
    pub(crate) fn bin(&self) -> PathBuf {
        self.project_dir.join("bin")
    }

    /// Puts a link named `regatta` into `bin`, so that agents find the program that started them: a concurrent lookup
    /// finds the old one or the new one. Rookery's parcels tell their agents to call `rookery`: that must be this
    /// program too, and not one that would take Regatta's store for its own.
    pub(super) fn link_program(&self, exe: &Path) -> Result<(), EngineError> {
        let bin = self.bin();
        for name in ["regatta", "rookery"] {
            let link = bin.join(name);
            if std::fs::read_link(&link).is_ok_and(|target| target == exe) {
                continue;
            }
            std::fs::create_dir_all(&bin).map_err(|source| EngineError::Io {
                doing: "making",
                path: bin.clone(),
                source,
            })?;
            replace_link(&link, exe)?;
        }
        Ok(())
    }

    /// The directory for the records of an attempt's shim.
    pub fn run_dir(&self, task: &TaskId, attempt: u32) -> PathBuf {
        self.project_dir.join("runs").join(task.as_str()).join(attempt.to_string())
    }

    /// The lock of a task's lane, held by the process tree that works on the task. In the git directory, which users do
    /// not delete.
    pub fn hold_of(&self, task: &TaskId) -> PathBuf {
        self.holds().join("lanes").join(format!("{}.hold", task.folded()))
    }

    /// The directory of these locks.
    pub(crate) fn holds(&self) -> PathBuf {
        self.repo.common_dir.join("regatta")
    }

    /// Creates the directory of the locks: a sandbox can only hide what exists.
    pub(crate) fn create_holds(&self) -> Result<(), EngineError> {
        let path = self.holds();
        let created = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
        created.map_err(|source| EngineError::Io { doing: "creating", path, source })
    }
}

/// The name of the train of a repository's target in the store: no branch has a colon in its name.
pub fn train_of(repo: Option<&RepoName>, target: &str) -> String {
    repo.map_or_else(|| target.to_owned(), |name| format!("{name}:{target}"))
}

/// The git settings to use. A run that adopts agents keeps what is trusted, whatever the agents changed.
fn trusted(repo: &Repo, purpose: Purpose, notices: &Notices) -> Result<TrustSnapshot, TrustError> {
    let in_force = trust::git(repo, purpose)?;
    if !in_force.ignored.is_empty() {
        notices.say(format!(
            "warning: git settings or hooks changed since you last trusted them, and are not used: {}; `regatta trust` \
             shows them",
            trust::names(&in_force.ignored)
        ));
    }
    Ok(in_force.snapshot)
}
