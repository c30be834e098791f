//! What the rules read and write: records, their keys, and sets of records.
//!
//! A record is what a plan writes at once. Its key says where a backend keeps it; its version, which only the backend
//! knows how to count, says whether it has changed.

use std::sync::Arc;

use regatta_core::attempt::Attempt;
use regatta_core::crew::{MemberName, Role};
use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::prompt::Prompt;
use regatta_core::spec::TaskSpec;
use regatta_core::state::TaskState;
use regatta_core::time::Timestamp;
use regatta_core::train::CarStep;
use regatta_core::writes::WritePath;

use super::Rule;
use crate::stored::{Readable, attempt_of, bounded, spec_in_outline, spec_of, unreadable};
use crate::{
    AccountKey, ContextEntry, Document, MessageKind, NewTask, NodeInfo, Posted, RequestId, Result, SessionId,
    StoreError,
};

/// A task's id or a member's name in small letters: two that differ only in case are one.
pub(crate) type Folded = Arc<str>;

/// The folded id of a task.
pub(crate) fn folded(task: &TaskId) -> Folded {
    task.folded().into()
}

/// Where a record is kept. The order of the variants is the order in which a plan's records are locked and written;
/// tasks among themselves go by order of arrival.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Key {
    Session(SessionId),
    /// How often a session was renewed: apart from the session, so that a renewal disturbs no other call.
    Beat(SessionId),
    /// Guards the set of tasks that a session holds.
    Holds(SessionId),
    Role(String),
    /// When an engine last started a task; guards the set of all engines' claims.
    Starts,
    /// Guards the set of members.
    Crew,
    Task(Folded),
    Spec(Folded),
    /// The tasks that a task depends on.
    Deps(Folded),
    Attempt(Folded, u32),
    Report(Folded, u32),
    Prompt(Folded, u32),
    Car(Folded),
    /// A tree that passed a gate.
    Pass(String, Oid),
    /// Guards the set of a profile's accounts.
    Profile(String),
    Account(AccountKey),
    Member(Folded),
    Message(u64),
    /// A message in an inbox.
    Delivery(Folded, u64),
    Context(String),
    /// A document, by its kind and its id.
    Document(String, String),
    /// A request that was carried out, by its kind and its task.
    Request(RequestId, &'static str, Option<Folded>),
    /// The answer to a request that posted a message.
    Posted(RequestId),
    /// The version that a request gave to a value of the context.
    Written(RequestId),
    Counter(Counter),
}

impl Key {
    /// The place of its kind in the order of a plan.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Key::Session(_) => 0,
            Key::Beat(_) => 1,
            Key::Holds(_) => 2,
            Key::Role(_) => 3,
            Key::Starts => 4,
            Key::Crew => 5,
            Key::Task(_) => 6,
            // Written only beside their task, which orders them.
            Key::Spec(_)
            | Key::Deps(_)
            | Key::Attempt(..)
            | Key::Report(..)
            | Key::Prompt(..)
            | Key::Car(_) => 7,
            Key::Pass(..)
            | Key::Profile(_)
            | Key::Account(_)
            | Key::Member(_)
            | Key::Message(_)
            | Key::Delivery(..)
            | Key::Context(_)
            | Key::Document(..) => 8,
            Key::Request(..) | Key::Posted(_) | Key::Written(_) => 9,
            Key::Counter(_) => 10,
        }
    }
}

impl Key {
    /// Whether no two plans can wait for each other because of it: its task is written before it, or only one call ever
    /// writes it.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self.rank(), 7 | 9)
    }
}

/// The last number that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Counter {
    /// Order of arrival.
    Tasks,
    Messages,
    /// Turns of accounts.
    Turns,
}

/// A set of records, known by its members' keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SetKey {
    /// The tasks that a session holds.
    HeldBy(SessionId),
    /// The tasks that depend on a task.
    Children(Folded),
    PromptsOf(Folded),
    AttemptsOf(Folded),
    /// All tasks that a session holds, whichever: what limits are compared with.
    Active,
    /// All members who ever registered.
    Crew,
    /// The member whose session it is.
    MemberOf(SessionId),
    /// The accounts of a profile.
    AccountsOf(String),
}

impl SetKey {
    /// The record that every plan writes that adds a member to the set.
    pub(crate) fn guard(&self) -> Key {
        match self {
            SetKey::HeldBy(session) => Key::Holds(session.clone()),
            SetKey::Children(task) | SetKey::PromptsOf(task) | SetKey::AttemptsOf(task) => {
                Key::Task(Arc::clone(task))
            }
            SetKey::Active => Key::Starts,
            SetKey::Crew | SetKey::MemberOf(_) => Key::Crew,
            SetKey::AccountsOf(profile) => Key::Profile(profile.clone()),
        }
    }
}

