//! The rows of `repos`, and whether each can be opened.

use regatta_core::repos::RepoConfig;

use super::{ProjectRepos, aside};
use crate::documents::{ProjectRepoDocument, ProjectReposDocument};
use crate::refusal::Refusal;

impl ProjectRepos {
    /// All repositories of the project.
    pub async fn list(&self) -> Result<ProjectReposDocument, Refusal> {
        let repos = self.clone();
        aside(move || {
            let repositories = repos.project.config.repos.iter().map(|row| repos.document(row)).collect();
            Ok(ProjectReposDocument {
                file: repos.project.config_file.clone(),
                repositories,
                root: repos.project.repo.root.clone(),
            })
        })
        .await
    }

    pub(super) fn document(&self, row: &RepoConfig) -> ProjectRepoDocument {
        let target = self.open(row).and_then(|project| project.target());
        let problem = target.as_ref().err().map(|refusal| refusal.message.clone());
        ProjectRepoDocument {
            name: row.name.clone(),
            path: self.dir(row),
            home: row.is_home(),
            target: target.ok(),
            remote: row.remote.clone(),
            depends_on: row.depends_on.clone(),
            wait: row.wait,
            pull: row.pull,
            problem,
        }
    }
}
