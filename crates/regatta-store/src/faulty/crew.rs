//! The crew's part of the contract behind a bad network.

use std::time::Duration;

use async_trait::async_trait;
use regatta_core::crew::MemberName;
use regatta_core::time::Timestamp;

use super::Faulty;
use crate::crew::{
    ContextEntry, ContextQuery, ContextWrite, Crew, InboxQuery, Mark, Member, Message, NewMember, NewMessage,
    Posted,
};
use crate::{Claim, ClaimRequest, Lander, RequestId, Result, Store, StoreError};

#[async_trait]
impl<S: Store> Crew for Faulty<S> {
    async fn register(&self, member: &NewMember, at: Timestamp) -> Result<()> {
        lossy!(self, self.inner.register(member, at))
    }

    async fn members(&self) -> Result<Vec<Member>> {
        lossy!(self, self.inner.members())
    }

    async fn holder(&self, role: &str) -> Result<Option<Lander>> {
        lossy!(self, self.inner.holder(role))
    }

    async fn take_up(&self, claim: &ClaimRequest, at: Timestamp) -> Result<Option<Claim>> {
        lossy!(self, self.inner.take_up(claim, at))
    }

    async fn post(&self, message: &NewMessage, request: &RequestId, at: Timestamp) -> Result<Posted> {
        lossy!(self, self.inner.post(message, request, at))
    }

    async fn inbox(&self, name: &MemberName, query: &InboxQuery) -> Result<Vec<Message>> {
        lossy!(self, self.inner.inbox(name, query))
    }

    async fn correspondence(&self, after: u64, limit: usize) -> Result<Vec<Message>> {
        lossy!(self, self.inner.correspondence(after, limit))
    }

    async fn mark(&self, name: &MemberName, messages: &[u64], mark: Mark, at: Timestamp) -> Result<()> {
        lossy!(self, self.inner.mark(name, messages, mark, at))
    }

    async fn set_context(&self, write: &ContextWrite, request: &RequestId, at: Timestamp) -> Result<u64> {
        lossy!(self, self.inner.set_context(write, request, at))
    }

    async fn context(&self, key: &str) -> Result<Option<ContextEntry>> {
        lossy!(self, self.inner.context(key))
    }

    async fn contexts(&self, query: &ContextQuery) -> Result<Vec<ContextEntry>> {
        lossy!(self, self.inner.contexts(query))
    }
}
