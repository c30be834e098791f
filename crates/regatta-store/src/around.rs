//! A store around another one: every call of the contract passes the same place.

use async_trait::async_trait;
use regatta_core::attempt::Attempt;
use regatta_core::crew::MemberName;
use regatta_core::event::{Event, EventBody};
use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::profiles::Cooling;
use regatta_core::prompt::Prompt;
use regatta_core::state::StateName;
use regatta_core::time::Timestamp;
use regatta_core::train::{Car, LandStep};

use crate::{
    AccountKey, AccountRecord, Beat, Claim, ClaimRequest, ContextEntry, ContextQuery, ContextWrite, Crew,
    Document, DocumentWrite, Fleet, InboxQuery, Lander, Mark, Member, Message, NewMember, NewMessage,
    NewPrompt, NewTask, NodeInfo, Operation, Posted, Ready, ReadyKey, Reported, RequestId, Result, Sent,
    SessionId, SessionInfo, SpendQuery, Spending, Step, Store, TaskBrief, TaskQuery, TaskRecord,
    WorkerReport,
};

/// What happens around each call to a store.
pub trait Layer: Send + Sync {
    /// The store behind it.
    type Inner: Store;

    /// The store behind it.
    fn inner(&self) -> &Self::Inner;

    /// Its location and what happens on the way to it, for display.
    fn described(&self) -> String {
        self.inner().describe()
    }

    /// Makes the call of this name, once, several times, or not at all.
    fn pass<T, F, Fut>(&self, name: &'static str, call: F) -> impl Future<Output = Result<T>> + Send
    where
        T: Send,
        F: Fn() -> Fut + Send + Sync,
        Fut: Future<Output = Result<T>> + Send;
}

#[async_trait]
impl<L: Layer> Store for L {
    fn describe(&self) -> String {
        self.described()
    }

    fn transfer(&self) -> Option<&dyn crate::transfer::Transfer> {
        self.inner().transfer()
    }

    fn is_shared(&self) -> bool {
        self.inner().is_shared()
    }

    fn known_time(&self) -> Option<crate::ServerTime> {
        self.inner().known_time()
    }

    async fn server_time(&self) -> Result<Option<crate::ServerTime>> {
        self.pass("server_time", || self.inner().server_time()).await
    }

    async fn open_session(&self, session: &SessionId, node: &NodeInfo, at: Timestamp) -> Result<()> {
        self.pass("open_session", || self.inner().open_session(session, node, at)).await
    }

    async fn renew(&self, session: &SessionId) -> Result<Beat> {
        self.pass("renew", || self.inner().renew(session)).await
    }

