//! The crew's part of the contract, delegated to the functions that implement it.

use async_trait::async_trait;
use regatta_core::crew::MemberName;
use regatta_core::time::Timestamp;

use super::{PostgresStore, call, context, members, messages};
use crate::crew::{
    ContextEntry, ContextQuery, ContextWrite, Crew, InboxQuery, Mark, Member, Message, NewMember, NewMessage,
    Posted,
};
use crate::rules;
use crate::{Claim, ClaimRequest, Lander, RequestId, Result};

#[async_trait]
impl Crew for PostgresStore {
    async fn register(&self, member: &NewMember, at: Timestamp) -> Result<()> {
        self.write(&rules::members::register(member, at)).await
    }

    async fn members(&self) -> Result<Vec<Member>> {
        call!(self, db => members::members(&db))
    }

    async fn holder(&self, role: &str) -> Result<Option<Lander>> {
        call!(self, db => members::holder(&db, role))
    }

    async fn take_up(&self, claim: &ClaimRequest, at: Timestamp) -> Result<Option<Claim>> {
        self.write(&rules::members::take_up(claim, at)).await
    }

    async fn post(&self, message: &NewMessage, request: &RequestId, at: Timestamp) -> Result<Posted> {
        self.write(&rules::messages::post(message, request, at)).await
    }

    async fn inbox(&self, name: &MemberName, query: &InboxQuery) -> Result<Vec<Message>> {
        call!(self, db => messages::inbox(&db, name, query))
    }

    async fn correspondence(&self, after: u64, limit: usize) -> Result<Vec<Message>> {
        call!(self, db => messages::correspondence(&db, after, limit))
    }

    async fn mark(&self, name: &MemberName, messages: &[u64], mark: Mark, at: Timestamp) -> Result<()> {
        self.write(&rules::messages::mark(name, messages, mark, at)).await
    }

    async fn set_context(&self, write: &ContextWrite, request: &RequestId, at: Timestamp) -> Result<u64> {
        self.write(&rules::context::set(write, request, at)).await
    }

    async fn context(&self, key: &str) -> Result<Option<ContextEntry>> {
        call!(self, db => context::get(&db, key))
    }

    async fn contexts(&self, query: &ContextQuery) -> Result<Vec<ContextEntry>> {
        call!(self, db => context::list(&db, query))
    }
}
