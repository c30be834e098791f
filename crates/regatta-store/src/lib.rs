//! The store: the only thing that Regatta's processes share.
//!
//! The trait is the contract, and the conformance suite (feature `conformance`) is its meaning. Rules that every
//! backend keeps, and every caller may rely on:
//!
//! * **Atomic.** A call happens whole or not at all; a state and its event are one step.
//! * **Repeatable.** After [`StoreError::Unavailable`] and [`StoreError::Busy`] the caller repeats the same call with the same arguments
//!   until it gets an answer. Writes carry a request id or are idempotent by nature.
//! * **Fenced.** A write names its authority: a claim (task, fence, session), an attempt token, or a lander's
//!   term. Authority that has passed on is refused inside the same step.
//! * **Clock-free.** No call compares times, but for the pause between two starts ([`ClaimLimits::stagger`]), which
//!   people ask for in seconds. Timestamps are recorded for people, and handed back in order for callers who own a
//!   clock.

mod admission;
mod crew;
mod error;
mod model;
mod spending;
pub mod sqlite;

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "conformance")]
pub mod faulty;

use regatta_core::state::StateName;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use regatta_core::attempt::Attempt;
use regatta_core::event::{Event, EventBody};
use regatta_core::id::TaskId;
use regatta_core::profiles::Cooling;
use regatta_core::prompt::Prompt;
use regatta_core::time::Timestamp;
use regatta_core::train::{Car, LandStep};

pub use admission::*;
pub use crew::*;
pub use error::{Result, StoreError};
pub use model::*;
pub use spending::*;

/// Opens the store at `url`: `sqlite:PATH`, or a plain path for the same.
pub async fn open(url: &str) -> Result<Arc<dyn Store>> {
    let path = match url.split_once(':') {
        Some(("sqlite", path)) => path.strip_prefix("//").unwrap_or(path),
        Some((scheme, rest)) if rest.starts_with("//") => {
            return Err(StoreError::Invalid(format!(
                "the store {scheme}:// is not built into this version of Regatta; use sqlite:PATH"
            )));
        }
        _ => url,
    };
    if path.is_empty() {
        return Err(StoreError::Invalid(format!("the store {url:?} names no file; use sqlite:PATH")));
    }
    let path = PathBuf::from(path);
    let opened = tokio::task::spawn_blocking(move || sqlite::SqliteStore::open(path)).await;
    let store =
        opened.map_err(|error| StoreError::Unavailable(format!("opening was given up: {error}")))??;
    Ok(Arc::new(store))
}

/// What Regatta needs of a database, beside what the crew needs: [`Crew`]. Object safe; shared between tasks behind an
/// `Arc`.
#[async_trait]
pub trait Store: Crew {
    /// Where it is, without secrets, for people.
    fn describe(&self) -> String;

    // ── Sessions: presence, and what claims hang on ─────────────────────────────────────────────────────────

    /// Opens `session` for `node`. Afterwards it may claim. Repeating it changes nothing.
    /// A session that was closed or expired can not be opened again: [`StoreError::SessionExpired`].
    async fn open_session(&self, session: &SessionId, node: &NodeInfo) -> Result<()>;

    /// Bumps the session's beat and returns it. [`StoreError::SessionExpired`] if it is gone: stop all workers.
    async fn renew(&self, session: &SessionId) -> Result<Beat>;

    /// Ends a session of one's own: its claims go back to the queue uncharged, its roles are free.
    async fn close_session(&self, session: &SessionId, at: Timestamp) -> Result<()>;

    /// All open sessions.
    async fn sessions(&self) -> Result<Vec<SessionInfo>>;

    /// Ends somebody else's session, if its beat is still `beat`; [`StoreError::Conflict`] if it lives.
    /// Afterwards no write of that session succeeds, and its roles are free. Its claims go to `heir`, with a
    /// higher fence and the same attempt, so that live workers can be adopted; without an heir they go back to
    /// the queue uncharged. The heir has to be open. Returns the tasks that were claimed; repeating it when the
    /// session is gone returns the same.
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
    /// What happens to an id that is there already is said by [`NewTask::if_present`]. Ids are unique without
    /// regard to case. A task whose dependency is dead is skipped at once. Repeating the call changes nothing.
    /// A cycle, an unknown dependency, an id named twice, or a spec over 900 KiB is [`StoreError::Invalid`].
    async fn enqueue(&self, tasks: &[NewTask], request: &RequestId, at: Timestamp) -> Result<()>;

