//! Pull requests of tasks, from the records that their landing keeps: shown, proposed by hand, allowed, cleaned up after.

mod cleanup;
mod merge;
mod propose;
mod proposed;

pub use merge::{Merge, MergeRequest, Merges};
pub use propose::ProposeRequest;
pub use proposed::{OpenPull, Proposed};

use regatta_core::forge::board::{Standing, column_of};
use regatta_core::forge::record::{PullEnd, PullRecord};
use regatta_core::id::TaskId;
use regatta_core::state::TaskState;
use regatta_engine::clock;
use regatta_store::{DocumentWrite, PULL, Store, StoreError};

use crate::documents::{ChecksDocument, PullDocument};
use crate::look::review::is_judged;
use crate::operator::Operator;
use crate::project::find_task;
use crate::refusal::Refusal;

/// A record, and the version at which it was read.
type Versioned = (PullRecord, u64);

/// The record of a task's pull request.
pub(crate) async fn record_of(store: &dyn Store, task: &TaskId) -> Result<Option<Versioned>, Refusal> {
    let Some(found) = store.document(PULL, task.as_str()).await? else { return Ok(None) };
    match serde_json::from_str(&found.body) {
        Ok(record) => Ok(Some((record, found.version))),
        Err(_) => Err(Refusal::refused(format!(
            "{task}: only a newer version of Regatta can read the record of its pull request"
        ))),
    }
}

/// All records that this version can read, by task.
pub(crate) async fn records(store: &dyn Store) -> Result<Vec<PullRecord>, Refusal> {
    let found = store.documents(PULL, "").await?;
    Ok(found.iter().filter_map(|found| serde_json::from_str(&found.body).ok()).collect())
}

/// Changes a record as it is when it is written; an engine may write it at the same time.
async fn change<T>(
    store: &dyn Store,
    task: &TaskId,
    change: impl Fn(&mut PullRecord) -> Result<T, Refusal>,
) -> Result<Option<T>, Refusal> {
    loop {
        let Some((mut record, version)) = record_of(store, task).await? else { return Ok(None) };
        let before = record.clone();
        let changed = change(&mut record)?;
        if record == before {
            return Ok(Some(changed));
        }
        let body = serde_json::to_string(&record).expect("a record can be written as JSON");
        let write = DocumentWrite::new(PULL, task.as_str(), body).at_version(version);
        match store.put_document(&write, clock::now()).await {
            Ok(_) => return Ok(Some(changed)),
            Err(StoreError::Conflict(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl Operator {
    /// The pull requests of all tasks by their ids: those that are open or about to be, or `all`.
    pub async fn pulls(&self, all: bool) -> Result<Vec<PullDocument>, Refusal> {
        let mut documents = Vec::new();
        for record in records(self.store.as_ref()).await? {
            if all || record.end.is_none() {
                documents.push(self.pull_document(&record).await?);
            }
        }
        Ok(documents)
    }

    /// The pull request of one task.
    pub async fn pull(&self, name: &str) -> Result<PullDocument, Refusal> {
        let task = find_task(self.store.as_ref(), name).await?;
        match record_of(self.store.as_ref(), &task.spec.id).await? {
            Some((record, _)) => self.pull_document(&record).await,
            None => Err(no_pull(&task.spec.id)),
        }
    }

    async fn pull_document(&self, record: &PullRecord) -> Result<PullDocument, Refusal> {
        let looked = record.shown.as_ref().map(|shown| shown.column);
        let (waiting, column) = match self.store.task(&record.task).await {
            Ok(task) => {
                // Out of the train, the task says who acts next.
                let is_judged = is_judged(task.spec.part.as_ref());
                let standing = Standing { state: &task.state, is_judged, step: None, pull: looked };
                let column = column_of(&standing).or(looked);
                match task.state {
                    TaskState::Landing { waiting, .. } => (waiting, looked),
                    TaskState::Blocked { detail, .. } => (Some(detail), column),
                    _ => (None, column),
                }
            }
            Err(StoreError::NotFound(_)) => (None, looked),
            Err(error) => return Err(error.into()),
        };
        let (state, merged) = match (&record.end, &record.pull) {
            (Some(PullEnd::Merged { commit, .. }), _) => ("merged", Some(commit.clone())),
            (Some(PullEnd::Closed), _) => ("closed", None),
            (None, Some(_)) => ("open", None),
            (None, None) => ("proposing", None),
        };
        let shown = record.shown.as_ref();
        let (passed, failed, pending) = shown.map(|shown| shown.checks).unwrap_or_default();
        let allowed = record.allowed.as_ref().filter(|allowed| Some(&allowed.head) == record.head.as_ref());
        Ok(PullDocument {
            allowed_by: allowed.map(|allowed| allowed.by.clone()),
            base: record.base.clone(),
            branch: record.branch.clone(),
            checks: ChecksDocument { failed, passed, pending },
            column,
            conflicts: shown.and_then(|shown| shown.conflicts),
            draft: record.draft,
            head: record.head.clone(),
            id: record.task.clone(),
            line: shown.map(|shown| shown.line.clone()),
            looked_at: shown.map(|shown| shown.at),
            merged,
            no_review: record.no_review,
            number: record.pull.as_ref().map(|pull| pull.number.0),
            pushed_at: record.pushed_at,
            repo: record.repo.to_string(),
            state,
            url: record.pull.as_ref().map(|pull| pull.url.clone()),
            waiting,
        })
    }
}

fn no_pull(task: &TaskId) -> Refusal {
    Refusal::not_found(format!("{task} has no pull request"))
        .hinted(format!("`regatta pr {task}` proposes its finished work; `regatta pr list` shows all"))
}
