//! The records of pull requests in the store, written only by the holder of the role.

use std::collections::BTreeMap;
use std::sync::Arc;

use regatta_core::forge::record::PullRecord;
use regatta_core::id::TaskId;
use regatta_store::{DocumentWrite, Lander, PULL, StoreError};

use super::super::train::LandError;
use crate::clock;
use crate::context::Context;
use crate::persist::until_answered;

/// The records that one round works with.
pub(super) struct Records {
    ctx: Arc<Context>,
    lander: Lander,
    all: BTreeMap<TaskId, PullRecord>,
}

impl Records {
    pub(super) fn new(ctx: &Arc<Context>, lander: &Lander) -> Self {
        Self { ctx: ctx.clone(), lander: lander.clone(), all: BTreeMap::new() }
    }

    /// Reads all of them. One that only a newer version can read is left alone.
    pub(super) async fn load(&mut self) -> Result<(), LandError> {
        let train = self.ctx.repository.train();
        self.all = super::all_records(&self.ctx)
            .await?
            .into_iter()
            .filter(|record| record.train == train)
            .map(|record| (record.task.clone(), record))
            .collect();
        Ok(())
    }

    /// The record of a task.
    pub(super) fn of(&self, task: &TaskId) -> Option<&PullRecord> {
        self.all.get(task)
    }

    /// All records.
    pub(super) fn all(&self) -> impl Iterator<Item = &PullRecord> {
        self.all.values()
    }

    /// Writes a record. A person may have allowed a merge since it was read, and a notification may have changed the
    /// comment: both are kept.
    pub(super) async fn put(&mut self, mut record: PullRecord) -> Result<(), LandError> {
        loop {
            let known =
                until_answered(|| self.ctx.services.store.document(PULL, record.task.as_str())).await?;
            let version = known.as_ref().map_or(0, |known| known.version);
            let stored = known.and_then(|known| serde_json::from_str::<PullRecord>(&known.body).ok());
            if let Some(stored) = &stored
                && record.allowed.is_none()
                && stored.allowed.as_ref().is_some_and(|allowed| Some(&allowed.head) == record.head.as_ref())
            {
                record.allowed.clone_from(&stored.allowed);
            }
            record.comment = stored.as_ref().and_then(|stored| stored.comment.clone());
            if stored.as_ref() == Some(&record) {
                break;
            }
            let body = serde_json::to_string(&record).expect("a record can be written as JSON");
            let write = DocumentWrite {
                lander: Some(self.lander.clone()),
                ..DocumentWrite::new(PULL, record.task.as_str(), body).at_version(version)
            };
            match until_answered(|| self.ctx.services.store.put_document(&write, clock::now())).await {
                Ok(_) => break,
                Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.all.insert(record.task.clone(), record);
        Ok(())
    }
}
