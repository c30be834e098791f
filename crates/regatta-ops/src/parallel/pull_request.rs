//! The state of a task's pull request, from its forge.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use regatta_core::causes::with_causes;
use regatta_core::forge::pull::PullState;
use regatta_engine::environment::Environment;
use regatta_engine::forge::wire::GhWire;
use regatta_engine::forge::{Forge, OfBranch, open_with};

use super::registry::Registry;
use super::{FoundTask, ParallelOptions, Repositories};
use crate::documents::{PullRequestCheck, PullRequestDocument};
use crate::project::Project;
use crate::pulls::record_of;
use crate::refusal::Refusal;
use crate::trust::{Verdict, assess};

/// The result of a lookup.
pub(super) struct Checked {
    branch: String,
    pr: Option<PullRequestDocument>,
    /// Why nothing was found.
    pub(super) error: Option<String>,
}

impl ParallelOptions {
    /// Looks up a task's pull request through the program `gh`, and records its state.
    pub async fn pull_request(&self, task: &str, gh: &str) -> Result<PullRequestCheck, Refusal> {
        let mut registry = Registry::load(self)?;
        let repositories = Repositories::open(&registry, self).await?;
        let found = repositories.find(&registry, task).await?;
        let checked = check(&found, &mut Forges::new(gh)).await?;
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

/// The forges of several repositories, each opened once.
pub(super) struct Forges {
    /// The program that leads to them.
    gh: String,
    known: BTreeMap<String, Result<Arc<dyn Forge>, String>>,
}

impl Forges {
    pub(super) fn new(gh: &str) -> Self {
        Self { gh: gh.to_owned(), known: BTreeMap::new() }
    }

    /// The forge of a task's repository, or why there is none.
    async fn of(&mut self, found: &FoundTask<'_>) -> Result<Arc<dyn Forge>, String> {
        let name = &found.repository.name;
        if !self.known.contains_key(name) {
            let opened = open(&found.repository.project, &self.gh).await;
            self.known.insert(name.clone(), opened);
        }
        self.known[name].clone()
    }
}

async fn open(project: &Project, gh: &str) -> Result<Arc<dyn Forge>, String> {
    let github = &project.config.github;
    let is_trusted =
        matches!(assess(project).await, Ok(verdict) if !matches!(verdict, Verdict::Untrusted(_)));
    if !github.token_command.is_empty() && !is_trusted {
        // It is a program of the repository.
        return Err("`github.token_command` is not trusted yet; `regatta trust` shows it".to_owned());
    }
    let work = project.work().map_err(|refusal| refusal.message)?;
    let environment = Environment::passed_on(std::env::vars_os(), Path::new("/nonexistent"));
    let (repo, github, gh) = (project.repo.clone(), github.clone(), gh.to_owned());
    let opened = tokio::task::spawn_blocking(move || {
        let wire = GhWire::new(&environment, &github.token_command, &repo.root).through(&gh);
        open_with(&repo, &work, &github, &environment, Arc::new(wire))
    });
    let forge = opened.await.map_err(|error| error.to_string())?;
    let forge = forge.map_err(|error| format!("{}; {}", with_causes(&error), error.hint()))?;
    Ok(forge)
}

/// Asks for each branch in turn: the one that Regatta pushed, the task's own, the one that its agent made.
pub(super) async fn check(found: &FoundTask<'_>, forges: &mut Forges) -> Result<Checked, Refusal> {
    let id = &found.task.spec.id;
    let proposed = record_of(found.store.as_ref(), id).await?.map(|(record, _)| record.branch);
    let mut branches: Vec<String> = proposed.into_iter().chain([id.branch()]).collect();
    if let Some(lanes) = found.repository.project.lanes()?
        && let Some(lane) = lanes.find(id)?
        && let Ok(Some(own)) = lane.branch()
    {
        branches.extend(own.strip_prefix("refs/heads/").map(str::to_owned));
    }
    branches.dedup();
    let nothing = |error| Checked { branch: id.branch(), pr: None, error };
    let forge = match forges.of(found).await {
        Ok(forge) => forge,
        Err(why) => return Ok(nothing(Some(why))),
    };
    let mut error = None;
    for branch in branches {
        match forge.pull_of(&branch).await {
            Ok(Some(seen)) => {
                let (branch, pr) = (branch, Some(document(&seen)));
                return Ok(Checked { branch, pr, error: None });
            }
            Ok(None) => {}
            Err(why) => error = Some(with_causes(&why)),
        }
    }
    Ok(nothing(error))
}

/// As `gh pr list` prints it.
fn document(seen: &OfBranch) -> PullRequestDocument {
    let state = match seen.pull.state {
        PullState::Open => "OPEN",
        PullState::Closed => "CLOSED",
        PullState::Merged { .. } => "MERGED",
    };
    PullRequestDocument {
        number: Some(seen.pull.number.0),
        state: Some(state.to_owned()),
        merged_at: seen.merged_at.clone(),
        url: Some(seen.pull.url.clone()),
    }
}
