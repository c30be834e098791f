//! The values that go in and out of the store.

use std::fmt;

use regatta_core::attempt::Attempt;
use regatta_core::event::EventBody;
use regatta_core::exit::Exit;
use regatta_core::failure::FailureClass;
use regatta_core::id::TaskId;
use regatta_core::part::Part;
use regatta_core::profiles::{Cooling, Standing};
use regatta_core::prompt::Prompt;
use regatta_core::spec::TaskSpec;
use regatta_core::state::{BlockReason, ParkReason, StateName, TaskState};
use regatta_core::time::Timestamp;
use regatta_core::train::LandRequest;
use regatta_core::verdict::Statement;
use serde::{Deserialize, Serialize};

use crate::ClaimLimits;

/// The queue that a daemon works on. A foreground run has one of its own, named after its session.
pub const MAIN_QUEUE: &str = "main";

/// A task whose holders have gone so often in a row, without a word of how it went, is blocked.
pub const LOST_LEASES: u32 = 5;

/// A node's session in the store. Not an agent's conversation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SessionId(pub String);

/// Made by the caller, once per thing it wants done; a repeat carries the same one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RequestId(pub String);

impl RequestId {
    /// A fresh one.
    pub fn fresh() -> Self {
        Self(random_hex())
    }
}

impl SessionId {
    /// A fresh one that begins with `prefix`.
    pub fn fresh(prefix: &str) -> Self {
        Self(format!("{prefix}-{}", random_hex()))
    }
}

/// 128 random bits in hexadecimal.
pub(crate) fn random_hex() -> String {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes).expect("the system has random bytes");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How often a session was renewed. Compared for equality only.
pub type Beat = u64;

/// Who opened a session: enough to tell on the same machine whether that process still lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// The node's name.
    pub node: String,
    /// What runs: `run PLAN` or `daemon`.
    pub what: String,
    /// The machine's boot.
    pub boot_id: String,
    /// The process.
    pub pid: u32,
    /// When that process started, in clock ticks since boot.
    pub starttime: u64,
    /// The machine by an id that does not change with its name; unknown in sessions of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The pid namespace that the process id belongs to; unknown in sessions of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_ns: Option<u64>,
}

/// An open session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its id.
    pub session: SessionId,
    /// Who opened it.
    pub node: NodeInfo,
    /// Its beat as read now.
    pub beat: Beat,
}

/// A task on its way into the queue.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTask {
    /// What is ordered.
    pub spec: TaskSpec,
    /// The queue it waits in.
    pub queue: String,
    /// What to do if the id is there already.
    pub if_present: IfPresent,
}

/// What `enqueue` does with an id that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfPresent {
    /// [`StoreError::Conflict`](crate::StoreError::Conflict), unless this very request put it there.
    Refuse,
    /// The new spec and queue replace the old, the task is pending again with no work failure charged, attempts go on
    /// being counted. Refused while it is claimed or landing.
    Restart,
    /// As `Restart`, but what is landed or done stays so (in the new queue, with the new spec), and what is
    /// claimed or landing only changes its queue.
    Resume,
}

/// Place in claim order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyKey {
    /// Higher first.
    pub priority: i32,
    /// Then order of arrival.
    pub seq: u64,
}

/// A task that could be claimed.
#[derive(Clone, Debug, PartialEq)]
pub struct Ready {
    /// Where it stands.
    pub key: ReadyKey,
    /// What is ordered.
    pub spec: TaskSpec,
}

/// Asks for one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// Which.
    pub task: TaskId,
    /// By whom.
    pub session: SessionId,
    /// The SHA-256 of the attempt's secret token, in hexadecimal.
    pub token_hash: String,
    /// This request.
    pub request: RequestId,
    /// For an engine's claim: what must not be exceeded. `None` for a member's, which is no agent.
    pub limits: Option<ClaimLimits>,
}

/// Permission to move one task on. Everything a worker writes names it.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The task.
    pub task: TaskId,
    /// Grows with every change of owner.
    pub fence: u64,
    /// The attempt.
    pub attempt: u32,
    /// The session it hangs on.
    pub session: SessionId,
    /// What is ordered.
    pub spec: TaskSpec,
    /// Work failures charged so far.
    pub charged: u32,
    /// Environment failures in a row so far.
    pub environment_failures: u32,
    /// The follow-up that this attempt is for.
    pub prompt: Option<Prompt>,
    /// The done or landed work that the task is being followed up on.
    pub standing: Option<TaskState>,
}