    /// Tasks of `queue` that could be claimed now, in claim order: higher priority, then order of arrival.
    /// An index walk from `after` on: costs the same at ten and at a hundred thousand pending tasks.
    async fn ready(&self, queue: &str, after: Option<&ReadyKey>, limit: usize) -> Result<Vec<Ready>>;

    /// Tasks of `queue` that wait for a time, earliest first.
    async fn timers(&self, queue: &str, limit: usize) -> Result<Vec<(TaskId, Timestamp)>>;

    /// Takes `task`, if it is still ready: fence and attempt go up by one, the attempt's token is set.
    /// `None` if somebody else was faster. The same `request` gets the same claim while it lasts, and no second one.
    async fn claim(&self, claim: &ClaimRequest, at: Timestamp) -> Result<Option<Claim>>;

    /// The claims that hang on a session: adoption and reconciliation start here.
    async fn claims_of(&self, session: &SessionId) -> Result<Vec<Claim>>;

    /// Moves a claimed task on. Fenced by the claim; `request` makes it repeatable.
    /// Steps that leave the claimed states end the claim. Dependents follow in the same step.
    /// A repeated request is fine even after the claim it ended; another one is then [`StoreError::Fenced`].
    /// Where a claim ends and the task would wait again although [`Operation::AskCancel`] was heard, it is cancelled.
    /// Where an attempt that told its agent would have ended the task while prompts wait, it is pending for the next.
    async fn advance(&self, claim: &Claim, step: &Step, request: &RequestId, at: Timestamp) -> Result<()>;

    /// A word from a worker. Fenced by the attempt's token: accepted only while that attempt is claimed or running.
    async fn report(&self, report: &WorkerReport, request: &RequestId, at: Timestamp) -> Result<()>;

    /// A change by a person or by the scheduler to a task that nobody holds.
    /// [`StoreError::Refused`] says what the state does not allow.
    async fn operate(
        &self,
        task: &TaskId,
        operation: &Operation,
        request: &RequestId,
        at: Timestamp,
    ) -> Result<()>;

    /// Says something more to a task's agent. It is kept, and each claim takes the oldest that waits.
    ///
    /// A task that is done, landed, blocked or failed is pending again in the same step, with no failure charged; what
    /// was done or landed stands for whoever depends on it. A cancelled or skipped one is [`StoreError::Refused`].
    /// A prompt goes back to the head of its queue when its attempt is released, parked, retried or cancelled, or ends
    /// before its agent was started; else it was told. The same `request` says it once, and gets the same answer.
    /// An empty text, or one over [`MAX_PROMPT`](regatta_core::prompt::MAX_PROMPT) is [`StoreError::Invalid`].
    async fn send(
        &self,
        task: &TaskId,
        prompt: &NewPrompt,
        request: &RequestId,
        at: Timestamp,
    ) -> Result<Sent>;

    /// All that was said to a task's agent after its order, in that order.
    async fn prompts(&self, task: &TaskId) -> Result<Vec<Prompt>>;

    // ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────

    /// One task. [`StoreError::NotFound`] if there is none; ids compare without regard to case.
    async fn task(&self, task: &TaskId) -> Result<TaskRecord>;

    /// Tasks in order of arrival.
    async fn tasks(&self, query: &TaskQuery) -> Result<Vec<TaskRecord>>;

    /// The same, without what was ordered: cheap enough to list a long queue.
    async fn briefs(&self, query: &TaskQuery) -> Result<Vec<TaskBrief>>;

    /// The same in pages, of one moment, handed over while the rest is read. An error is the last of them. A slow
    /// caller holds nothing up: what is read waits in memory.
    async fn brief_pages(
        &self,
        query: &TaskQuery,
    ) -> Result<tokio::sync::mpsc::UnboundedReceiver<Result<Vec<TaskBrief>>>>;

