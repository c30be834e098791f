//! The rows of `repos`, and whether each can be opened.

use regatta_core::repos::RepoConfig;
use regatta_core::repos::remote::RemoteAddress;
use regatta_engine::git::Repo;
use regatta_engine::survey::addresses;

use super::several::{ProjectRepos, aside};
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
        let opened = self.open_with_target(row);
        let problem = opened.as_ref().err().map(|refusal| refusal.message.clone());
        let warning = opened.as_ref().ok().and_then(|(project, _)| other_remote(&project.repo, row));
        ProjectRepoDocument {
            name: row.name.clone(),
            path: self.dir(row),
            home: row.is_home(),
            target: opened.ok().map(|(_, target)| target),
            remote: row.remote.clone(),
            depends_on: row.depends_on.clone(),
            wait: row.wait,
            pull: row.pull,
            problem,
            warning,
        }
    }
}

/// A sentence if none of the repository's remotes is the one in the settings.
fn other_remote(repo: &Repo, row: &RepoConfig) -> Option<String> {
    let wanted = row.remote.as_ref()?;
    let found = addresses(repo).ok()?;
    let remotes: Vec<RemoteAddress> = found.iter().filter_map(|(_, url)| RemoteAddress::parse(url)).collect();
    if remotes.iter().any(|remote| remote.is_meant_by(wanted)) {
        return None;
    }
    Some(match remotes.first() {
        Some(first) => format!("its remote is {first}, and `remote` in the settings is {wanted}"),
        None => format!("it has no remote, and `remote` in the settings is {wanted}"),
    })
}