/// What a rule asks a backend to read. The answer to a set brings its members' records too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Want {
    Record(Key),
    Set(SetKey),
    /// Everything that the death of a task can reach: its dependents, and those of each pending or parked one.
    Fall(Folded),
    /// Everything that its return can reach: its dependents, those of each skipped one, and the dependencies of these.
    Rise(Folded),
    /// Its dependencies and theirs, to the last.
    Above(Folded),
}

/// A part of the answer.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    /// A record and its version; an absent one has version 0.
    Record(Key, u64, Option<Record>),
    Set(SetKey, Vec<Key>),
}

/// The content of a record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    Session(Arc<Session>),
    Role(Arc<Holding>),
    Starts(Arc<Starts>),
    Task(Arc<Task>),
    Spec(Arc<Spec>),
    Deps(Arc<Deps>),
    Attempt(Arc<StoredAttempt>),
    Report(Arc<Said>),
    Prompt(Arc<QueuedPrompt>),
    Car(Arc<StoredCar>),
    Pass(Arc<Pass>),
    Account(Arc<Account>),
    Member(Arc<Registered>),
    Message(Arc<StoredMessage>),
    Delivery(Arc<Delivery>),
    Context(Arc<ContextEntry>),
    Document(Arc<Document>),
    Posted(Arc<Posted>),
    /// A counter, a beat, a version.
    Number(Arc<Number>),
    /// A record that only has to be there: a guard, or a request that was carried out.
    Mark,
}

/// A type that is the content of records.
pub(crate) trait Kept: Clone {
    fn of(record: &Record) -> Option<&Arc<Self>>;
    fn of_mut(record: &mut Record) -> Option<&mut Arc<Self>>;
    fn record(self) -> Record;
}

macro_rules! kept {
    ($($variant:ident($type:ty)),* $(,)?) => {$(
        impl Kept for $type {
            fn of(record: &Record) -> Option<&Arc<Self>> {
                if let Record::$variant(content) = record { Some(content) } else { None }
            }
            fn of_mut(record: &mut Record) -> Option<&mut Arc<Self>> {
                if let Record::$variant(content) = record { Some(content) } else { None }
            }
            fn record(self) -> Record {
                Record::$variant(Arc::new(self))
            }
        }
    )*};
}

kept! {
    Session(Session), Role(Holding), Starts(Starts), Task(Task), Spec(Spec), Deps(Deps),
    Attempt(StoredAttempt), Report(Said), Prompt(QueuedPrompt), Car(StoredCar), Pass(Pass), Account(Account),
    Member(Registered), Message(StoredMessage), Delivery(Delivery), Context(ContextEntry),
    Document(Document), Posted(Posted), Number(Number),
}

/// A session, which stays behind when it has ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Session {
    pub(crate) node: NodeInfo,
    /// The tasks it held at its end; `None` while it is open.
    pub(crate) ended: Option<Vec<TaskId>>,
}

/// Who holds a role.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Holding {
    pub(crate) session: Option<SessionId>,
    pub(crate) term: u64,
}

/// When an engine last started a task.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Starts {
    pub(crate) last: Option<Timestamp>,
}

/// The fate of a task, which is all that its dependents need to know about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Open,
    /// Its work is available.
    Met,
    /// Its work will never be available.
    Dead,
}

impl Fate {
    /// The fate of a task in this state.
    pub(crate) fn of(state: &TaskState) -> Self {
        match (state.is_met(), state.is_dead()) {
            (true, _) => Fate::Met,
            (_, true) => Fate::Dead,
            _ => Fate::Open,
        }
    }
}

/// A task without its spec.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Task {
    /// Order of arrival.
    pub(crate) seq: u64,
    pub(crate) id: TaskId,
    pub(crate) queue: String,
    pub(crate) priority: i32,
    pub(crate) state: TaskState,
    /// How many of its dependencies are not met.
    pub(crate) unmet: u32,
    pub(crate) attempts: u32,
    pub(crate) charged: u32,
    pub(crate) environment_failures: u32,
    /// How often in a row its holders were lost.
    pub(crate) lost: u32,
    pub(crate) fence: u64,
    pub(crate) session: Option<SessionId>,
    pub(crate) claim_request: Option<String>,
    pub(crate) token_hash: Option<String>,
    pub(crate) cancel_asked: Option<String>,
    pub(crate) interrupt_asked: Option<String>,
    /// Done or landed work that remains valid while the task is followed up.
    pub(crate) standing: Option<TaskState>,
    /// Attempts count against its budget from this time on.
    pub(crate) counted_from: Timestamp,
    pub(crate) group: Option<String>,
    pub(crate) writes: Vec<WritePath>,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

impl Task {
    /// A task that has just arrived.
    pub(crate) fn new(seq: u64, new: &NewTask, at: Timestamp) -> Self {
        Self {
            seq,
            id: new.spec.id.clone(),
            queue: new.queue.clone(),
            priority: new.spec.priority,
            state: TaskState::pending(),
            unmet: 0,
            attempts: 0,
            charged: 0,
            environment_failures: 0,
            lost: 0,
            fence: 0,
            session: None,
            claim_request: None,
            token_hash: None,
            cancel_asked: None,
            interrupt_asked: None,
            standing: None,
            counted_from: Timestamp::from_millis(0),
            group: new.spec.concurrency_group.clone(),
            writes: new.spec.writes.clone(),
            created_at: at,
            updated_at: at,
        }
    }

