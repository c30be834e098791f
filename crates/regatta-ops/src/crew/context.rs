//! Shared context: versioned values that all crew members read and write.

use regatta_engine::clock;
use regatta_store::{ContextWrite, LEADER_ROLE, Lander, RequestId, StoreError};

use super::{Crew, Speaker};
use crate::documents::crew::ContextDocument;
use crate::refusal::Refusal;
use crate::secrets::redactor_here;

/// A request to write a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetContextRequest {
    /// The member that writes.
    pub who: Speaker,
    pub key: String,
    pub value: String,
    /// Only if the value has this version; 0 means it must not exist yet.
    pub if_version: Option<u64>,
    /// Only if this is the leader's epoch.
    pub epoch: Option<u64>,
}

/// A request to delete a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteContextRequest {
    /// The member that deletes it.
    pub who: Speaker,
    pub key: String,
    /// Only if the value has this version.
    pub if_version: Option<u64>,
    /// Only if this is the leader's epoch.
    pub epoch: Option<u64>,
}

impl Crew {
    /// Writes a value and returns it. It is stored and readable by everyone, so secrets are masked.
    pub async fn set_context(&self, request: &SetContextRequest) -> Result<ContextDocument, Refusal> {
        let value = redactor_here(&self.project.config).redact(&request.value).into_owned();
        let write = ContextWrite {
            key: request.key.clone(),
            value: Some(value),
            if_version: request.if_version,
            leader: self.as_leader(request.epoch).await?,
            by: request.who.author(self.store()).await?.name.to_string(),
        };
        let written = self.store.set_context(&write, &RequestId::fresh(), clock::now()).await;
        let version = written.map_err(|error| refused(error, &request.key))?;
        let now = self.context(&request.key).await?;
        Ok(ContextDocument { value: write.value, version, ..now })
    }

    /// Deletes a value. The returned document has no value.
    pub async fn delete_context(&self, request: &DeleteContextRequest) -> Result<ContextDocument, Refusal> {
        let entry = self.context(&request.key).await?;
        let write = ContextWrite {
            key: request.key.clone(),
            value: None,
            if_version: Some(request.if_version.unwrap_or(entry.version)),
            leader: self.as_leader(request.epoch).await?,
            by: request.who.author(self.store()).await?.name.to_string(),
        };
        let at = clock::now();
        let written = self.store.set_context(&write, &RequestId::fresh(), at).await;
        let version = written.map_err(|error| refused(error, &request.key))?;
        Ok(ContextDocument { key: write.key, value: None, version, by: write.by, at })
    }

    /// A value that has to exist.
    pub async fn context(&self, key: &str) -> Result<ContextDocument, Refusal> {
        let entry = self.store.context(key).await?.ok_or_else(|| {
            Refusal::not_found(format!("there is no value {key:?}"))
                .hinted("`regatta ctx list` shows all values")
        })?;
        Ok(ContextDocument::from(&entry))
    }

    /// The right to write as the leader of an epoch; `None` if no epoch was given.
    async fn as_leader(&self, epoch: Option<u64>) -> Result<Option<Lander>, Refusal> {
        let Some(epoch) = epoch else { return Ok(None) };
        match self.store.holder(LEADER_ROLE).await? {
            Some(leader) if leader.term == epoch => Ok(Some(leader)),
            Some(leader) => {
                Err(Refusal::refused(format!("the crew is in epoch {} now, not {epoch}", leader.term))
                    .hinted("another member leads: `regatta crew leader` shows who"))
            }
            None => Err(Refusal::refused("the crew has no leader")
                .hinted("`regatta crew register NAME --role leader`")),
        }
    }
}

fn refused(error: StoreError, key: &str) -> Refusal {
    match error {
        StoreError::Conflict(why) => {
            Refusal::refused(why).hinted(format!("read it again: `regatta ctx get {key} --json`"))
        }
        error => error.into(),
    }
}
