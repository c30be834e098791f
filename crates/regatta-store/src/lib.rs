//! The store: the only thing that Regatta's processes share.
//!
//! The trait is the contract, and the conformance suite (feature `conformance`) defines its meaning. Rules that every
//! backend keeps and every caller may rely on:
//!
//! * **Atomic.** A call happens whole or not at all; a state and its event are one step.
//! * **Repeatable.** After [`StoreError::Unavailable`] and [`StoreError::Busy`] the caller repeats the same call with
//!   the same arguments until it gets an answer. Writes carry a request id or are idempotent by nature.
//! * **Fenced.** A write names its authority: a claim (task, fence, session), an attempt token, or a lander's term.
//!   Authority that has moved on is refused inside the same step.
//! * **Clock-free.** No call compares times, except for the pause between two starts ([`ClaimLimits::stagger`]), which
//!   users give in seconds. Timestamps are recorded for display, and returned in order for callers that own a clock.

mod admission;
mod credentials;
mod crew;
mod error;
mod fleet;
mod model;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod program;
mod rules;
mod server_time;
mod spending;
pub mod sqlite;
mod stored;
pub mod transfer;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

#[cfg(any(debug_assertions, feature = "conformance"))]
pub mod around;
#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "conformance")]
pub mod faulty;
#[cfg(any(debug_assertions, feature = "conformance"))]
pub mod rigged;

use std::path::PathBuf;
use std::sync::Arc;

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

pub use admission::*;
pub use credentials::credential_files;
pub use crew::*;
pub use error::{Result, StoreError};
pub use fleet::*;
pub use model::*;
pub use server_time::ServerTime;
pub use spending::*;

/// Opens the store at `url`: `sqlite:PATH`, or a plain path, which means the same; `postgres://USER@HOST/DATABASE`;
/// or `zookeeper://HOST,HOST/CHROOT`.
pub async fn open(url: &str) -> Result<Arc<dyn Store>> {
    open_as(url, false).await
}

/// The same, even if it is being moved or copied: calls that write are refused then, except those of
/// [`Transfer`](transfer::Transfer).
pub async fn open_marked(url: &str) -> Result<Arc<dyn Store>> {
    open_as(url, true).await
}

/// What is at an address.
pub enum Existing {
    /// A store.
    Store(Arc<dyn Store>),
    /// None.
    Missing(Missing),
}

/// A server without the store that an address names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The address, without a password.
    pub address: String,
    /// The project that the address names, if it names one.
    pub project: Option<String>,
    /// The projects that the server has, if that is known.
    pub others: Vec<String>,
}

/// Opens the store at `url` and creates nothing, if machines share it. A file is created if it is missing: callers look
/// for it themselves.
pub async fn open_existing(url: &str, marked: bool) -> Result<Existing> {
    #[cfg(feature = "postgres")]
    if is_postgres(url) {
        return match Box::pin(postgres::PostgresStore::open_existing(url, marked)).await? {
            Ok(store) => rigged_or_plain(store).map(Existing::Store),
            Err(missing) => Ok(Existing::Missing(missing)),
        };
    }
    #[cfg(feature = "zookeeper")]
    if is_zookeeper(url) {
        return match Box::pin(zookeeper::ZookeeperStore::open_existing(url, marked)).await? {
            Ok(store) => rigged_or_plain(store).map(Existing::Store),
            Err(missing) => Ok(Existing::Missing(missing)),
        };
    }
    open_as(url, marked).await.map(Existing::Store)
}

#[cfg(feature = "postgres")]
fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

#[cfg(feature = "zookeeper")]
fn is_zookeeper(url: &str) -> bool {
    url.starts_with("zookeeper://") || url.starts_with("zk://")
}

