//! Simulates lost requests and lost answers.
//!
//! [`Faulty`] wraps a store the way a bad network does: some calls never arrive, some arrive and their answer is lost,
//! and each is repeated with the same arguments until an answer arrives. Behind it, the whole conformance suite must
//! pass unchanged: that is what "repeatable" means.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use regatta_core::attempt::Attempt;
use regatta_core::event::{Event, EventBody};
use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::profiles::Cooling;
use regatta_core::prompt::Prompt;
use regatta_core::state::StateName;
use regatta_core::time::Timestamp;
use regatta_core::train::{Car, LandStep};

use crate::{
    AccountKey, AccountRecord, Beat, Claim, ClaimRequest, Lander, NewPrompt, NewTask, NodeInfo, Operation,
    Ready, ReadyKey, Reported, RequestId, Result, Sent, SessionId, SessionInfo, SpendQuery, Spending, Step,
    Store, StoreError, TaskBrief, TaskQuery, TaskRecord, WorkerReport,
};

/// A store behind a bad network.
pub struct Faulty<S> {
    inner: S,
    percent: u64,
    state: AtomicU64,
    renewals: Mutex<Renewals>,
}

/// How session renewals are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewals {
    /// Like every other call.
    Answered,
    /// Executed, but answered this much later.
    Late(Duration),
    /// Neither executed nor answered.
    Hang,
    /// Refused, as if another process held the store's lock.
    Busy,
}

impl<S: Store> Faulty<S> {
    /// Loses `percent` of all requests and as many of all answers. The same seed loses the same ones.
    pub fn new(inner: S, percent: u64, seed: u64) -> Self {
        Self { inner, percent, state: AtomicU64::new(seed), renewals: Mutex::new(Renewals::Answered) }
    }

    /// Sets how renewals are treated from now on.
    pub fn renewals(&self, fare: Renewals) {
        *self.renewals.lock().unwrap_or_else(PoisonError::into_inner) = fare;
    }

    /// Whether the next message is lost: a step of splitmix64.
    fn loses(&self) -> bool {
        let mut x = self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % 100 < self.percent
    }
}

/// Repeats the call until both its request and its answer have arrived.
macro_rules! lossy {
    ($store:expr, $call:expr) => {
        loop {
            if $store.loses() {
                continue;
            }
            match $call.await {
                _ if $store.loses() => tokio::task::yield_now().await,
                Err(StoreError::Unavailable(_) | StoreError::Busy(_)) => {
                    tokio::time::sleep(Duration::from_millis(10)).await
                }
                answer => break answer,
            }
        }
    };
}

mod crew;

#[async_trait]
impl<S: Store> Store for Faulty<S> {
    fn describe(&self) -> String {
        format!("{} behind a network that loses {} %", self.inner.describe(), self.percent)
    }

    async fn open_session(&self, session: &SessionId, node: &NodeInfo) -> Result<()> {
        lossy!(self, self.inner.open_session(session, node))
    }

    async fn renew(&self, session: &SessionId) -> Result<Beat> {
        let fare = *self.renewals.lock().unwrap_or_else(PoisonError::into_inner);
        match fare {
            Renewals::Answered => {}
            Renewals::Late(late) => tokio::time::sleep(late).await,
            Renewals::Hang => std::future::pending().await,
            Renewals::Busy => return Err(StoreError::Busy("told so".into())),
        }
        lossy!(self, self.inner.renew(session))
    }

