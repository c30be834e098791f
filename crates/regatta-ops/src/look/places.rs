//! The repositories of tasks, for projects that have several.

use std::collections::HashMap;

use regatta_core::id::TaskId;
use regatta_core::repos::RepoName;
use regatta_store::{Store, StoreError, TaskQuery};

use crate::project::Project;

/// The repositories of tasks; nothing is read or shown in a project with one repository.
#[derive(Clone, Debug, Default)]
pub struct Places {
    is_several: bool,
    home: String,
    known: HashMap<TaskId, Option<RepoName>>,
}

impl Places {
    /// Of a project, without any task yet.
    pub fn of(project: &Project) -> Self {
        let home = project.config.repos.iter().find(|row| row.is_home());
        Self {
            is_several: project.config.other_repos().next().is_some(),
            home: home.map(|row| row.name.to_string()).unwrap_or_default(),
            known: HashMap::new(),
        }
    }

    /// Reads the repositories of tasks that are not known yet: a task never changes its repository.
    pub async fn read<'a>(
        &mut self,
        store: &dyn Store,
        tasks: impl IntoIterator<Item = &'a TaskId>,
    ) -> Result<(), StoreError> {
        if !self.is_several {
            return Ok(());
        }
        let new = tasks.into_iter().filter(|task| !self.known.contains_key(*task));
        let new: Vec<TaskId> = new.cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        let found = store.tasks(&TaskQuery { ids: Some(new), ..TaskQuery::default() }).await?;
        self.known.extend(found.into_iter().map(|task| (task.spec.id, task.spec.repo)));
        Ok(())
    }

    /// Whether the project has more than one repository.
    pub fn is_several(&self) -> bool {
        self.is_several
    }

    /// The repository of a task, if it is not the project's own.
    pub fn repo(&self, task: &TaskId) -> Option<&RepoName> {
        self.known.get(task)?.as_ref()
    }

    /// The name to show for a repository: the project's own has one if a row of `repos` names it.
    pub fn shown<'a>(&'a self, repo: Option<&'a RepoName>) -> &'a str {
        repo.map_or(self.home.as_str(), RepoName::as_str)
    }
}