async fn open_as(url: &str, marked: bool) -> Result<Arc<dyn Store>> {
    #[cfg(feature = "postgres")]
    if is_postgres(url) {
        // Boxed: a caller's own future would otherwise contain all of it.
        let store = if marked {
            Box::pin(postgres::PostgresStore::open_marked(url)).await?
        } else {
            Box::pin(postgres::PostgresStore::open(url)).await?
        };
        return rigged_or_plain(store);
    }
    #[cfg(feature = "zookeeper")]
    if is_zookeeper(url) {
        let store = if marked {
            Box::pin(zookeeper::ZookeeperStore::open_marked(url)).await?
        } else {
            Box::pin(zookeeper::ZookeeperStore::open(url)).await?
        };
        return rigged_or_plain(store);
    }
    let path = match url.split_once(':') {
        Some(("sqlite", path)) => path.strip_prefix("//").unwrap_or(path),
        Some((scheme, rest)) if rest.starts_with("//") => {
            return Err(StoreError::Invalid(format!(
                "the store {scheme}:// is not built into this version of Regatta; use sqlite:PATH, postgres://USER@HOST/DATABASE or zookeeper://HOST/CHROOT"
            )));
        }
        _ => url,
    };
    if path.is_empty() {
        return Err(StoreError::Invalid(format!("the store {url:?} names no file; use sqlite:PATH")));
    }
    let path = PathBuf::from(path);
    let opened = tokio::task::spawn_blocking(move || {
        if marked { sqlite::SqliteStore::open_marked(path) } else { sqlite::SqliteStore::open(path) }
    })
    .await;
    let store =
        opened.map_err(|error| StoreError::Unavailable(format!("opening was given up: {error}")))??;
    rigged_or_plain(store)
}

/// The store, behind a layer for tests of the real program if a variable asks for it.
fn rigged_or_plain(store: impl Store + 'static) -> Result<Arc<dyn Store>> {
    #[cfg(debug_assertions)]
    let store = match rigged::Rigged::by_variables(store)? {
        Ok(rigged) => return Ok(Arc::new(rigged)),
        Err(store) => store,
    };
    Ok(Arc::new(store))
}

/// What Regatta needs from a database, besides what the crew and the machines need: [`Crew`], [`Fleet`]. Object safe; shared between tasks behind
/// an `Arc`.
#[async_trait]
pub trait Store: Crew + Fleet {
    /// Its location without secrets, for display.
    fn describe(&self) -> String;

    /// What copies, checks and dumps it as a whole; `None` if its backend cannot.
    fn transfer(&self) -> Option<&dyn transfer::Transfer> {
        None
    }

    /// Whether several machines can use it. SQLite's file belongs to one.
    fn is_shared(&self) -> bool;

    /// The time of its server, as an earlier call has learned it by the way: a renewal does. `None` if there is no server,
    /// or nothing was learned yet. Only for display.
    fn known_time(&self) -> Option<ServerTime> {
        None
    }

    /// The same, asked for if nothing was learned yet.
    async fn server_time(&self) -> Result<Option<ServerTime>> {
        Ok(None)
    }

    // ── Sessions: presence, and the owners of claims ────────────────────────────────────────────────────────

    /// Opens `session` for `node`, which may claim from then on. Repeating it changes nothing. A session that was
    /// closed or expired cannot be opened again: [`StoreError::SessionExpired`].
    ///
    /// The first open session of an engine of a node that shares the store appends
    /// [`NodeJoined`](EventBody::NodeJoined).
    async fn open_session(&self, session: &SessionId, node: &NodeInfo, at: Timestamp) -> Result<()>;

    /// Increments the session's beat and returns it. [`StoreError::SessionExpired`] if it is gone: stop all workers.
    async fn renew(&self, session: &SessionId) -> Result<Beat>;

    /// Ends the caller's own session: its claims go back to the queue uncharged, its roles become free.
    async fn close_session(&self, session: &SessionId, at: Timestamp) -> Result<()>;

    /// All open sessions.
    async fn sessions(&self) -> Result<Vec<SessionInfo>>;

    /// Ends another session if its beat is still `beat`; [`StoreError::Conflict`] if it was renewed. Afterwards no
    /// write of that session succeeds, and its roles are free. Its claims go to `heir`, with a higher fence and the
    /// same attempt, so that live workers can be adopted; without an heir they go back to the queue uncharged. The heir
    /// must be open. Returns the tasks that were claimed; repeating the call when the session is gone returns the same.
    /// Without an heir, the end of a node's last open session of an engine appends [`NodeLost`](EventBody::NodeLost).
    async fn expire_session(
        &self,
        session: &SessionId,
        beat: Beat,
        heir: Option<&SessionId>,
        at: Timestamp,
    ) -> Result<Vec<TaskId>>;

    // ── The queue ───────────────────────────────────────────────────────────────────────────────────────────

    /// Adds tasks, all or none. Dependencies must exist already or be part of the same call.
    ///
    /// [`NewTask::if_present`] decides what happens to an id that already exists. Ids are unique regardless of case. A
    /// task whose dependency is dead is skipped at once. Repeating the call changes nothing. A cycle, an unknown
    /// dependency, a duplicate id, or a spec over 900 KiB is [`StoreError::Invalid`].
    async fn enqueue(&self, tasks: &[NewTask], request: &RequestId, at: Timestamp) -> Result<()>;