    async fn close_session(&self, session: &SessionId, at: Timestamp) -> Result<()> {
        lossy!(self, self.inner.close_session(session, at))
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>> {
        lossy!(self, self.inner.sessions())
    }

    async fn expire_session(
        &self,
        session: &SessionId,
        beat: Beat,
        heir: Option<&SessionId>,
        at: Timestamp,
    ) -> Result<Vec<TaskId>> {
        lossy!(self, self.inner.expire_session(session, beat, heir, at))
    }

    async fn enqueue(&self, tasks: &[NewTask], request: &RequestId, at: Timestamp) -> Result<()> {
        lossy!(self, self.inner.enqueue(tasks, request, at))
    }

    async fn ready(&self, queue: &str, after: Option<&ReadyKey>, limit: usize) -> Result<Vec<Ready>> {
        lossy!(self, self.inner.ready(queue, after, limit))
    }

    async fn timers(&self, queue: &str, limit: usize) -> Result<Vec<(TaskId, Timestamp)>> {
        lossy!(self, self.inner.timers(queue, limit))
    }

    async fn claim(&self, claim: &ClaimRequest, at: Timestamp) -> Result<Option<Claim>> {
        lossy!(self, self.inner.claim(claim, at))
    }

    async fn claims_of(&self, session: &SessionId) -> Result<Vec<Claim>> {
        lossy!(self, self.inner.claims_of(session))
    }

    async fn advance(&self, claim: &Claim, step: &Step, request: &RequestId, at: Timestamp) -> Result<()> {
        lossy!(self, self.inner.advance(claim, step, request, at))
    }

    async fn report(&self, report: &WorkerReport, request: &RequestId, at: Timestamp) -> Result<()> {
        lossy!(self, self.inner.report(report, request, at))
    }

    async fn operate(
        &self,
        task: &TaskId,
        operation: &Operation,
        request: &RequestId,
        at: Timestamp,
    ) -> Result<()> {
        lossy!(self, self.inner.operate(task, operation, request, at))
    }

    async fn send(
        &self,
        task: &TaskId,
        prompt: &NewPrompt,
        request: &RequestId,
        at: Timestamp,
    ) -> Result<Sent> {
        lossy!(self, self.inner.send(task, prompt, request, at))
    }

    async fn prompts(&self, task: &TaskId) -> Result<Vec<Prompt>> {
        lossy!(self, self.inner.prompts(task))
    }

    async fn task(&self, task: &TaskId) -> Result<TaskRecord> {
        lossy!(self, self.inner.task(task))
    }

    async fn tasks(&self, query: &TaskQuery) -> Result<Vec<TaskRecord>> {
        lossy!(self, self.inner.tasks(query))
    }

    async fn briefs(&self, query: &TaskQuery) -> Result<Vec<TaskBrief>> {
        lossy!(self, self.inner.briefs(query))
    }

    async fn brief_pages(
        &self,
        query: &TaskQuery,
    ) -> Result<tokio::sync::mpsc::UnboundedReceiver<Result<Vec<TaskBrief>>>> {
        lossy!(self, self.inner.brief_pages(query))
    }

    async fn counts(&self, queue: Option<&str>) -> Result<Vec<(StateName, u64)>> {
        lossy!(self, self.inner.counts(queue))
    }

    async fn attempts(&self, task: &TaskId) -> Result<Vec<Attempt>> {
        lossy!(self, self.inner.attempts(task))
    }

    async fn reported(&self, task: &TaskId, attempt: u32) -> Result<Reported> {
        lossy!(self, self.inner.reported(task, attempt))
    }

    async fn spending(&self, query: &SpendQuery) -> Result<Vec<Spending>> {
        lossy!(self, self.inner.spending(query))
    }

    async fn append(
        &self,
        task: Option<&TaskId>,
        attempt: Option<u32>,
        body: &EventBody,
        request: &RequestId,
        at: Timestamp,
    ) -> Result<()> {
        lossy!(self, self.inner.append(task, attempt, body, request, at))
    }

    async fn events(&self, after: u64, task: Option<&TaskId>, limit: usize) -> Result<Vec<Event>> {
        lossy!(self, self.inner.events(after, task, limit))
    }

    async fn last_seq(&self) -> Result<u64> {
        lossy!(self, self.inner.last_seq())
    }

    async fn subscribe(&self) -> Result<tokio::sync::watch::Receiver<u64>> {
        lossy!(self, self.inner.subscribe())
    }

    async fn elect(&self, role: &str, session: &SessionId) -> Result<Option<Lander>> {
        lossy!(self, self.inner.elect(role, session))
    }

    async fn resign(&self, lander: &Lander) -> Result<()> {
        lossy!(self, self.inner.resign(lander))
    }

    async fn cars(&self, target: &str) -> Result<Vec<Car>> {
        lossy!(self, self.inner.cars(target))
    }

    async fn land_all(&self, lander: &Lander, steps: &[(TaskId, LandStep)], at: Timestamp) -> Result<()> {
        lossy!(self, self.inner.land_all(lander, steps, at))
    }

    async fn passes(&self, gate: &str) -> Result<Vec<Oid>> {
        lossy!(self, self.inner.passes(gate))
    }

    async fn record_pass(&self, gate: &str, tree: &Oid, at: Timestamp) -> Result<()> {
        lossy!(self, self.inner.record_pass(gate, tree, at))
    }

    async fn accounts(&self) -> Result<Vec<AccountRecord>> {
        lossy!(self, self.inner.accounts())
    }

    async fn take_turn(&self, account: &AccountKey) -> Result<()> {
        lossy!(self, self.inner.take_turn(account))
    }

    async fn cool(&self, account: &AccountKey, cooling: &Cooling) -> Result<()> {
        lossy!(self, self.inner.cool(account, cooling))
    }

    async fn warm(&self, profile: &str) -> Result<()> {
        lossy!(self, self.inner.warm(profile))
    }
}
