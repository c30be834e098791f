//! The repositories of a project with several: whether each can be opened, what their manifests show, how current they
//! are.

use std::collections::BTreeMap;

use regatta_core::repos::RepoName;
use regatta_core::repos::dependencies::Standing;
use regatta_core::repos::freshness::Freshness;
use regatta_ops::documents::TrustItem;
use regatta_ops::repos::ProjectRepos;

use super::Finding;
use crate::project::Project;

const CHECK: &str = "repositories";

pub(super) async fn look(project: &Project) -> Vec<Finding> {
    let Some(repos) = ProjectRepos::of(project) else { return Vec::new() };
    let mut found = Vec::new();
    let listed = match repos.list().await {
        Ok(listed) => listed,
        Err(error) => return vec![Finding::from_error(CHECK, error)],
    };
    for repo in &listed.repositories {
        if let Some(problem) = &repo.problem {
            let hint =
                format!("its tasks wait; correct `path` of {} in regatta.yaml, or clone it there", repo.name);
            found.push(Finding::error(CHECK, format!("{}: {problem}", repo.name)).hinted(hint));
        }
        if let Some(warning) = &repo.warning {
            let hint = format!("correct `remote` of {} in regatta.yaml, or its origin", repo.name);
            found.push(Finding::warning(CHECK, format!("{}: {warning}", repo.name)).hinted(hint));
        }
    }
    match project.trust_items().await {
        Ok(items) => found.extend(untrusted(&items)),
        Err(error) => found.push(Finding::from_error(CHECK, error)),
    }
    match repos.graph().await {
        Ok(graph) => {
            for edge in graph.edges.iter().filter(|edge| edge.standing == Standing::Undeclared) {
                let place = edge.place().unwrap_or_default();
                let detail = format!("{} depends on {} ({place}), which is not declared", edge.from, edge.to);
                let hint = format!("add `{}` to `depends_on` of {} in regatta.yaml", edge.to, edge.from);
                found.push(Finding::warning(CHECK, detail).hinted(hint));
            }
            for warning in graph.warnings {
                found.push(
                    Finding::warning(CHECK, warning)
                        .hinted("declare the dependency that counts in `depends_on`"),
                );
            }
        }
        Err(error) => found.push(Finding::from_error(CHECK, error)),
    }
    for repo in repos.watched_status().await {
        if matches!(repo.state, Freshness::Behind | Freshness::Diverged) {
            let target = repo.target.as_deref().unwrap_or("its target");
            let detail = match repo.state {
                Freshness::Diverged => format!("{}: {target} and its remote have diverged", repo.name),
                _ => format!("{}: {target} is behind its remote", repo.name),
            };
            found.push(Finding::warning(CHECK, detail).hinted(format!("regatta repo pull {}", repo.name)));
        }
    }
    if found.is_empty() {
        let number = listed.repositories.len();
        let number = if number == 1 { "1 repository".to_owned() } else { format!("{number} repositories") };
        found.push(Finding::ok(CHECK, number));
    }
    found
}

/// What the user has not agreed to in the other repositories; the project's own has a row of its own.
fn untrusted(items: &[TrustItem]) -> Vec<Finding> {
    let mut by_repo: BTreeMap<&RepoName, Vec<&str>> = BTreeMap::new();
    for item in items.iter().filter(|item| !item.trusted) {
        if let Some(repo) = &item.repo {
            by_repo.entry(repo).or_default().push(&item.what);
        }
    }
    let finding = |(repo, names): (&RepoName, Vec<&str>)| {
        let names = names.join(", ");
        Finding::warning(CHECK, format!("{repo}: git settings or hooks that you do not trust yet: {names}"))
            .hinted("its tasks wait; `regatta trust` shows them and records that you agree")
    };
    by_repo.into_iter().map(finding).collect()
}
