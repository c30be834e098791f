//! Test helpers: one node with its own handle and session, and short names for its calls.

use std::sync::Arc;

use regatta_core::attempt::Attempt;
use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::session::SessionKind;
use regatta_core::spec::TaskSpec;
use regatta_core::state::TaskState;
use regatta_core::time::Timestamp;
use regatta_core::train::{LandRequest, Strategy};

use super::Fixture;
use crate::{
    Beat, Claim, ClaimRequest, IfPresent, NewTask, NodeInfo, Operation, Outcome, RequestId, Result,
    SessionId, Step, Store,
};

/// The default queue of the cases.
pub const QUEUE: &str = "main";

/// An instant; its value decides nothing.
pub fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// A valid task id.
pub fn id(text: &str) -> TaskId {
    TaskId::parse(text).expect("a case names valid ids")
}

/// A plain task.
pub fn task(name: &str) -> NewTask {
    NewTask {
        spec: TaskSpec::plain(id(name), "fake", &format!("do {name}")),
        queue: QUEUE.into(),
        if_present: IfPresent::Refuse,
    }
}

impl NewTask {
    /// Sets the priority.
    pub(crate) fn priority(mut self, priority: i32) -> Self {
        self.spec.priority = priority;
        self
    }

    /// Sets the dependencies.
    pub(crate) fn after(mut self, deps: &[&str]) -> Self {
        self.spec.deps = deps.iter().map(|dep| id(dep)).collect();
        self
    }

    /// Sets the queue.
    pub(crate) fn queued(mut self, queue: &str) -> Self {
        self.queue = queue.into();
        self
    }

    /// Sets what to do if the id exists.
    pub(crate) fn or(mut self, if_present: IfPresent) -> Self {
        self.if_present = if_present;
        self
    }
}

/// A request to land on `main`.
pub fn landing(head: &str) -> LandRequest {
    LandRequest {
        target: "main".into(),
        via: regatta_core::train::Via::Here,
        proposal: Default::default(),
        strategy: Strategy::Rebase,
        base: Oid::sample("base"),
        head: Oid::sample(head),
        message: "m".into(),
        verdict: None,
        checked: false,
        accepted_by: None,
        siblings: Default::default(),
        rest: Default::default(),
    }
}

/// One machine with one session.
#[derive(Clone)]
pub struct Node {
    /// Its handle.
    pub store: Arc<dyn Store>,
    pub session: SessionId,
}

impl Node {
    /// A new machine that joins under `name`.
    pub async fn join(fixture: &dyn Fixture, name: &str) -> Self {
        Self::over(fixture.machine().await, name).await
    }

    /// A new session over an existing handle.
    pub async fn over(store: Arc<dyn Store>, name: &str) -> Self {
        let session = SessionId::fresh(name);
        store.open_session(&session, &node_info(name), at(1)).await.expect("a fresh session opens");
        Self { store, session }
    }

    /// Adds tasks and expects success.
    pub async fn add(&self, tasks: &[NewTask]) {
        self.try_add(tasks).await.expect("the tasks are enqueued");
    }

    /// Adds tasks.
    pub async fn try_add(&self, tasks: &[NewTask]) -> Result<()> {
        self.store.enqueue(tasks, &RequestId::fresh(), at(1)).await
    }

    /// Requests a task with a fresh request id.
    pub async fn try_claim(&self, name: &str) -> Result<Option<Claim>> {
        self.store.claim(&self.asking_for(name), at(2)).await
    }

    /// A request for a task.
    pub fn asking_for(&self, name: &str) -> ClaimRequest {
        ClaimRequest {
            task: id(name),
            session: self.session.clone(),
            token_hash: format!("token of {name}"),
            request: RequestId::fresh(),
            limits: None,
        }
    }

    /// Claims a task that must be ready.
    pub async fn claim(&self, name: &str) -> Claim {
        self.try_claim(name)
            .await
            .expect("the store answers")
            .unwrap_or_else(|| panic!("{name} is not ready"))
    }

