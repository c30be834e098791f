//! The contract, delegated to the functions that implement it: writes to the writer's thread, reads to a snapshot.

use std::sync::PoisonError;

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

use super::watch::WalWatch;
use super::{SqliteStore, events, profiles, prompts, queue, reads, reports, sessions, spending, train};
use crate::rules;
use crate::{
    AccountKey, AccountRecord, Beat, Claim, ClaimRequest, Lander, NewPrompt, NewTask, NodeInfo, Operation,
    Ready, ReadyKey, Reported, RequestId, Result, Sent, SessionId, SessionInfo, SpendQuery, Spending, Step,
    Store, TaskBrief, TaskQuery, TaskRecord, WorkerReport,
};

#[async_trait]
impl Store for SqliteStore {
    fn describe(&self) -> String {
        format!("sqlite:{}", self.path.display())
    }

    fn transfer(&self) -> Option<&dyn crate::transfer::Transfer> {
        Some(self)
    }

    fn is_shared(&self) -> bool {
        false
    }

    async fn open_session(&self, session: &SessionId, node: &NodeInfo, at: Timestamp) -> Result<()> {
        let (session, node) = (session.clone(), node.clone());
        self.writer.call(move |tx| tx.carry_out(&rules::sessions::open(&session, &node, at))).await
    }

    async fn renew(&self, session: &SessionId) -> Result<Beat> {
        self.require_file()?;
        let session = session.clone();
        self.writer.call_quietly(move |tx| tx.carry_out(&rules::sessions::renew(&session))).await
    }