    /// Why no state of it may be changed by this version, if only a newer one can read them all.
    pub(crate) fn left_to_newer(&self) -> Option<String> {
        let states = [Some(&self.state), self.standing.as_ref()];
        states.into_iter().flatten().find(|state| state.is_newer())?.reason()
    }

    pub(crate) fn fate(&self) -> Fate {
        if self.standing.is_some() { Fate::Met } else { Fate::of(&self.state) }
    }

    /// The attempt that is claimed, running or in the train.
    pub(crate) fn live_attempt(&self) -> Option<u32> {
        live_attempt(&self.state)
    }
}

/// The attempt of a state that is claimed, running or in the train.
pub(crate) fn live_attempt(state: &TaskState) -> Option<u32> {
    match state {
        TaskState::Claimed { attempt }
        | TaskState::Running { attempt, .. }
        | TaskState::Judging { attempt, .. }
        | TaskState::Landing { attempt, .. } => Some(*attempt),
        _ => None,
    }
}

/// A task as it was ordered, and the same as stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spec {
    /// An outline, if only a newer version can read it.
    pub(crate) spec: TaskSpec,
    pub(crate) body: String,
    pub(crate) readable: Readable,
}

impl Spec {
    /// The stored spec of a task.
    pub(crate) fn read(task: &Folded, body: String) -> Result<Self> {
        let what = format!("the spec of {task}");
        Ok(match spec_of(&what, &body)? {
            Some(spec) => Self { spec, body, readable: Readable::Whole },
            None => {
                let id = TaskId::parse(task).map_err(|error| unreadable(&what, error))?;
                Self { spec: spec_in_outline(&id, &body), body, readable: Readable::ByNewer }
            }
        })
    }
}

/// What a task depends on, each once, in order of arrival.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Deps {
    pub(crate) parents: Vec<Folded>,
}

/// The record of an attempt, and the same as stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredAttempt {
    /// Only its number and agent, if only a newer version can read it.
    pub(crate) attempt: Attempt,
    pub(crate) body: String,
    pub(crate) readable: Readable,
}

impl StoredAttempt {
    /// As it will be stored, if every backend can hold its length.
    pub(crate) fn new(task: &TaskId, attempt: &Attempt) -> Rule<Self> {
        let body = bounded(&format!("the record of attempt {} of {task}", attempt.n), attempt)?;
        Ok(Self { attempt: attempt.clone(), body, readable: Readable::Whole })
    }

    /// The stored record of an attempt.
    pub(crate) fn read(what: &str, body: String) -> Result<Self> {
        let (attempt, readable) = attempt_of(what, &body)?;
        Ok(Self { attempt, body, readable })
    }
}

/// What the agent of an attempt has reported.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Said {
    /// Its last verdict, as stored.
    pub(crate) statement: Option<String>,
    pub(crate) stuck: Option<String>,
}

/// A follow-up, and the answer to the request that brought it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QueuedPrompt {
    pub(crate) prompt: Prompt,
    pub(crate) urgent: bool,
    pub(crate) request: RequestId,
    pub(crate) position: u32,
    pub(crate) rearmed: bool,
}

/// A car. Its place in the order of approval is numbered by the commit that adds it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredCar {
    pub(crate) target: String,
    pub(crate) attempt: u32,
    /// The request to land, as stored.
    pub(crate) request: String,
    pub(crate) step: CarStep,
}

/// When a tree passed its gate. Its place in the order is numbered by the commit that adds it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pass {
    pub(crate) at: Timestamp,
}

/// An account.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Account {
    pub(crate) turn: u64,
    /// Its limits by name, as stored.
    pub(crate) coolings: Vec<(String, String)>,
}

/// A member of the crew.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Registered {
    pub(crate) name: MemberName,
    pub(crate) role: Role,
    pub(crate) session: SessionId,
    pub(crate) lease_ms: Option<i64>,
    pub(crate) since: Timestamp,
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredMessage {
    pub(crate) request: RequestId,
    pub(crate) at: Timestamp,
    pub(crate) author: MemberName,
    pub(crate) kind: MessageKind,
    pub(crate) reply_to: Option<u64>,
    pub(crate) text: String,
}

/// A message in an inbox.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Delivery {
    pub(crate) name: MemberName,
    pub(crate) read_at: Option<Timestamp>,
    pub(crate) dismissed_at: Option<Timestamp>,
}

/// A number by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number(pub(crate) u64);

/// The error for a record that is not what its key says.
pub(crate) fn not_of_its_kind(key: &Key) -> StoreError {
    StoreError::Corrupt(format!("a defect in Regatta's store: {key:?} is of another kind"))
}
