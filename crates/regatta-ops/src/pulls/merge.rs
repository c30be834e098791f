//! A person's word that pull requests may be merged.

use std::collections::BTreeSet;

use regatta_core::event::EventBody;
use regatta_core::forge::pull::{Column, MergeWhen};
use regatta_core::forge::record::{Allowed, OpenedPull, PullEnd, PullRecord};
use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::state::{StateName, TaskState};
use regatta_core::train::{HeldBy, Strategy};
use regatta_engine::clock;
use regatta_store::{RequestId, TaskQuery, TaskRecord};

use super::{change, no_pull, record_of, records};
use crate::documents::{MergeDocument, MergesDocument, RefusedDocument};
use crate::operator::{Operator, dependencies_first};
use crate::refusal::Refusal;

/// A request to allow merges.
#[derive(Clone, Debug, Default)]
pub struct MergeRequest {
    /// The tasks; none for all whose pull requests wait for a review or for a person's word.
    pub tasks: Vec<String>,
    /// Tasks that go first, in this order.
    pub order: Vec<String>,
    /// Only pull requests of this repository: its name in the project, or `owner/name`.
    pub repo: Option<String>,
    /// How to merge, if not as configured.
    pub method: Option<Strategy>,
}

/// A pull request that may be merged.
#[derive(Clone, Debug)]
pub struct Merge {
    /// The task.
    pub task: TaskRecord,
    /// The pull request.
    pub pull: OpenedPull,
    /// The commit at which it may be merged.
    pub head: Oid,
    /// How, if not as configured.
    pub method: Option<Strategy>,
}

/// What may be merged and what may not.
#[derive(Debug, Default)]
pub struct Merges {
    /// In order.
    pub merges: Vec<Merge>,
    /// With the reason.
    pub refused: Vec<(TaskId, Refusal)>,
}

impl Merges {
    /// The results as a document.
    pub fn document(&self, dry_run: bool) -> MergesDocument {
        let merge = |merge: &Merge| MergeDocument {
            commit: match &merge.task.state {
                TaskState::Landed { commit, .. } => Some(commit.clone()),
                _ => None,
            },
            head: merge.head.clone(),
            id: merge.task.spec.id.clone(),
            method: merge.method,
            number: merge.pull.number.0,
            state: merge.task.state.name(),
            url: merge.pull.url.clone(),
            waiting: merge.task.state.reason(),
        };
        MergesDocument {
            dry_run,
            merges: self.merges.iter().map(merge).collect(),
            refused: self.refused.iter().map(|(id, refusal)| RefusedDocument::of(id, refusal)).collect(),
        }
    }
}

impl Operator {
    /// The tasks that a request is about, in the order of their merges.
    pub async fn to_merge(&self, request: &MergeRequest) -> Result<Vec<TaskId>, Refusal> {
        if let Some(repo) = &request.repo {
            self.require_repository(repo).await?;
        }
        let first = self.find(&request.order).await?;
        let mut others = if request.tasks.is_empty() {
            let query = TaskQuery { states: vec![StateName::Landing], ..TaskQuery::default() };
            let mut landing = self.store.tasks(&query).await?;
            landing.retain(|task| {
                let held = |by| matches!(by, HeldBy::Ready | HeldBy::Review);
                matches!(&task.state, TaskState::Landing { held_by, .. } if held(*held_by))
            });
            // With an order and no other tasks, only those of the order are meant.
            if first.is_empty() { landing } else { Vec::new() }
        } else {
            self.find(&request.tasks).await?
        };
        let named: BTreeSet<u64> = first.iter().map(|task| task.seq).collect();
        others.retain(|task| !named.contains(&task.seq));
        let mut ids = Vec::new();
        for task in first.into_iter().chain(dependencies_first(others)) {
            if self.is_of(&task, request.repo.as_deref()).await? {
                ids.push(task.spec.id);
            }
        }
        Ok(ids)
    }

    /// Refuses a name that no repository of the project has, here or on the forge.
    async fn require_repository(&self, name: &str) -> Result<(), Refusal> {
        let here = self.project.config.repos.iter().map(|repo| repo.name.to_string());
        let there = records(self.store.as_ref()).await?.into_iter().map(|record| record.repo.to_string());
        let known: BTreeSet<String> = here.chain(there).collect();
        if known.iter().any(|one| one.eq_ignore_ascii_case(name)) {
            return Ok(());
        }
        let hint = if known.is_empty() {
            "no pull request was opened yet".to_owned()
        } else {
            format!("known are: {}", Vec::from_iter(known).join(", "))
        };
        Err(Refusal::not_found(format!("the project has no repository {name:?}")).hinted(hint))
    }