    async fn close_session(&self, session: &SessionId, at: Timestamp) -> Result<()> {
        self.pass("close_session", || self.inner().close_session(session, at)).await
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>> {
        self.pass("sessions", || self.inner().sessions()).await
    }

    async fn expire_session(
        &self,
        session: &SessionId,
        beat: Beat,
        heir: Option<&SessionId>,
        at: Timestamp,
    ) -> Result<Vec<TaskId>> {
        self.pass("expire_session", || self.inner().expire_session(session, beat, heir, at)).await
    }

    async fn enqueue(&self, tasks: &[NewTask], request: &RequestId, at: Timestamp) -> Result<()> {
        self.pass("enqueue", || self.inner().enqueue(tasks, request, at)).await
    }

    async fn ready(&self, queue: &str, after: Option<&ReadyKey>, limit: usize) -> Result<Vec<Ready>> {
        self.pass("ready", || self.inner().ready(queue, after, limit)).await
    }

    async fn timers(&self, queue: &str, limit: usize) -> Result<Vec<(TaskId, Timestamp)>> {
        self.pass("timers", || self.inner().timers(queue, limit)).await
    }

    async fn claim(&self, claim: &ClaimRequest, at: Timestamp) -> Result<Option<Claim>> {
        self.pass("claim", || self.inner().claim(claim, at)).await
    }

    async fn claims_of(&self, session: &SessionId) -> Result<Vec<Claim>> {
        self.pass("claims_of", || self.inner().claims_of(session)).await
    }

    async fn advance(&self, claim: &Claim, step: &Step, request: &RequestId, at: Timestamp) -> Result<()> {
        self.pass("advance", || self.inner().advance(claim, step, request, at)).await
    }

    async fn report(&self, report: &WorkerReport, request: &RequestId, at: Timestamp) -> Result<()> {
        self.pass("report", || self.inner().report(report, request, at)).await
    }

    async fn operate(
        &self,
        task: &TaskId,
        operation: &Operation,
        request: &RequestId,
        at: Timestamp,
    ) -> Result<()> {
        self.pass("operate", || self.inner().operate(task, operation, request, at)).await
    }

    async fn send(
        &self,
        task: &TaskId,
        prompt: &NewPrompt,
        request: &RequestId,
        at: Timestamp,
    ) -> Result<Sent> {
        self.pass("send", || self.inner().send(task, prompt, request, at)).await
    }

    async fn prompts(&self, task: &TaskId) -> Result<Vec<Prompt>> {
        self.pass("prompts", || self.inner().prompts(task)).await
    }

    async fn task(&self, task: &TaskId) -> Result<TaskRecord> {
        self.pass("task", || self.inner().task(task)).await
    }

    async fn tasks(&self, query: &TaskQuery) -> Result<Vec<TaskRecord>> {
        self.pass("tasks", || self.inner().tasks(query)).await
    }

    async fn briefs(&self, query: &TaskQuery) -> Result<Vec<TaskBrief>> {
        self.pass("briefs", || self.inner().briefs(query)).await
    }

    async fn brief_pages(
        &self,
        query: &TaskQuery,
    ) -> Result<tokio::sync::mpsc::UnboundedReceiver<Result<Vec<TaskBrief>>>> {
        self.pass("brief_pages", || self.inner().brief_pages(query)).await
    }

    async fn counts(&self, queue: Option<&str>) -> Result<Vec<(StateName, u64)>> {
        self.pass("counts", || self.inner().counts(queue)).await
    }

    async fn attempts(&self, task: &TaskId) -> Result<Vec<Attempt>> {
        self.pass("attempts", || self.inner().attempts(task)).await
    }

    async fn attempts_of(&self, tasks: &[TaskId]) -> Result<Vec<(TaskId, Vec<Attempt>)>> {
        self.pass("attempts_of", || self.inner().attempts_of(tasks)).await
    }

    async fn reported(&self, task: &TaskId, attempt: u32) -> Result<Reported> {
        self.pass("reported", || self.inner().reported(task, attempt)).await
    }

    async fn spending(&self, query: &SpendQuery) -> Result<Vec<Spending>> {
        self.pass("spending", || self.inner().spending(query)).await
    }

    async fn append(
        &self,
        task: Option<&TaskId>,
        attempt: Option<u32>,
        body: &EventBody,
        request: &RequestId,
        at: Timestamp,
    ) -> Result<()> {
        self.pass("append", || self.inner().append(task, attempt, body, request, at)).await
    }

    async fn events(&self, after: u64, task: Option<&TaskId>, limit: usize) -> Result<Vec<Event>> {
        self.pass("events", || self.inner().events(after, task, limit)).await
    }

    async fn last_seq(&self) -> Result<u64> {
        self.pass("last_seq", || self.inner().last_seq()).await
    }

    async fn subscribe_documents(&self) -> Result<tokio::sync::watch::Receiver<u64>> {
        self.pass("subscribe_documents", || self.inner().subscribe_documents()).await
    }

    async fn subscribe(&self) -> Result<tokio::sync::watch::Receiver<u64>> {
        self.pass("subscribe", || self.inner().subscribe()).await
    }

    async fn elect(&self, role: &str, session: &SessionId) -> Result<Option<Lander>> {
        self.pass("elect", || self.inner().elect(role, session)).await
    }

    async fn resign(&self, lander: &Lander) -> Result<()> {
        self.pass("resign", || self.inner().resign(lander)).await
    }

    async fn cars(&self, target: &str) -> Result<Vec<Car>> {
        self.pass("cars", || self.inner().cars(target)).await
    }

    async fn land_all(&self, lander: &Lander, steps: &[(TaskId, LandStep)], at: Timestamp) -> Result<()> {
        self.pass("land_all", || self.inner().land_all(lander, steps, at)).await
    }

    async fn passes(&self, gate: &str) -> Result<Vec<Oid>> {
        self.pass("passes", || self.inner().passes(gate)).await
    }

    async fn record_pass(&self, gate: &str, tree: &Oid, at: Timestamp) -> Result<()> {
        self.pass("record_pass", || self.inner().record_pass(gate, tree, at)).await
    }

    async fn accounts(&self) -> Result<Vec<AccountRecord>> {
        self.pass("accounts", || self.inner().accounts()).await
    }

    async fn take_turn(&self, account: &AccountKey) -> Result<()> {
        self.pass("take_turn", || self.inner().take_turn(account)).await
    }

    async fn cool(&self, account: &AccountKey, cooling: &Cooling) -> Result<()> {
        self.pass("cool", || self.inner().cool(account, cooling)).await
    }

    async fn warm(&self, profile: &str) -> Result<()> {
        self.pass("warm", || self.inner().warm(profile)).await
    }
}

#[async_trait]
impl<L: Layer> Crew for L {
    async fn register(&self, member: &NewMember, at: Timestamp) -> Result<()> {
        self.pass("register", || self.inner().register(member, at)).await
    }

