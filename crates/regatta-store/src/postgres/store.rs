//! The contract, delegated to the functions that implement it: writes to the rules, reads to a connection.

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

use super::{
    PostgresStore, call, events, profiles, prompts, queue, reads, reports, sessions, spending, train,
};
use crate::rules;
use crate::{
    AccountKey, AccountRecord, Beat, Claim, ClaimRequest, Lander, NewPrompt, NewTask, NodeInfo, Operation,
    Ready, ReadyKey, Reported, RequestId, Result, Sent, ServerTime, SessionId, SessionInfo, SpendQuery,
    Spending, Step, Store, TaskBrief, TaskQuery, TaskRecord, WorkerReport,
};

#[async_trait]
impl Store for PostgresStore {
    fn describe(&self) -> String {
        self.pool.address.shown()
    }

    fn transfer(&self) -> Option<&dyn crate::transfer::Transfer> {
        Some(self)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn known_time(&self) -> Option<ServerTime> {
        self.pool.time.get()
    }

    async fn server_time(&self) -> Result<Option<ServerTime>> {
        match self.known_time() {
            Some(known) => Ok(Some(known)),
            None => call!(self, db => sessions::time(&db)),
        }
    }

    async fn open_session(&self, session: &SessionId, node: &NodeInfo, at: Timestamp) -> Result<()> {
        self.write(&rules::sessions::open(session, node, at)).await
    }

    async fn renew(&self, session: &SessionId) -> Result<Beat> {
        self.write(&rules::sessions::renew(session)).await
    }

    async fn close_session(&self, session: &SessionId, at: Timestamp) -> Result<()> {
        self.write(&rules::sessions::close(session, at)).await
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>> {
        call!(self, db => sessions::list(&db))
    }

    async fn expire_session(
        &self,
        session: &SessionId,
        beat: Beat,
        heir: Option<&SessionId>,
        at: Timestamp,
    ) -> Result<Vec<TaskId>> {
        self.write(&rules::sessions::expire(session, beat, heir, at)).await
    }

    async fn enqueue(&self, tasks: &[NewTask], request: &RequestId, at: Timestamp) -> Result<()> {
        let tasks = rules::enqueue::prepare(tasks)?;
        self.write(&rules::enqueue::enqueue(&tasks, request, at)).await
    }

    async fn ready(&self, queue: &str, after: Option<&ReadyKey>, limit: usize) -> Result<Vec<Ready>> {
        call!(self, db => queue::ready(&db, queue, after, limit))
    }

    async fn timers(&self, queue: &str, limit: usize) -> Result<Vec<(TaskId, Timestamp)>> {
        call!(self, db => queue::timers(&db, queue, limit))
    }

    async fn claim(&self, claim: &ClaimRequest, at: Timestamp) -> Result<Option<Claim>> {
        self.write(&rules::claims::claim(claim, at)).await
    }

    async fn claims_of(&self, session: &SessionId) -> Result<Vec<Claim>> {
        call!(self, db => reads::claims_of(&db, session))
    }

    async fn advance(&self, claim: &Claim, step: &Step, request: &RequestId, at: Timestamp) -> Result<()> {
        self.write(&rules::claims::advance(claim, step, request, at)).await
    }

    async fn report(&self, report: &WorkerReport, request: &RequestId, at: Timestamp) -> Result<()> {
        self.write(&rules::reports::report(report, request, at)).await
    }

    async fn operate(
        &self,
        task: &TaskId,
        operation: &Operation,
        request: &RequestId,
        at: Timestamp,
    ) -> Result<()> {
        self.write(&rules::queue::operate(task, operation, request, at)).await
    }

    async fn send(
        &self,
        task: &TaskId,
        prompt: &NewPrompt,
        request: &RequestId,
        at: Timestamp,
    ) -> Result<Sent> {
        rules::prompts::check(prompt)?;
        self.write(&rules::prompts::send(task, prompt, request, at)).await
    }

    async fn prompts(&self, task: &TaskId) -> Result<Vec<Prompt>> {
        call!(self, db => prompts::all(&db, task))
    }

    async fn task(&self, task: &TaskId) -> Result<TaskRecord> {
        call!(self, db => reads::task(&db, task))
    }

    async fn tasks(&self, query: &TaskQuery) -> Result<Vec<TaskRecord>> {
        call!(self, db => reads::tasks(&db, query))
    }

    async fn briefs(&self, query: &TaskQuery) -> Result<Vec<TaskBrief>> {
        call!(self, db => reads::briefs(&db, query))
    }

    async fn brief_pages(
        &self,
        query: &TaskQuery,
    ) -> Result<tokio::sync::mpsc::UnboundedReceiver<Result<Vec<TaskBrief>>>> {
        let (query, pool) = (query.clone(), std::sync::Arc::clone(&self.pool));
        let (send, pages) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            let read = pool.within(async {
                let db = pool.lease().await?;
                db.keep(reads::brief_pages(&db, &query, |page| send.send(Ok(page)).is_ok()).await)
            });
            if let Err(error) = read.await {
                // A caller that is gone needs no answer.
                let _ = send.send(Err(error));
            }
        });
        Ok(pages)
    }