/// How a claimed task moves on. Each variant says what the store writes beside the state.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The lane is ready; the state stays claimed.
    LaneReady(Attempt),
    /// The agent runs.
    Started {
        /// What is known of the attempt.
        attempt: Attempt,
        /// The agent's process id, for the event.
        pid: u32,
    },
    /// More is known (cost, tokens, session); no event, no change of state.
    Update(Attempt),
    /// The agent's process tree is gone.
    Exited {
        /// What is known of the attempt.
        attempt: Attempt,
        /// How.
        exit: Exit,
    },
    /// The attempt is settled. `attempt.charged` says whether it counts.
    Settled {
        /// The final record of the attempt.
        attempt: Attempt,
        /// What follows.
        outcome: Outcome,
    },
}

/// What follows from a settled attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Into the train.
    Approve(LandRequest),
    /// Done, nothing to land.
    Done {
        /// The commit, if there is one.
        head: Option<String>,
    },
    /// Again, not before that time.
    Retry {
        /// Not before.
        not_before: Option<Timestamp>,
        /// Which class of failure.
        class: FailureClass,
        /// What failed.
        why: String,
    },
    /// Back to the queue, as if it had not happened: stopped by an operator, lost.
    Release {
        /// Why.
        why: String,
    },
    /// Wait for a time; counts as an environment failure if `why` is that.
    Park {
        /// Until then.
        until: Timestamp,
        /// Why.
        why: ParkReason,
        /// In words.
        detail: String,
    },
    /// Wait for a person.
    Block {
        /// Why.
        reason: BlockReason,
        /// In words.
        detail: String,
    },
    /// Given up.
    Fail {
        /// Why.
        why: String,
    },
    /// Called off while it ran; the process tree is gone by now.
    Cancel {
        /// By whom.
        by: String,
    },
}

/// A word from a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerReport {
    /// About which task.
    pub task: TaskId,
    /// In which attempt.
    pub attempt: u32,
    /// The SHA-256 of the token it was given.
    pub token_hash: String,
    /// What it says.
    pub word: Word,
}

/// What a worker says.
#[derive(Clone, Debug, PartialEq)]
pub enum Word {
    /// Its verdict; the last one counts.
    Done(Statement),
    /// How far it is.
    Progress {
        /// In a few words.
        label: String,
        /// More of it.
        detail: Option<String>,
        /// The phase it belongs to.
        phase: Option<String>,
    },
    /// It cannot go on without a person.
    Stuck(String),
}

impl Word {
    /// The event that records it.
    pub fn event(&self) -> EventBody {
        match self {
            Word::Done(statement) => EventBody::Reported { statement: statement.clone() },
            Word::Progress { label, detail, phase } => {
                EventBody::Progressed { label: label.clone(), detail: detail.clone(), phase: phase.clone() }
            }
            Word::Stuck(why) => EventBody::Stuck { why: why.clone() },
        }
    }
}

/// What the worker of one attempt has said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reported {
    /// Its last verdict.
    pub statement: Option<Statement>,
    /// Why it called itself stuck, if it did after that verdict.
    pub stuck: Option<String>,
}

/// A change to a task that nobody holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Called off. A claimed task is refused here: its owner has to end the worker first, see [`Operation::AskCancel`].
    /// So is one whose car has passed its gate: it may be on the target already.
    Cancel {
        /// By whom.
        by: String,
    },
    /// Sets a flag that the owner of a claimed task obeys: end the worker, then settle with [`Outcome::Cancel`].
    AskCancel {
        /// By whom.
        by: String,
    },
    /// Pending again, charged attempts forgotten; dependents that were skipped because of it come back.
    /// Refused while something it depends on is dead: that has to come back first.
    Requeue {
        /// By whom.
        by: String,
    },
    /// A failed or blocked task is pending again, with its failures remembered: refused once as many are charged as it
    /// may have attempts. Dependents come back with it, as after [`Operation::Requeue`].
    Retry {
        /// By whom.
        by: String,
    },
    /// Work that is done, or was blocked by a conflict or by tests, joins the train.
    Land {
        /// By whom.
        by: String,
        /// The attempt that made it.
        attempt: u32,
        /// What is asked of the train.
        request: LandRequest,
    },
    /// A person takes work that was blocked for its verdict: it joins the train, and the attempt keeps its commits.
    Accept {
        /// By whom.
        by: String,
        /// The attempt that made it.
        attempt: u32,
        /// What is asked of the train.
        request: LandRequest,
    },
    /// The next attempt starts a new conversation: those of earlier attempts are not resumed.
    EndConversations,
    /// The time it waited for has come.
    Due,
    /// Wait for a time.
    Park {
        /// Until then.
        until: Timestamp,
        /// In words.
        detail: String,
    },
}