    async fn close_session(&self, session: &SessionId, at: Timestamp) -> Result<()> {
        let session = session.clone();
        self.writer.call(move |tx| tx.carry_out(&rules::sessions::close(&session, at))).await
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>> {
        self.readers.call(sessions::list).await
    }

    async fn expire_session(
        &self,
        session: &SessionId,
        beat: Beat,
        heir: Option<&SessionId>,
        at: Timestamp,
    ) -> Result<Vec<TaskId>> {
        let (session, heir) = (session.clone(), heir.cloned());
        self.writer
            .call(move |tx| tx.carry_out(&rules::sessions::expire(&session, beat, heir.as_ref(), at)))
            .await
    }

    async fn enqueue(&self, tasks: &[NewTask], request: &RequestId, at: Timestamp) -> Result<()> {
        let (tasks, request) = (rules::enqueue::prepare(tasks)?, request.clone());
        self.writer.call(move |tx| tx.carry_out(&rules::enqueue::enqueue(&tasks, &request, at))).await
    }

    async fn ready(&self, queue: &str, after: Option<&ReadyKey>, limit: usize) -> Result<Vec<Ready>> {
        let (queue, after) = (queue.to_owned(), after.cloned());
        self.readers.call(move |db| queue::ready(db, &queue, after.as_ref(), limit)).await
    }

    async fn timers(&self, queue: &str, limit: usize) -> Result<Vec<(TaskId, Timestamp)>> {
        let queue = queue.to_owned();
        self.readers.call(move |db| queue::timers(db, &queue, limit)).await
    }

    async fn claim(&self, claim: &ClaimRequest, at: Timestamp) -> Result<Option<Claim>> {
        let claim = claim.clone();
        self.writer.call(move |tx| tx.carry_out(&rules::claims::claim(&claim, at))).await
    }

    async fn claims_of(&self, session: &SessionId) -> Result<Vec<Claim>> {
        let session = session.clone();
        self.readers.call(move |db| reads::claims_of(db, &session)).await
    }

    async fn advance(&self, claim: &Claim, step: &Step, request: &RequestId, at: Timestamp) -> Result<()> {
        let (claim, step, request) = (claim.clone(), step.clone(), request.clone());
        self.writer.call(move |tx| tx.carry_out(&rules::claims::advance(&claim, &step, &request, at))).await
    }

    async fn report(&self, report: &WorkerReport, request: &RequestId, at: Timestamp) -> Result<()> {
        let (report, request) = (report.clone(), request.clone());
        self.writer.call(move |tx| tx.carry_out(&rules::reports::report(&report, &request, at))).await
    }

    async fn operate(
        &self,
        task: &TaskId,
        operation: &Operation,
        request: &RequestId,
        at: Timestamp,
    ) -> Result<()> {
        let (task, operation, request) = (task.clone(), operation.clone(), request.clone());
        self.writer
            .call(move |tx| tx.carry_out(&rules::queue::operate(&task, &operation, &request, at)))
            .await
    }

    async fn send(
        &self,
        task: &TaskId,
        prompt: &NewPrompt,
        request: &RequestId,
        at: Timestamp,
    ) -> Result<Sent> {
        rules::prompts::check(prompt)?;
        let (task, prompt, request) = (task.clone(), prompt.clone(), request.clone());
        self.writer.call(move |tx| tx.carry_out(&rules::prompts::send(&task, &prompt, &request, at))).await
    }

    async fn prompts(&self, task: &TaskId) -> Result<Vec<Prompt>> {
        let task = task.clone();
        self.readers.call(move |db| prompts::all(db, &task)).await
    }

    async fn task(&self, task: &TaskId) -> Result<TaskRecord> {
        let task = task.clone();
        self.readers.call(move |db| reads::task(db, &task)).await
    }

    async fn tasks(&self, query: &TaskQuery) -> Result<Vec<TaskRecord>> {
        let query = query.clone();
        self.readers.call(move |db| reads::tasks(db, &query)).await
    }

    async fn briefs(&self, query: &TaskQuery) -> Result<Vec<TaskBrief>> {
        let query = query.clone();
        self.readers.call(move |db| reads::briefs(db, &query)).await
    }

    async fn brief_pages(
        &self,
        query: &TaskQuery,
    ) -> Result<tokio::sync::mpsc::UnboundedReceiver<Result<Vec<TaskBrief>>>> {
        let (query, readers) = (query.clone(), std::sync::Arc::clone(&self.readers));
        let (send, pages) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            let out = send.clone();
            let read = move |db: &rusqlite::Connection| {
                reads::brief_pages(db, &query, |page| out.send(Ok(page)).is_ok())
            };
            if let Err(error) = readers.call(read).await {
                // A caller that is gone needs no answer.
                let _ = send.send(Err(error));
            }
        });
        Ok(pages)
    }

    async fn counts(&self, queue: Option<&str>) -> Result<Vec<(StateName, u64)>> {
        let queue = queue.map(str::to_owned);
        self.readers.call(move |db| reads::counts(db, queue.as_deref())).await
    }

    async fn attempts(&self, task: &TaskId) -> Result<Vec<Attempt>> {
        let task = task.clone();
        self.readers.call(move |db| reads::attempts(db, &task)).await
    }

    async fn attempts_of(&self, tasks: &[TaskId]) -> Result<Vec<(TaskId, Vec<Attempt>)>> {
        let tasks = tasks.to_vec();
        self.readers.call(move |db| reads::attempts_of(db, &tasks)).await
    }

    async fn reported(&self, task: &TaskId, attempt: u32) -> Result<Reported> {
        let task = task.clone();
        self.readers.call(move |db| reports::reported(db, &task, attempt)).await
    }

    async fn spending(&self, query: &SpendQuery) -> Result<Vec<Spending>> {
        let query = query.clone();
        self.readers.call(move |db| spending::read(db, &query)).await
    }

    async fn append(
        &self,
        task: Option<&TaskId>,
        attempt: Option<u32>,
        body: &EventBody,
        request: &RequestId,
        at: Timestamp,
    ) -> Result<()> {
        let (task, body, request) = (task.cloned(), body.clone(), request.clone());
        self.writer
            .call(move |tx| tx.carry_out(&rules::events::append(task.as_ref(), attempt, &body, &request, at)))
            .await
    }

    async fn events(&self, after: u64, task: Option<&TaskId>, limit: usize) -> Result<Vec<Event>> {
        let task = task.cloned();
        self.readers.call(move |db| events::after(db, after, task.as_ref(), limit)).await
    }

    async fn last_seq(&self) -> Result<u64> {
        self.readers.call(events::last_seq).await
    }

    async fn subscribe(&self) -> Result<tokio::sync::watch::Receiver<u64>> {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        if watch.is_none()
            && let Some(looker) = self.writer.looker()
        {
            *watch = Some(WalWatch::start(&self.path, looker)?);
        }
        Ok(self.writer.changes())
    }

    async fn elect(&self, role: &str, session: &SessionId) -> Result<Option<Lander>> {
        let (role, session) = (role.to_owned(), session.clone());
        self.writer.call_quietly(move |tx| tx.carry_out(&rules::train::elect(&role, &session))).await
    }

    async fn resign(&self, lander: &Lander) -> Result<()> {
        let lander = lander.clone();
        self.writer.call_quietly(move |tx| tx.carry_out(&rules::train::resign(&lander))).await
    }

    async fn cars(&self, target: &str) -> Result<Vec<Car>> {
        let target = target.to_owned();
        self.readers.call(move |db| train::cars(db, &target)).await
    }

    async fn land_all(&self, lander: &Lander, steps: &[(TaskId, LandStep)], at: Timestamp) -> Result<()> {
        let (lander, steps) = (lander.clone(), steps.to_vec());
        self.writer.call(move |tx| tx.carry_out(&rules::train::land_all(&lander, &steps, at))).await
    }

    async fn passes(&self, gate: &str) -> Result<Vec<Oid>> {
        let gate = gate.to_owned();
        self.readers.call(move |db| train::passes(db, &gate)).await
    }

    async fn record_pass(&self, gate: &str, tree: &Oid, at: Timestamp) -> Result<()> {
        let (gate, tree) = (gate.to_owned(), tree.to_owned());
        self.writer.call(move |tx| tx.carry_out(&rules::train::record_pass(&gate, &tree, at))).await
    }

    async fn accounts(&self) -> Result<Vec<AccountRecord>> {
        self.readers.call(profiles::list).await
    }

    async fn take_turn(&self, account: &AccountKey) -> Result<()> {
        let account = account.clone();
        self.writer.call(move |tx| tx.carry_out(&rules::profiles::take_turn(&account))).await
    }

    async fn cool(&self, account: &AccountKey, cooling: &Cooling) -> Result<()> {
        let (account, cooling) = (account.clone(), cooling.clone());
        self.writer.call(move |tx| tx.carry_out(&rules::profiles::cool(&account, &cooling))).await
    }

    async fn warm(&self, profile: &str) -> Result<()> {
        let profile = profile.to_owned();
        self.writer.call(move |tx| tx.carry_out(&rules::profiles::warm(&profile))).await
    }
}
