//! How the repositories depend on each other.

use regatta_core::repos::RepoConfig;
use regatta_core::repos::dependencies::Dependencies;
use regatta_core::repos::detected::{Surveyed, edges};
use regatta_engine::survey::survey;

use super::{ProjectRepos, aside, some_at_once};
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
        let rows = &self.project.config.repos;
        let look = |row: &RepoConfig| {
            let project = self.open(row)?;
            Ok::<Surveyed, Refusal>(survey(&project.repo, row.name.as_str())?)
        };
        let mut problems = Vec::new();
        let mut surveyed = Vec::new();
        for (row, found) in rows.iter().zip(some_at_once(rows.iter().collect(), look)) {
            match found {
                Ok(found) => {
                    let wrong = found.manifests.iter().filter_map(|manifest| manifest.problem.as_ref());
                    problems.extend(wrong.map(|problem| RepoProblemDocument {
                        repo: row.name.clone(),
                        problem: problem.to_string(),
                    }));
                    surveyed.push(found);
                }
                Err(refusal) => {
                    problems.push(RepoProblemDocument { repo: row.name.clone(), problem: refusal.message });
                }
            }
        }
        let dependencies = Dependencies::of(rows, &edges(&surveyed));
        let drawing = dependencies.draw();
        let Dependencies { repos: repositories, all, warnings } = dependencies;
        RepoGraphDocument { edges: all, problems, repositories, warnings, drawing }
    }
}