    /// Whether a task's pull request is in this repository.
    async fn is_of(&self, task: &TaskRecord, repo: Option<&str>) -> Result<bool, Refusal> {
        let Some(repo) = repo else { return Ok(true) };
        let home = self.project.config.home_repo().map(|home| &home.name);
        if task.spec.repo.as_ref().or(home).is_some_and(|name| name.as_str() == repo) {
            return Ok(true);
        }
        let record = record_of(self.store.as_ref(), &task.spec.id).await?;
        Ok(record.is_some_and(|(record, _)| record.repo.to_string().eq_ignore_ascii_case(repo)))
    }

    /// What `allow` would do, without doing it.
    pub async fn may_merge(&self, id: &TaskId, method: Option<Strategy>) -> Result<Merge, Refusal> {
        let task = self.mergeable(id).await?;
        let Some((record, _)) = record_of(self.store.as_ref(), id).await? else { return Err(no_pull(id)) };
        let (pull, head) = self.check(&task, &record)?;
        Ok(Merge { task, pull, head, method })
    }

    /// Records that a pull request may be merged at its present commit. A daemon, a run or [`Operator::drive`] merges
    /// it.
    pub async fn allow_merge(&self, id: &TaskId, method: Option<Strategy>) -> Result<Merge, Refusal> {
        let task = self.mergeable(id).await?;
        let allowed = change(self.store.as_ref(), id, |record| {
            let (pull, head) = self.check(&task, record)?;
            record.allowed = Some(Allowed { by: self.by.clone(), head: head.clone(), method });
            Ok((pull, head))
        });
        let Some((pull, head)) = allowed.await? else { return Err(no_pull(id)) };
        let event =
            EventBody::MergeAllowed { by: self.by.clone(), number: pull.number.0, head: head.clone() };
        self.store.append(Some(id), None, &event, &RequestId::fresh(), clock::now()).await?;
        Ok(Merge { task, pull, head, method })
    }

    /// The merge of a pull request that is over, if its task has landed.
    pub async fn merged(&self, id: &TaskId) -> Result<Option<Merge>, Refusal> {
        let task = self.store.task(id).await?;
        let record = record_of(self.store.as_ref(), id).await?.map(|(record, _)| record);
        Ok(match (&task.state, record) {
            (
                TaskState::Landed { .. },
                Some(PullRecord { end: Some(PullEnd::Merged { head, .. }), pull: Some(pull), .. }),
            ) => Some(Merge { task, pull, head, method: None }),
            _ => None,
        })
    }

    /// The task, if its pull request may be open.
    pub async fn mergeable(&self, id: &TaskId) -> Result<TaskRecord, Refusal> {
        let task = self.store.task(id).await?;
        match record_of(self.store.as_ref(), id).await? {
            None => return Err(no_pull(id)),
            Some((PullRecord { end: Some(PullEnd::Merged { .. }), pull: Some(pull), .. }, _)) => {
                return Err(Refusal::refused(format!("{id}: {} is merged already", pull.number)).about(&task));
            }
            Some(_) => {}
        }
        if !matches!(task.state, TaskState::Landing { .. }) {
            let message = format!("{id} is {}, so its pull request is not merged", task.state.name());
            return Err(Refusal::refused(message)
                .about(&task)
                .hinted(format!("`regatta pr show {id}` shows what it waits for")));
        }
        Ok(task)
    }

    /// Whether a pull request may be merged, as far as the last look knows. The next one decides.
    fn check(&self, task: &TaskRecord, record: &PullRecord) -> Result<(OpenedPull, Oid), Refusal> {
        let id = &task.spec.id;
        let refused = |message: String| Refusal::refused(message).about(task);
        let (Some(pull), Some(head), true) = (&record.pull, &record.head, record.is_open()) else {
            return Err(refused(format!("{id} has no open pull request"))
                .hinted(format!("`regatta pr {id}` proposes its work")));
        };
        let project = self.project.of_task(&task.spec)?;
        if project.config.land.pr.merge == MergeWhen::Never {
            return Err(refused(format!(
                "{id}: land.pr.merge is never, so Regatta does not merge {}",
                pull.number
            ))
            .hinted(format!("merge it there: {}", pull.url)));
        }
        // A failed check that does not count leaves it in review.
        let stands = |column| matches!(column, Column::Working | Column::NeedsYou);
        if let Some(shown) = record.shown.as_ref().filter(|shown| stands(shown.column)) {
            let why = match (shown.checks.1, shown.conflicts) {
                (0, Some(true)) => Some("it has a conflict"),
                (0, _) => None,
                _ => Some("its checks failed"),
            };
            if let Some(why) = why {
                return Err(refused(format!("{id} is not merged, because {why}: {}", shown.line)).hinted(
                    format!("`regatta pr show {id}` shows it; `regatta send {id} TEXT` asks its agent"),
                ));
            }
        }
        Ok((pull.clone(), head.clone()))
    }
}
