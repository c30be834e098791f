//! GitHub, where work lands by pull requests: `gh`, the login, the repository, its rules, the quota.

use std::path::Path;

use regatta_engine::environment::Environment;
use regatta_engine::forge::report;
use regatta_ops::trust::{Verdict, assess};

use super::Finding;
use crate::project::Project;
use regatta_core::config::Via;

/// Asks GitHub only if work goes there.
pub(super) async fn look(project: &Project) -> Vec<Finding> {
    let config = &project.config;
    if config.land.via != Via::Pr {
        return Vec::new();
    }
    let untrusted = matches!(assess(project).await, Ok(Verdict::Untrusted(_)) | Err(_));
    if untrusted && !config.github.token_command.is_empty() {
        // It is a program of the repository.
        let detail = "not asked: `github.token_command` is not trusted yet";
        return vec![Finding::warning("github", detail).hinted("regatta trust")];
    }
    let (work, target) = match (project.work(), project.target()) {
        (Ok(work), Ok(target)) => (work, target),
        (Err(error), _) | (_, Err(error)) => return vec![Finding::from_error("github", error)],
    };
    let environment = Environment::passed_on(std::env::vars_os(), Path::new("/nonexistent"));
    let rows = report::report(&project.repo, &work, config, &target, &environment).await;
    let finding = |row: report::Row| match (row.good, row.hint) {
        (true, _) => Finding::ok("github", row.detail),
        (false, Some(hint)) => Finding::error("github", row.detail).hinted(hint),
        (false, None) => Finding::error("github", row.detail),
    };
    rows.into_iter().map(finding).collect()
}
