//! The crew's part of the contract, delegated to the functions that implement it.

use async_trait::async_trait;
use regatta_core::crew::MemberName;
use regatta_core::time::Timestamp;

use super::{SqliteStore, context, members, messages};
use crate::crew::{
    ContextEntry, ContextQuery, ContextWrite, Crew, InboxQuery, Mark, Member, Message, NewMember, NewMessage,
    Posted,
};
use crate::rules;
use crate::{Claim, ClaimRequest, Lander, RequestId, Result};

#[async_trait]
impl Crew for SqliteStore {
    async fn register(&self, member: &NewMember, at: Timestamp) -> Result<()> {
        let member = member.clone();
        self.writer.call(move |tx| tx.carry_out(&rules::members::register(&member, at))).await
    }

    async fn members(&self) -> Result<Vec<Member>> {
        self.readers.call(members::members).await
    }

    async fn holder(&self, role: &str) -> Result<Option<Lander>> {
        let role = role.to_owned();
        self.readers.call(move |db| members::holder(db, &role)).await
    }

    async fn take_up(&self, claim: &ClaimRequest, at: Timestamp) -> Result<Option<Claim>> {
        let claim = claim.clone();
        self.writer.call(move |tx| tx.carry_out(&rules::members::take_up(&claim, at))).await
    }

    async fn post(&self, message: &NewMessage, request: &RequestId, at: Timestamp) -> Result<Posted> {
        let (message, request) = (message.clone(), request.clone());
        self.writer.call(move |tx| tx.carry_out(&rules::messages::post(&message, &request, at))).await
    }

    async fn inbox(&self, name: &MemberName, query: &InboxQuery) -> Result<Vec<Message>> {
        let (name, query) = (name.clone(), query.clone());
        self.readers.call(move |db| messages::inbox(db, &name, &query)).await
    }

    async fn correspondence(&self, after: u64, limit: usize) -> Result<Vec<Message>> {
        self.readers.call(move |db| messages::correspondence(db, after, limit)).await
    }

    async fn mark(&self, name: &MemberName, messages: &[u64], mark: Mark, at: Timestamp) -> Result<()> {
        let (name, ids) = (name.clone(), messages.to_vec());
        self.writer.call(move |tx| tx.carry_out(&rules::messages::mark(&name, &ids, mark, at))).await
    }

    async fn set_context(&self, write: &ContextWrite, request: &RequestId, at: Timestamp) -> Result<u64> {
        let (write, request) = (write.clone(), request.clone());
        self.writer.call(move |tx| tx.carry_out(&rules::context::set(&write, &request, at))).await
    }

    async fn context(&self, key: &str) -> Result<Option<ContextEntry>> {
        let key = key.to_owned();
        self.readers.call(move |db| context::get(db, &key)).await
    }

    async fn contexts(&self, query: &ContextQuery) -> Result<Vec<ContextEntry>> {
        let query = query.clone();
        self.readers.call(move |db| context::list(db, &query)).await
    }
}
