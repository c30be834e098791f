//! The contract, delegated to the functions that implement it: writes to the rules, reads to a look at the nodes.

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

use super::look::{Ask, Look, Seeing};
use super::paths::{self, ACCOUNTS};
use super::{ZookeeperStore, codec, events, ledger, queue, see, spending, tasks, train};
use crate::rules;
use crate::rules::record::Key;
use crate::stored::from_json;
use crate::{
    AccountKey, AccountRecord, Beat, Claim, ClaimRequest, Lander, NewPrompt, NewTask, NodeInfo, Operation,
    Ready, ReadyKey, Reported, RequestId, Result, Sent, ServerTime, SessionId, SessionInfo, SpendQuery,
    Spending, Step, Store, TaskBrief, TaskQuery, TaskRecord, WorkerReport,
};

/// How many tasks a page of a list has.
const PAGE: usize = 2000;

#[async_trait]
impl Store for ZookeeperStore {
    fn describe(&self) -> String {
        self.link.address.shown()
    }

    fn transfer(&self) -> Option<&dyn crate::transfer::Transfer> {
        Some(self)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn known_time(&self) -> Option<ServerTime> {
        self.link.time.get()
    }

    async fn server_time(&self) -> Result<Option<ServerTime>> {
        if self.known_time().is_none() {
            self.link.within(self.link.ask_time()).await?;
        }
        Ok(self.known_time())
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
        see!(self.link, look => tasks::sessions(&look))
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
        see!(self.link, look => queue::ready(&look, queue, after, limit))
    }

    async fn timers(&self, queue: &str, limit: usize) -> Result<Vec<(TaskId, Timestamp)>> {
        see!(self.link, look => queue::timers(&look, queue, limit))
    }

    async fn claim(&self, claim: &ClaimRequest, at: Timestamp) -> Result<Option<Claim>> {
        self.write(&rules::claims::claim(claim, at)).await
    }

    async fn claims_of(&self, session: &SessionId) -> Result<Vec<Claim>> {
        see!(self.link, look => tasks::claims_of(&look, session))
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
        see!(self.link, look => tasks::prompts(&look, task))
    }

    async fn task(&self, task: &TaskId) -> Result<TaskRecord> {
        see!(self.link, look => tasks::task(&look, task))
    }

    async fn tasks(&self, query: &TaskQuery) -> Result<Vec<TaskRecord>> {
        see!(self.link, look => tasks::tasks(&look, query))
    }

    async fn briefs(&self, query: &TaskQuery) -> Result<Vec<TaskBrief>> {
        see!(self.link, look => tasks::briefs(&look, query))
    }

    async fn brief_pages(
        &self,
        query: &TaskQuery,
    ) -> Result<tokio::sync::mpsc::UnboundedReceiver<Result<Vec<TaskBrief>>>> {
        let (query, link) = (query.clone(), std::sync::Arc::clone(&self.link));
        let (send, pages) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            let read = see!(link, look => tasks::briefs(&look, &query));
            let mut rest = match read {
                Ok(briefs) => briefs,
                Err(error) => {
                    // A caller that is gone needs no answer.
                    let _ = send.send(Err(error));
                    return;
                }
            };
            while !rest.is_empty() {
                let more = rest.split_off(rest.len().min(PAGE));
                if send.send(Ok(std::mem::replace(&mut rest, more))).is_err() {
                    return;
                }
            }
        });
        Ok(pages)
    }

    async fn counts(&self, queue: Option<&str>) -> Result<Vec<(StateName, u64)>> {
        see!(self.link, look => tasks::counts(&look, queue))
    }

    async fn attempts(&self, task: &TaskId) -> Result<Vec<Attempt>> {
        see!(self.link, look => tasks::attempts(&look, task))
    }

    async fn attempts_of(&self, tasks: &[TaskId]) -> Result<Vec<(TaskId, Vec<Attempt>)>> {
        see!(self.link, look => tasks::attempts_of(&look, tasks))
    }

    async fn reported(&self, task: &TaskId, attempt: u32) -> Result<Reported> {
        see!(self.link, look => tasks::reported(&look, task, attempt))
    }

    async fn spending(&self, query: &SpendQuery) -> Result<Vec<Spending>> {
        see!(self.link, look => spending::read(&look, query))
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
        let events = see!(self.link, look => events::after(&look, after, task, limit))?;
        self.link.saw(events.last().map_or(0, |event| event.seq));
        Ok(events)
    }

    async fn last_seq(&self) -> Result<u64> {
        let last = see!(self.link, look => events::last_seq(&look))?;
        self.link.saw(last);
        Ok(last)
    }

    async fn subscribe(&self) -> Result<tokio::sync::watch::Receiver<u64>> {
        Ok(self.bell.subscribe(&self.link))
    }

    async fn subscribe_documents(&self) -> Result<tokio::sync::watch::Receiver<u64>> {
        Ok(self.bell.subscribe_documents(&self.link))
    }

    async fn elect(&self, role: &str, session: &SessionId) -> Result<Option<Lander>> {
        self.write(&rules::train::elect(role, session)).await
    }

    async fn resign(&self, lander: &Lander) -> Result<()> {
        self.write(&rules::train::resign(lander)).await
    }

    async fn cars(&self, target: &str) -> Result<Vec<Car>> {
        see!(self.link, look => train::cars(&look, target))
    }

    async fn land_all(&self, lander: &Lander, steps: &[(TaskId, LandStep)], at: Timestamp) -> Result<()> {
        self.write(&rules::train::land_all(lander, steps, at)).await
    }

    async fn passes(&self, gate: &str) -> Result<Vec<Oid>> {
        see!(self.link, look => train::passes(&look, gate))
    }

    async fn record_pass(&self, gate: &str, tree: &Oid, at: Timestamp) -> Result<()> {
        self.write(&rules::train::record_pass(gate, tree, at)).await?;
        // The next who records one tries again.
        let _forgotten = self.link.within(async { Ok(train::forget_passes(self, gate).await.is_ok()) }).await;
        Ok(())
    }

    async fn accounts(&self) -> Result<Vec<AccountRecord>> {
        see!(self.link, look => accounts(&look))
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

/// Every account, by profile and agent.
async fn accounts(look: &Look<'_>) -> Seeing<Vec<AccountRecord>> {
    let names = look.names(ACCOUNTS).await?;
    let keys: Vec<AccountKey> = names.iter().filter_map(|name| ledger::account(name)).collect();
    let asks: Vec<Ask> =
        keys.iter().map(|key| Ask::Data(paths::record(&Key::Account(key.clone())))).collect();
    let mut accounts = Vec::new();
    for (key, answer) in keys.into_iter().zip(look.read(&asks).await?) {
        let Some((text, _)) = answer.data() else { continue };
        let account = codec::account(&text)?;
        let mut limits = account.coolings;
        limits.sort();
        let coolings = limits.iter().map(|(_, body)| from_json("a profile's limit", body));
        accounts.push(AccountRecord { key, coolings: coolings.collect::<Result<_>>()?, turn: account.turn });
    }
    accounts.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(accounts)
}