    /// Tasks of `queue` that could be claimed now, in claim order: higher priority, then order of arrival. An index
    /// walk from `after` on: the cost is the same with ten and with a hundred thousand pending tasks.
    async fn ready(&self, queue: &str, after: Option<&ReadyKey>, limit: usize) -> Result<Vec<Ready>>;

    /// Tasks of `queue` that wait for a time, earliest first.
    async fn timers(&self, queue: &str, limit: usize) -> Result<Vec<(TaskId, Timestamp)>>;

    /// Claims `task` if it is still ready: fence and attempt increase by one, and the attempt's token is set. `None` if
    /// another session was faster. Repeating the same `request` returns the same claim while it lasts, never a second
    /// one.
    async fn claim(&self, claim: &ClaimRequest, at: Timestamp) -> Result<Option<Claim>>;

    /// The claims of a session: adoption and reconciliation start here.
    async fn claims_of(&self, session: &SessionId) -> Result<Vec<Claim>>;

    /// Advances a claimed task. Fenced by the claim; `request` makes it repeatable. Steps that leave the claimed states
    /// end the claim. Dependents are updated in the same transaction. A repeated request is accepted even after it
    /// ended its claim; any other is then [`StoreError::Fenced`]. If a claim ends and the task would wait again
    /// although [`Operation::AskCancel`] was requested, it is cancelled. If an attempt that delivered its prompt would
    /// end the task while other prompts wait, the task becomes pending for the next prompt.
    async fn advance(&self, claim: &Claim, step: &Step, request: &RequestId, at: Timestamp) -> Result<()>;

    /// A report from an agent. Fenced by the attempt's token: accepted only while that attempt is claimed or running.
    async fn report(&self, report: &WorkerReport, request: &RequestId, at: Timestamp) -> Result<()>;

    /// An operation by a user or the scheduler on a task that no session holds. [`StoreError::Refused`] if the state
    /// does not allow it.
    async fn operate(
        &self,
        task: &TaskId,
        operation: &Operation,
        request: &RequestId,
        at: Timestamp,
    ) -> Result<()>;

    /// Queues a follow-up prompt for a task's agent. Each claim takes the oldest waiting prompt, urgent ones first.
    ///
    /// A task that is done, landed, blocked or failed becomes pending in the same transaction, with no failure charged;
    /// done or landed work still counts for its dependents. So does one whose pull request is open: its car leaves the
    /// train, unless it is being merged. For a cancelled or skipped task the call is
    /// [`StoreError::Refused`]. A prompt goes back to the head of its queue when its attempt is released, parked,
    /// retried or cancelled, or ends before its agent started; otherwise it counts as delivered. Repeating the same
    /// `request` queues it once and returns the same answer. A text that is empty or over
    /// [`MAX_PROMPT`](regatta_core::prompt::MAX_PROMPT) is [`StoreError::Invalid`].
    async fn send(
        &self,
        task: &TaskId,
        prompt: &NewPrompt,
        request: &RequestId,
        at: Timestamp,
    ) -> Result<Sent>;

    /// All follow-ups of a task, in order.
    async fn prompts(&self, task: &TaskId) -> Result<Vec<Prompt>>;

    // ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────

    /// One task. [`StoreError::NotFound`] if it does not exist; ids are compared regardless of case.
    async fn task(&self, task: &TaskId) -> Result<TaskRecord>;

    /// Tasks in order of arrival.
    async fn tasks(&self, query: &TaskQuery) -> Result<Vec<TaskRecord>>;

    /// The same without the specs: cheap enough to list a long queue.
    async fn briefs(&self, query: &TaskQuery) -> Result<Vec<TaskBrief>>;

    /// The same in pages of one snapshot, delivered while the rest is read. An error comes last. A slow caller delays
    /// nothing: pages wait in memory.
    async fn brief_pages(
        &self,
        query: &TaskQuery,
    ) -> Result<tokio::sync::mpsc::UnboundedReceiver<Result<Vec<TaskBrief>>>>;

    /// The number of tasks in each state; only those of `queue` if one is given.
    async fn counts(&self, queue: Option<&str>) -> Result<Vec<(StateName, u64)>>;

    /// All attempts of a task, oldest first.
    async fn attempts(&self, task: &TaskId) -> Result<Vec<Attempt>>;