    /// Advances by one step.
    pub async fn step(&self, claim: &Claim, step: Step) -> Result<()> {
        self.store.advance(claim, &step, &RequestId::fresh(), at(3)).await
    }

    /// Reports that the agent has started.
    pub async fn start(&self, claim: &Claim) {
        let step = Step::Started { attempt: record(claim), pid: 7 };
        self.step(claim, step).await.expect("a claimed task starts");
    }

    /// Settles with an uncharged record.
    pub async fn settle(&self, claim: &Claim, outcome: Outcome) -> Result<()> {
        self.step(claim, Step::Settled { attempt: record(claim), outcome }).await
    }

    /// Claims a task and settles it with `outcome`.
    pub async fn bring(&self, name: &str, outcome: Outcome) {
        let claim = self.claim(name).await;
        self.settle(&claim, outcome).await.expect("the holder settles");
    }

    /// Claims a task and settles it as done.
    pub async fn finish(&self, name: &str) {
        self.bring(name, Outcome::Done { head: None }).await;
    }

    /// Claims a task and settles it as failed.
    pub async fn fail(&self, name: &str) {
        self.bring(name, Outcome::Fail { why: "no".into() }).await;
    }

    /// Claims a task and puts it into the train.
    pub async fn approve(&self, name: &str) {
        self.bring(name, Outcome::Approve(landing(&format!("head of {name}")))).await;
    }

    /// Applies an operation of a user.
    pub async fn operate(&self, name: &str, operation: Operation) -> Result<()> {
        self.store.operate(&id(name), &operation, &RequestId::fresh(), at(4)).await
    }

    /// The task's state.
    pub async fn state(&self, name: &str) -> TaskState {
        self.store.task(&id(name)).await.expect("the task is there").state
    }

    /// The names of the states, in the given order.
    pub async fn states<const N: usize>(&self, names: [&str; N]) -> [&'static str; N] {
        let mut states = [""; N];
        for (state, name) in states.iter_mut().zip(names) {
            *state = self.state(name).await.name();
        }
        states
    }

    /// The ready tasks of the default queue.
    pub async fn ready(&self) -> Vec<String> {
        let ready = self.store.ready(QUEUE, None, 1000).await.expect("the store answers");
        ready.into_iter().map(|ready| ready.spec.id.to_string()).collect()
    }

    /// The events of a task.
    pub async fn events(&self, name: &str) -> Vec<EventBody> {
        let events = self.store.events(0, Some(&id(name)), 10_000).await.expect("the store answers");
        events.into_iter().map(|event| event.body).collect()
    }

    /// How many events of a task match.
    pub async fn happened(&self, name: &str, what: impl Fn(&EventBody) -> bool) -> usize {
        self.events(name).await.iter().filter(|body| what(body)).count()
    }

    /// Another session's beat.
    pub async fn beat_of(&self, other: &Node) -> Beat {
        let sessions = self.store.sessions().await.expect("the store answers");
        sessions.into_iter().find(|info| info.session == other.session).expect("the session is open").beat
    }

    /// Ends another node's session.
    pub async fn expire(&self, other: &Node, heir: Option<&SessionId>) -> Vec<TaskId> {
        let beat = self.beat_of(other).await;
        self.store.expire_session(&other.session, beat, heir, at(5)).await.expect("the beat is right")
    }
}

/// A node's description.
pub fn node_info(name: &str) -> NodeInfo {
    NodeInfo {
        node: name.into(),
        kind: SessionKind::Daemon,
        what: "daemon".into(),
        boot_id: "boot".into(),
        pid: 1,
        starttime: 2,
        machine: Some("machine".into()),
        pid_ns: Some(3),
        place: None,
        lease_ms: None,
        node_id: None,
        program: None,
        rest: Default::default(),
    }
}

/// An empty record of the claim's attempt.
pub fn record(claim: &Claim) -> Attempt {
    Attempt::new(claim.attempt, "fake")
}
