//! How current the repositories are, and pulling them.

use regatta_core::repos::freshness::Freshness;
use regatta_core::repos::{Pull, RepoConfig};
use regatta_engine::git::Repo;
use regatta_engine::trust::Aside;
use regatta_engine::upstream::{Comparison, Pulled, Upstream};

use super::several::{ProjectRepos, aside, some_at_once};
use crate::documents::{PullResult, RepoPulledDocument, RepoStatusDocument};
use crate::project::Project;
use crate::refusal::Refusal;

impl ProjectRepos {
    /// Compares the repositories with these names, or all, with their remotes. With `fetch` their commits are brought
    /// here and counted. Changes no branch.
    pub async fn status(&self, names: &[String], fetch: bool) -> Result<Vec<RepoStatusDocument>, Refusal> {
        let (repos, rows) = (self.clone(), self.rows(names)?);
        Ok(aside(move || some_at_once(rows, |row| repos.compared(&row, fetch))).await)
    }

    /// The same for those whose remote may be asked without a word of the user's: `pull` is `check` or `auto`.
    pub async fn watched_status(&self) -> Vec<RepoStatusDocument> {
        let rows = self.project.config.repos.iter().filter(|row| row.pull != Pull::Never).cloned().collect();
        let repos = self.clone();
        aside(move || some_at_once(rows, |row| repos.compared(&row, false))).await
    }

    /// Brings the targets of the repositories with these names, or of all, to what their remotes have. A branch moves
    /// only forwards, and only if nothing of the user's is in the way.
    pub async fn pull(&self, names: &[String]) -> Result<Vec<RepoPulledDocument>, Refusal> {
        let (repos, rows) = (self.clone(), self.rows(names)?);
        Ok(aside(move || some_at_once(rows, |row| repos.pulled(&row))).await)
    }

    /// Pulls those with `pull: auto`. What is in the way stays: work then starts from what is here, and `repo status`
    /// shows it.
    pub(super) fn pull_automatic(&self) {
        let rows = self.project.config.repos.iter().filter(|row| row.pull == Pull::Auto).collect();
        some_at_once(rows, |row| self.pulled(row));
    }

    fn compared(&self, row: &RepoConfig, fetch: bool) -> RepoStatusDocument {
        let (project, target) = match self.open_with_target(row) {
            Ok(opened) => opened,
            Err(refusal) => {
                let missing = Comparison::without(Freshness::Missing, refusal.message);
                return self.status_document(row, row.target.clone(), None, missing);
            }
        };
        let (compared, dirty) = match look(&project.repo, &target, fetch) {
            Ok(found) => found,
            Err(refusal) => (Comparison::without(Freshness::Unknown, refusal.message), None),
        };
        self.status_document(row, Some(target), dirty, compared)
    }

    fn status_document(
        &self,
        row: &RepoConfig,
        target: Option<String>,
        dirty: Option<bool>,
        compared: Comparison,
    ) -> RepoStatusDocument {
        let Comparison { freshness, remote, here, there, counts, why } = compared;
        RepoStatusDocument {
            name: row.name.clone(),
            path: self.dir(row),
            target,
            state: freshness,
            dirty,
            remote,
            here,
            there,
            behind: counts.map(|(behind, _)| behind),
            ahead: counts.map(|(_, ahead)| ahead),
            why,
        }
    }

    fn pulled(&self, row: &RepoConfig) -> RepoPulledDocument {
        let held = |target: Option<String>, why: String| RepoPulledDocument {
            name: row.name.clone(),
            target,
            result: PullResult::Held,
            from: None,
            to: None,
            kept: Vec::new(),
            why: Some(why),
        };
        let (project, target) = match self.open_with_target(row) {
            Ok(opened) => opened,
            Err(refusal) => return held(row.target.clone(), refusal.message),
        };
        let (compared, pulled) = match pull(&project, &target) {
            Ok(pulled) => pulled,
            Err(refusal) => return held(Some(target), refusal.message),
        };
        let at = held(Some(target), String::new());
        match pulled {
            Pulled::Even => RepoPulledDocument {
                result: PullResult::Even,
                from: compared.here.clone(),
                to: compared.here,
                why: None,
                ..at
            },
            Pulled::Moved { from, to, kept } => RepoPulledDocument {
                result: PullResult::Moved,
                from: Some(from),
                to: Some(to),
                kept,
                why: None,
                ..at
            },
            Pulled::Held { why } => {
                RepoPulledDocument { from: compared.here.clone(), to: compared.here, why: Some(why), ..at }
            }
        }
    }
}

/// Compares without creating anything in the repository, and looks for uncommitted changes.
fn look(repo: &Repo, target: &str, fetch: bool) -> Result<(Comparison, Option<bool>), Refusal> {
    let beside = Aside::of(repo)?;
    let work = beside.work()?;
    let compared = Upstream { repo, work: &work, target }.compare(fetch)?;
    let dirty = work.is_dirty(&repo.toplevel).ok();
    Ok((compared, dirty))
}

fn pull(project: &Project, target: &str) -> Result<(Comparison, Pulled), Refusal> {
    let work = project.work()?;
    Ok(Upstream { repo: &project.repo, work: &work, target }.pull()?)
}