    async fn members(&self) -> Result<Vec<Member>> {
        self.pass("members", || self.inner().members()).await
    }

    async fn holder(&self, role: &str) -> Result<Option<Lander>> {
        self.pass("holder", || self.inner().holder(role)).await
    }

    async fn take_up(&self, claim: &ClaimRequest, at: Timestamp) -> Result<Option<Claim>> {
        self.pass("take_up", || self.inner().take_up(claim, at)).await
    }

    async fn post(&self, message: &NewMessage, request: &RequestId, at: Timestamp) -> Result<Posted> {
        self.pass("post", || self.inner().post(message, request, at)).await
    }

    async fn inbox(&self, name: &MemberName, query: &InboxQuery) -> Result<Vec<Message>> {
        self.pass("inbox", || self.inner().inbox(name, query)).await
    }

    async fn correspondence(&self, after: u64, limit: usize) -> Result<Vec<Message>> {
        self.pass("correspondence", || self.inner().correspondence(after, limit)).await
    }

    async fn mark(&self, name: &MemberName, messages: &[u64], mark: Mark, at: Timestamp) -> Result<()> {
        self.pass("mark", || self.inner().mark(name, messages, mark, at)).await
    }

    async fn set_context(&self, write: &ContextWrite, request: &RequestId, at: Timestamp) -> Result<u64> {
        self.pass("set_context", || self.inner().set_context(write, request, at)).await
    }

    async fn context(&self, key: &str) -> Result<Option<ContextEntry>> {
        self.pass("context", || self.inner().context(key)).await
    }

    async fn contexts(&self, query: &ContextQuery) -> Result<Vec<ContextEntry>> {
        self.pass("contexts", || self.inner().contexts(query)).await
    }
}

#[async_trait]
impl<L: Layer> Fleet for L {
    async fn put_document(&self, write: &DocumentWrite, at: Timestamp) -> Result<u64> {
        self.pass("put_document", || self.inner().put_document(write, at)).await
    }

    async fn document(&self, kind: &str, id: &str) -> Result<Option<Document>> {
        self.pass("document", || self.inner().document(kind, id)).await
    }

    async fn documents(&self, kind: &str, prefix: &str) -> Result<Vec<Document>> {
        self.pass("documents", || self.inner().documents(kind, prefix)).await
    }
}