    async fn counts(&self, queue: Option<&str>) -> Result<Vec<(StateName, u64)>> {
        call!(self, db => reads::counts(&db, queue))
    }

    async fn attempts(&self, task: &TaskId) -> Result<Vec<Attempt>> {
        call!(self, db => reads::attempts(&db, task))
    }

    async fn attempts_of(&self, tasks: &[TaskId]) -> Result<Vec<(TaskId, Vec<Attempt>)>> {
        call!(self, db => reads::attempts_of(&db, tasks))
    }

    async fn reported(&self, task: &TaskId, attempt: u32) -> Result<Reported> {
        call!(self, db => reports::reported(&db, task, attempt))
    }

    async fn spending(&self, query: &SpendQuery) -> Result<Vec<Spending>> {
        call!(self, db => spending::read(&db, query))
    }

    async fn append(
        &self,
        task: Option<&TaskId>,
        attempt: Option<u32>,
        body: &EventBody,
        request: &RequestId,
        at: Timestamp,
    ) -> Result<()> {
        self.write(&rules::events::append(task, attempt, body, request, at)).await
    }

    async fn events(&self, after: u64, task: Option<&TaskId>, limit: usize) -> Result<Vec<Event>> {
        let events = call!(self, db => events::after(&db, after, task, limit))?;
        self.pool.saw(events.last().map_or(0, |event| event.seq));
        Ok(events)
    }

    async fn last_seq(&self) -> Result<u64> {
        let last = call!(self, db => events::last_seq(&db))?;
        self.pool.saw(last);
        Ok(last)
    }

    async fn subscribe(&self) -> Result<tokio::sync::watch::Receiver<u64>> {
        Ok(self.bell.subscribe(&self.pool))
    }

    async fn subscribe_documents(&self) -> Result<tokio::sync::watch::Receiver<u64>> {
        Ok(self.bell.subscribe_documents(&self.pool))
    }

    async fn elect(&self, role: &str, session: &SessionId) -> Result<Option<Lander>> {
        self.write(&rules::train::elect(role, session)).await
    }

    async fn resign(&self, lander: &Lander) -> Result<()> {
        self.write(&rules::train::resign(lander)).await
    }

    async fn cars(&self, target: &str) -> Result<Vec<Car>> {
        call!(self, db => train::cars(&db, target))
    }

    async fn land_all(&self, lander: &Lander, steps: &[(TaskId, LandStep)], at: Timestamp) -> Result<()> {
        self.write(&rules::train::land_all(lander, steps, at)).await
    }

    async fn passes(&self, gate: &str) -> Result<Vec<Oid>> {
        call!(self, db => train::passes(&db, gate))
    }

    async fn record_pass(&self, gate: &str, tree: &Oid, at: Timestamp) -> Result<()> {
        self.write(&rules::train::record_pass(gate, tree, at)).await
    }

    async fn accounts(&self) -> Result<Vec<AccountRecord>> {
        call!(self, db => profiles::list(&db))
    }

    async fn take_turn(&self, account: &AccountKey) -> Result<()> {
        self.write(&rules::profiles::take_turn(account)).await
    }

    async fn cool(&self, account: &AccountKey, cooling: &Cooling) -> Result<()> {
        self.write(&rules::profiles::cool(account, cooling)).await
    }

    async fn warm(&self, profile: &str) -> Result<()> {
        self.write(&rules::profiles::warm(profile)).await
    }
}
