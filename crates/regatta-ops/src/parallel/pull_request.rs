//! The state of a task's pull request, from `gh`.

use std::process::Stdio;
use std::time::Duration;

use regatta_core::plain::clean_line;

use super::registry::Registry;
use super::{FoundTask, ParallelOptions, Repositories};
use crate::documents::{PullRequestCheck, PullRequestDocument};
use crate::refusal::Refusal;

/// Longer than any answer takes.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);

/// The result of a lookup.
pub(super) struct Checked {
    branch: String,
    pr: Option<PullRequestDocument>,
    /// Why nothing was found.
    pub(super) error: Option<String>,
}

impl ParallelOptions {
    /// Looks up a task's pull request with the program `gh`, and records its state.
    pub async fn pull_request(&self, task: &str, gh: &str) -> Result<PullRequestCheck, Refusal> {
        let mut registry = Registry::load(self)?;
        let repositories = Repositories::open(&registry, self).await?;
        let found = repositories.find(&registry, task).await?;
        let checked = check(&found, gh).await?;
        remember(&mut registry, &found, &checked, self).await?;
        let id = &found.task.spec.id;
        Ok(PullRequestCheck {
            branch: checked.branch,
            error: checked.error,
            found: checked.pr.is_some(),
            pr: registry.note(id, &found.repository.name).and_then(|note| note.pr.clone()),
            task_id: id.clone(),
        })
    }
}

/// Records the result. A pull request that is not found now keeps its earlier record.
pub(super) async fn remember(
    registry: &mut Registry,
    found: &FoundTask<'_>,
    checked: &Checked,
    options: &ParallelOptions,
) -> Result<(), Refusal> {
    if checked.pr.is_none() {
        return Ok(());
    }
    let (fresh, lock) = Registry::load_locked(options).await?;
    *registry = fresh;
    registry.note_mut(&found.task.spec.id, &found.repository.name).pr = checked.pr.clone();
    registry.save_state(&lock)
}

/// Asks for each branch in turn.
pub(super) async fn check(found: &FoundTask<'_>, gh: &str) -> Result<Checked, Refusal> {
    let id = &found.task.spec.id;
    let mut branches = vec![id.branch()];
    if let Some(lanes) = found.repository.project.lanes()?
        && let Some(lane) = lanes.find(id)?
        && let Ok(Some(own)) = lane.branch()
    {
        // The agent chose the branch's name; it must not be read as an option.
        branches
            .extend(own.strip_prefix("refs/heads/").map(str::to_owned).filter(|name| !name.starts_with('-')));
    }
    branches.dedup();
    let mut error = None;
    for branch in &branches {
        match ask(found, gh, branch).await {
            Ok(Some(pr)) => return Ok(Checked { branch: branch.clone(), pr: Some(pr), error: None }),
            Ok(None) => {}
            Err(why) => error = Some(why),
        }
    }
    Ok(Checked { branch: id.branch(), pr: None, error })
}

async fn ask(found: &FoundTask<'_>, gh: &str, branch: &str) -> Result<Option<PullRequestDocument>, String> {
    let name = gh;
    let mut command = tokio::process::Command::new(name);
    command.args(["pr", "list", "--head", branch, "--state", "all"]);
    command.args(["--json", "number,state,mergedAt,url", "--limit", "1"]);
    command.current_dir(&found.repository.project.repo.toplevel).stdin(Stdio::null()).kill_on_drop(true);
    let output = match tokio::time::timeout(ANSWER_PATIENCE, command.output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(format!("{name} is not installed, so pull requests cannot be read"));
        }
        Ok(Err(error)) => return Err(format!("starting {name}: {error}")),
        Err(_) => return Err(format!("{name} did not answer within {} s", ANSWER_PATIENCE.as_secs())),
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = clean_line(said.trim().lines().next().unwrap_or_default());
        return Err(format!("{name} failed ({}): {said}", output.status));
    }
    let listed: Result<Vec<PullRequestDocument>, _> = serde_json::from_slice(&output.stdout);
    listed
        .map(|listed| listed.into_iter().next())
        .map_err(|error| format!("{name} gave an unexpected answer: {error}"))
}