    /// How many tasks are in each state, by name; only those of `queue` if one is given.
    async fn counts(&self, queue: Option<&str>) -> Result<Vec<(StateName, u64)>>;

    /// All attempts of a task, oldest first.
    async fn attempts(&self, task: &TaskId) -> Result<Vec<Attempt>>;

    /// The last verdict the worker of this attempt handed in, and whether it called itself stuck.
    async fn reported(&self, task: &TaskId, attempt: u32) -> Result<Reported>;

    /// What attempts have used, added up here: one row per value of `by`, in the order of their keys. An attempt counts
    /// from its first record on, with what that record says.
    async fn spending(&self, query: &SpendQuery) -> Result<Vec<Spending>>;

    // ── Events ──────────────────────────────────────────────────────────────────────────────────────────────

    /// Appends an event that changes no state. The same `request` appends it once.
    /// [`StoreError::Invalid`] for those that tell of a state: they are written together with it, by the store.
    async fn append(
        &self,
        task: Option<&TaskId>,
        attempt: Option<u32>,
        body: &EventBody,
        request: &RequestId,
        at: Timestamp,
    ) -> Result<()>;

    /// Events after `seq`, oldest first; only those of `task` if one is given. Following the last `seq` misses none.
    async fn events(&self, after: u64, task: Option<&TaskId>, limit: usize) -> Result<Vec<Event>>;

    /// The `seq` of the last event, zero where there is none: following from here shows only what comes.
    async fn last_seq(&self) -> Result<u64>;

    /// Wakes whenever something may have changed, by this process or another. A hint, coalesced: truth is read.
    async fn subscribe(&self) -> Result<tokio::sync::watch::Receiver<u64>>;

    // ── The train ───────────────────────────────────────────────────────────────────────────────────────────

    /// Makes `session` the holder of `role`, if nobody alive holds it. Re-entrant. Each new holder gets a higher term.
    async fn elect(&self, role: &str, session: &SessionId) -> Result<Option<Lander>>;

    /// Gives the role back. Fine if it was lost already.
    async fn resign(&self, lander: &Lander) -> Result<()>;

    /// The cars of a target branch, unordered facts for `regatta_core::train::order`.
    async fn cars(&self, target: &str) -> Result<Vec<Car>>;

    /// Moves a car on, and its task with it. Fenced by the lander's term; the role has to be `train:<target>`.
    /// Only the candidate that was gated can be landed.
    /// A step that is already true is accepted again; one that contradicts the car's step is [`StoreError::Conflict`].
    async fn land(&self, lander: &Lander, task: &TaskId, step: &LandStep, at: Timestamp) -> Result<()> {
        self.land_all(lander, &[(task.clone(), step.clone())], at).await
    }

    /// The same for many at once: all of them, or none.
    async fn land_all(&self, lander: &Lander, steps: &[(TaskId, LandStep)], at: Timestamp) -> Result<()>;

    /// Trees that passed this gate, the newest first; the oldest of very many are forgotten.
    async fn passes(&self, gate: &str) -> Result<Vec<String>>;

    /// This tree passed. Repeating it changes nothing.
    async fn record_pass(&self, gate: &str, tree: &str, at: Timestamp) -> Result<()>;

    // ── Profiles: whose turn it is, and what each has run into ──────────────────────────────────────────────

    /// Every account that was ever used or has ever cooled down, by profile and agent.
    async fn accounts(&self) -> Result<Vec<AccountRecord>>;

    /// The account is used once more: its turn is after that of all others. Repeating it changes nothing that matters.
    async fn take_turn(&self, account: &AccountKey) -> Result<()>;

    /// The account has run into a limit. What was known about the same limit is forgotten, whatever its times.
    async fn cool(&self, account: &AccountKey, cooling: &Cooling) -> Result<()>;

    /// Forgets what a profile has run into, with every agent. Fine if that was nothing.
    async fn warm(&self, profile: &str) -> Result<()>;
}