/// Something more to say to a task's agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPrompt {
    /// What the agent is told.
    pub text: String,
    /// How it begins, without secrets, for the event log.
    pub beginning: String,
    /// Who says it.
    pub by: String,
    /// The queue a task that has ended waits in from now on; `None` for the one it has.
    pub queue: Option<String>,
    /// The attempt under way is interrupted for it, and it is taken before prompts that are not urgent.
    pub urgent: bool,
}

/// What became of something that was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Which of the task's follow-ups it is, from 1.
    pub prompt: u32,
    /// Its place among those that wait, from 1.
    pub position: u32,
    /// The task had ended, and is pending again because of it.
    pub rearmed: bool,
}

/// A task as the store has it.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRecord {
    /// What is ordered.
    pub spec: TaskSpec,
    /// Where it is in its life.
    pub state: TaskState,
    /// Order of arrival.
    pub seq: u64,
    /// The queue it waits in.
    pub queue: String,
    /// Attempts so far.
    pub attempts: u32,
    /// Of which charged.
    pub charged: u32,
    /// Environment failures in a row so far.
    pub environment_failures: u32,
    /// Dependencies that are not met yet.
    pub waiting_on: Vec<TaskId>,
    /// The session that holds it.
    pub session: Option<SessionId>,
    /// Its fence.
    pub fence: u64,
    /// Who asked for it to be cancelled while it is held.
    pub cancel_asked: Option<String>,
    /// Who asked for the attempt under way to be interrupted, so that its agent continues with an urgent prompt.
    pub interrupt_asked: Option<String>,
    /// The done or landed work that it is being followed up on: whoever depends on it has it.
    pub standing: Option<TaskState>,
    /// When it entered the queue.
    pub created_at: Timestamp,
    /// When its state last changed.
    pub updated_at: Timestamp,
}

impl TaskRecord {
    /// The state in which its work can be had: its own, or the one from before it was followed up.
    pub fn met(&self) -> Option<&TaskState> {
        Some(&self.state).filter(|state| state.is_met()).or(self.standing.as_ref())
    }
}

/// What a list says of a task: everything but its order, which may be long.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskBrief {
    /// Its name.
    pub id: TaskId,
    /// One line for people.
    pub title: String,
    /// The entry of `agents:` that does the work.
    pub agent: String,
    /// What kind of work it is.
    pub labels: Vec<String>,
    /// The part it plays in something larger.
    pub part: Option<Part>,
    /// Higher first.
    pub priority: i32,
    /// Reads only: no lane of its own, nothing to land.
    pub read_only: bool,
    /// Where it is in its life.
    pub state: TaskState,
    /// Attempts so far.
    pub attempts: u32,
    /// Dependencies that are not met yet.
    pub waiting_on: Vec<TaskId>,
    /// When its state last changed.
    pub updated_at: Timestamp,
}

impl From<&TaskRecord> for TaskBrief {
    fn from(record: &TaskRecord) -> Self {
        Self {
            id: record.spec.id.clone(),
            title: record.spec.title.clone(),
            agent: record.spec.agent.clone(),
            labels: record.spec.labels.clone(),
            part: record.spec.part.clone(),
            priority: record.spec.priority,
            read_only: record.spec.read_only,
            state: record.state.clone(),
            attempts: record.attempts,
            waiting_on: record.waiting_on.clone(),
            updated_at: record.updated_at,
        }
    }
}

/// Which tasks to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskQuery {
    /// Only these, without regard to case; those that are not there are left out. `None` for all.
    pub ids: Option<Vec<TaskId>>,
    /// Only of this queue.
    pub queue: Option<String>,
    /// Only in these states; empty for all.
    pub states: Vec<StateName>,
    /// Only ids that begin with this, without regard to case.
    pub prefix: Option<String>,
    /// Only after this order of arrival.
    pub after: Option<u64>,
    /// At most so many; zero for all.
    pub limit: usize,
    /// Where there are more than `limit`: those whose state changed last, instead of the first to arrive.
    pub latest: bool,
}

/// Permission to land. Every step of a car names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lander {
    /// The role, `train:<target>`.
    pub role: String,
    /// The holder.
    pub session: SessionId,
    /// Grows with every new holder.
    pub term: u64,
}

/// One account: a profile, as one kind of agent uses it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccountKey {
    /// The profile.
    pub profile: String,
    /// The kind of agent.
    pub agent: String,
}

/// What is known of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountRecord {
    /// Which.
    pub key: AccountKey,
    /// The highest was used last; zero for one that never was.
    pub turn: u64,
    /// What it has run into, by the limit's name.
    pub coolings: Vec<Cooling>,
}

impl AccountRecord {
    /// What decides whether it is used.
    pub fn standing(&self) -> Standing {
        Standing { profile: self.key.profile.clone(), turn: self.turn, coolings: self.coolings.clone() }
    }
}
