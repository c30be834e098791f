//! How the repositories depend on each other.

use regatta_core::repos::RepoConfig;
use regatta_core::repos::dependencies::Dependencies;
use regatta_core::repos::detected::{Surveyed, edges};
use regatta_engine::survey::survey;

use super::several::{ProjectRepos, aside, some_at_once};
use crate::documents::{RepoGraphDocument, RepoProblemDocument};
use crate::refusal::Refusal;

impl ProjectRepos {
    /// The declared dependencies and those that manifests show. A repository that cannot be opened is a problem among
    /// the results, and the others are compared without it.
    pub async fn graph(&self) -> Result<RepoGraphDocument, Refusal> {
        let repos = self.clone();
        Ok(aside(move || repos.compare_manifests()).await)
    }

    fn compare_manifests(&self) -> RepoGraphDocument {
        let (dependencies, problems) = self.dependencies();
        let drawing = dependencies.draw();
        let Dependencies { repos: repositories, all, warnings } = dependencies;
        RepoGraphDocument { edges: all, problems, repositories, warnings, drawing }
    }

    /// All dependencies, and what could not be read.
    pub(super) fn dependencies(&self) -> (Dependencies, Vec<RepoProblemDocument>) {
        let rows = &self.project.config.repos;
        let look = |row: &RepoConfig| {
            let project = self.open(row)?;
            Ok::<Surveyed, Refusal>(survey(&project.repo, row.name.as_str())?)
        };
        let mut problems = Vec::new();
        let mut surveyed = Vec::new();
        for (row, found) in rows.iter().zip(some_at_once(rows.iter().collect(), look)) {
            let problem = |problem: String| RepoProblemDocument { repo: row.name.clone(), problem };
            match found {
                Ok(found) => {
                    let wrong = found.manifests.iter().filter_map(|manifest| manifest.problem.as_ref());
                    problems.extend(wrong.map(|wrong| problem(wrong.to_string())));
                    surveyed.push(found);
                }
                Err(refusal) => problems.push(problem(refusal.message)),
            }
        }
        (Dependencies::of(rows, &edges(&surveyed)), problems)
    }
}