    /// The same of many tasks, by task in the given order; unknown ids are left out.
    async fn attempts_of(&self, tasks: &[TaskId]) -> Result<Vec<(TaskId, Vec<Attempt>)>>;

    /// The last verdict that the agent of this attempt reported, and whether it reported itself stuck.
    async fn reported(&self, task: &TaskId, attempt: u32) -> Result<Reported>;

    /// Totals of what attempts have used: one row per value of `by`, in the order of their keys. An attempt counts from
    /// its first record on, with the figures of that record.
    async fn spending(&self, query: &SpendQuery) -> Result<Vec<Spending>>;

    // ── Events ──────────────────────────────────────────────────────────────────────────────────────────────

    /// Appends an event that changes no state. Repeating the same `request` appends it once. [`StoreError::Invalid`]
    /// for events that describe a change of state: the store writes them together with the change.
    async fn append(
        &self,
        task: Option<&TaskId>,
        attempt: Option<u32>,
        body: &EventBody,
        request: &RequestId,
        at: Timestamp,
    ) -> Result<()>;

    /// Events after `seq`, oldest first; only those of `task` if one is given. A reader that continues from the last
    /// `seq` misses none.
    async fn events(&self, after: u64, task: Option<&TaskId>, limit: usize) -> Result<Vec<Event>>;

    /// The `seq` of the last event, or zero: reading from here shows only new events.
    async fn last_seq(&self) -> Result<u64>;

    /// Wakes whenever something may have changed, by this process or another, except for requests for logs. Only a hint, and several changes may
    /// cause one wake-up: read the store to learn what changed. [`renew`](Self::renew), [`elect`](Self::elect) and
    /// [`resign`](Self::resign) wake nobody in the process that called them.
    async fn subscribe(&self) -> Result<tokio::sync::watch::Receiver<u64>>;

    /// Wakes whenever a document other than a status may have changed. Only a hint, as above; a store that cannot tell
    /// wakes on every change.
    async fn subscribe_documents(&self) -> Result<tokio::sync::watch::Receiver<u64>> {
        self.subscribe().await
    }

    // ── The train ───────────────────────────────────────────────────────────────────────────────────────────

    /// Makes `session` the holder of `role`, unless another open session holds it. Re-entrant. Each new holder gets a
    /// higher term.
    async fn elect(&self, role: &str, session: &SessionId) -> Result<Option<Lander>>;

    /// Gives the role back. Succeeds even if it was already lost.
    async fn resign(&self, lander: &Lander) -> Result<()>;

    /// The cars of a target branch in the order of approval; `regatta_core::train::order` sorts them for landing. Cars
    /// that only a newer version can read are left out.
    async fn cars(&self, target: &str) -> Result<Vec<Car>>;

    /// Advances a car and its task. Fenced by the lander's term; the role must be `train:<target>`, or `forge:<target>`
    /// for a car that lands by a pull request. Only the gated candidate can land, or what was merged elsewhere. A step that has already been taken is accepted again; one that contradicts the car's step is
    /// [`StoreError::Conflict`].
    async fn land(&self, lander: &Lander, task: &TaskId, step: &LandStep, at: Timestamp) -> Result<()> {
        self.land_all(lander, &[(task.clone(), step.clone())], at).await
    }

    /// The same for many cars: all steps or none.
    async fn land_all(&self, lander: &Lander, steps: &[(TaskId, LandStep)], at: Timestamp) -> Result<()>;

    /// Trees that passed this gate, newest first; only a limited number of the newest is kept.
    async fn passes(&self, gate: &str) -> Result<Vec<Oid>>;

    /// Records that this tree passed. Repeating it changes nothing.
    async fn record_pass(&self, gate: &str, tree: &Oid, at: Timestamp) -> Result<()>;

    // ── Profiles: whose turn it is, and their limits ────────────────────────────────────────────────────────

    /// Every account that was ever used or limited, by profile and agent.
    async fn accounts(&self) -> Result<Vec<AccountRecord>>;

    /// Records a use of the account: its turn is now after that of all others. Repeating it does no harm.
    async fn take_turn(&self, account: &AccountKey) -> Result<()>;

    /// Records that the account reached a limit. Replaces the earlier record of the same limit, whatever its times.
    async fn cool(&self, account: &AccountKey, cooling: &Cooling) -> Result<()>;

    /// Removes all limits of a profile, for every agent. Succeeds even if there are none.
    async fn warm(&self, profile: &str) -> Result<()>;
}
