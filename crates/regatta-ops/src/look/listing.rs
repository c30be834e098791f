//! The list of tasks: page by page, how many it leaves out, and again after every change.

use std::time::Duration;

use regatta_core::state::StateName;
use regatta_store::{Store, TaskQuery};

use super::tasks::Listed;
use crate::changes::StoreChanges;
use crate::documents::TaskDocument;
use crate::project::Project;
use crate::refusal::Refusal;

/// Passes all tasks of a query to `each`, page by page: the first comes while the rest is read. A list by review has
/// only those that have a column.
pub async fn each_page(
    project: &Project,
    store: &dyn Store,
    (query, by_review): (&TaskQuery, bool),
    mut each: impl FnMut(&[TaskDocument]),
) -> Result<(), Refusal> {
    let mut pages = store.brief_pages(query).await?;
    let mut seen = Listed::beside(store, project, query).await?;
    if by_review {
        seen = seen.by_review(store, project).await?;
    }
    while let Some(page) = pages.recv().await {
        let page = page?;
        seen.read_page(store, &page).await?;
        let documents = page.into_iter().map(|task| seen.document(task));
        let documents: Vec<TaskDocument> =
            documents.filter(|task| !by_review || task.column.is_some()).collect();
        each(&documents);
    }
    Ok(())
}

/// The tasks that a limited list leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// How many are left out.
    pub n: u64,
    /// How many tasks are in each state, those of the list among them.
    pub counts: Vec<(StateName, u64)>,
}

/// The tasks that a list of `n_listed` leaves out because of the query's limit; `None` if it has all.
pub async fn left_out(
    store: &dyn Store,
    query: &TaskQuery,
    n_listed: usize,
) -> Result<Option<LeftOut>, Refusal> {
    if query.limit == 0 || n_listed < query.limit {
        return Ok(None);
    }
    let mut counts = store.counts(None).await?;
    counts.retain(|(name, _)| query.states.is_empty() || query.states.contains(name));
    let total: u64 = counts.iter().map(|(_, n)| n).sum();
    let n = total.saturating_sub(n_listed as u64);
    Ok((n > 0).then_some(LeftOut { n, counts }))
}

/// Follows a list of tasks.
pub struct ListWatch<'a> {
    project: &'a Project,
    store: &'a dyn Store,
    query: &'a TaskQuery,
    by_review: bool,
    changes: StoreChanges,
    is_first: bool,
    documents: Option<Vec<TaskDocument>>,
}

impl<'a> ListWatch<'a> {
    /// Follows the tasks that the query finds, perhaps by review.
    pub async fn new(
        project: &'a Project,
        store: &'a dyn Store,
        (query, by_review): (&'a TaskQuery, bool),
    ) -> Result<Self, Refusal> {
        let changes = StoreChanges::of(store).await?;
        Ok(Self { project, store, query, by_review, changes, is_first: true, documents: None })
    }

    /// At first the list as it is; then waits until it differs.
    pub async fn next(&mut self) -> Result<(Listed, &[TaskDocument]), Refusal> {
        loop {
            if !std::mem::take(&mut self.is_first) {
                self.changes.next().await?;
            }
            let seen = self.load().await?;
            let documents = seen.documents();
            if self.documents.as_ref() != Some(&documents) {
                return Ok((seen, self.documents.insert(documents)));
            }
        }
    }

    /// At first the list as it is; then the list after the next change of the store, or after `tick`. It may be the
    /// same.
    pub async fn next_within(&mut self, tick: Duration) -> Result<Listed, Refusal> {
        if !std::mem::take(&mut self.is_first) {
            self.changes.next_within(tick).await?;
        }
        self.load().await
    }

    async fn load(&self) -> Result<Listed, Refusal> {
        let seen = Listed::load(self.store, self.project, self.query).await?;
        if self.by_review { seen.by_review(self.store, self.project).await } else { Ok(seen) }
    }
}
