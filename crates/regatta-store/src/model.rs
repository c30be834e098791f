//! The values that go in and out of the store.

use std::fmt;

use regatta_core::attempt::Attempt;
use regatta_core::event::EventBody;
use regatta_core::exit::Exit;
use regatta_core::failure::FailureClass;
use regatta_core::hex::hex;
use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::part::Part;
use regatta_core::profiles::{AccountStanding, Cooling};
use regatta_core::prompt::Prompt;
use regatta_core::rest::Rest;
use regatta_core::sandbox::Level;
use regatta_core::session::SessionKind;
use regatta_core::spec::TaskSpec;
use regatta_core::state::{BlockReason, ParkReason, StateName, TaskState};
use regatta_core::time::Timestamp;
use regatta_core::train::LandRequest;
use regatta_core::verdict::Statement;
use serde::{Deserialize, Serialize};

use crate::ClaimLimits;

/// The queue of the daemon. A foreground run has its own, named after its session.
pub const MAIN_QUEUE: &str = "main";

/// The number of holders lost in a row, without a result, after which a task is blocked.
pub const LOST_LEASES: u32 = 5;

/// A node's session in the store. Not an agent's conversation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SessionId(pub String);

/// Created by the caller, once per intended change; a repeat carries the same id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestId(pub String);

impl RequestId {
    /// A fresh id.
    pub fn fresh() -> Self {
        Self(random_hex())
    }
}

impl SessionId {
    /// A fresh id that begins with `prefix`.
    pub fn fresh(prefix: &str) -> Self {
        Self(format!("{prefix}-{}", random_hex()))
    }
}

/// 128 random bits in hexadecimal.
pub(crate) fn random_hex() -> String {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes).expect("the system has random bytes");
    hex(&bytes)
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How often a session was renewed. Only compared for equality.
pub type Beat = u64;

/// The process that opened a session: enough to check on the same machine whether it is still alive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredNode")]
pub struct NodeInfo {
    /// The node's name.
    pub node: String,
    /// What is running.
    pub kind: SessionKind,
    /// The same as text for display: `run PLAN` or `daemon`. No decision depends on it.
    pub what: String,
    /// The boot id of the machine.
    pub boot_id: String,
    /// The process id.
    pub pid: u32,
    /// When that process started, in clock ticks since boot.
    pub starttime: u64,
    /// An id of the machine that does not change with its name; unknown in sessions of older versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The pid namespace that the process id belongs to; unknown in sessions of older versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid_ns: Option<u64>,
    /// The clone in which an engine works, where machines share the store; `None` if one machine has the store alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// For how long its beat may stay the same, in milliseconds. Its agents have ended by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// The node: the id of this user's Regatta on this machine; unknown in sessions of older versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// The number of its program ([`program`](crate::program)); unknown in sessions of older versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<u32>,
    /// What only a newer version knows of it.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A [`NodeInfo`] as a store may have it: sessions of older versions do not say their kind.
#[derive(Deserialize)]
struct StoredNode {
    node: String,
    kind: Option<SessionKind>,
    what: String,
    boot_id: String,
    pid: u32,
    starttime: u64,
    machine: Option<String>,
    pid_ns: Option<u64>,
    place: Option<String>,
    lease_ms: Option<u64>,
    node_id: Option<String>,
    program: Option<u32>,
    #[serde(flatten)]
    rest: Rest,
}

impl From<StoredNode> for NodeInfo {
    fn from(stored: StoredNode) -> Self {
        let StoredNode {
            node,
            kind,
            what,
            boot_id,
            pid,
            starttime,
            machine,
            pid_ns,
            place,
            lease_ms,
            node_id,
            program,
            rest,
        } = stored;
        let kind = kind.unwrap_or_else(|| SessionKind::of_text(&what));
        Self {
            node,
            kind,
            what,
            boot_id,
            pid,
            starttime,
            machine,
            pid_ns,
            place,
            lease_ms,
            node_id,
            program,
            rest,
        }
    }
}

/// An open session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its id.
    pub session: SessionId,
    /// The process that opened it.
    pub node: NodeInfo,
    /// Its current beat.
    pub beat: Beat,
}

/// A task to be queued.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTask {
    /// The task as ordered.
    pub spec: TaskSpec,
    /// The queue it waits in.
    pub queue: String,
    /// What to do if the id already exists.
    pub if_present: IfPresent,
}

/// What `enqueue` does with an id that already exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfPresent {
    /// [`StoreError::Conflict`](crate::StoreError::Conflict), unless this same request added it.
    Refuse,
    /// The new spec and queue replace the old ones, the task is pending again with no work failure charged, and
    /// attempts keep counting up. Refused while it is claimed or landing.
    Restart,
    /// Like `Restart`, but landed or done tasks stay so (in the new queue, with the new spec), and claimed or landing
    /// ones only change their queue.
    Resume,
}

/// A position in claim order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyKey {
    /// Its priority; higher comes first.
    pub priority: i32,
    /// Then order of arrival.
    pub seq: u64,
}

/// A task that could be claimed.
#[derive(Clone, Debug, PartialEq)]
pub struct Ready {
    /// Its position.
    pub key: ReadyKey,
    /// The task as ordered.
    pub spec: TaskSpec,
}

/// A request to claim one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The task to claim.
    pub task: TaskId,
    /// The claiming session.
    pub session: SessionId,
    /// The SHA-256 of the attempt's secret token, in hexadecimal.
    pub token_hash: String,
    /// The id of this request.
    pub request: RequestId,
    /// The limits of an engine's claim. `None` for a member's claim, which starts no agent.
    pub limits: Option<ClaimLimits>,
}

/// Permission to advance one task. Everything a worker writes names it.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    pub task: TaskId,
    /// Grows with every new owner.
    pub fence: u64,
    /// The attempt's number.
    pub attempt: u32,
    /// The session it belongs to.
    pub session: SessionId,
    /// The task as ordered.
    pub spec: TaskSpec,
    /// Work failures charged so far.
    pub charged: u32,
    /// Environment failures in a row so far.
    pub environment_failures: u32,
    /// The follow-up that this attempt is for.
    pub prompt: Option<Prompt>,
    /// The done or landed work that this follow-up builds on.
    pub standing: Option<TaskState>,
}

/// How a claimed task advances. Each variant says what the store writes besides the state.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The lane is ready; the state stays claimed.
    LaneReady(Attempt),
    /// The agent has started.
    Started {
        /// What is known about the attempt.
        attempt: Attempt,
        /// The agent's process id, for the event.
        pid: u32,
    },
    /// More is known (cost, tokens, session); no event, no change of state.
    Update(Attempt),
    /// The agent's process tree is gone.
    Exited {
        /// What is known about the attempt.
        attempt: Attempt,
        /// How it ended.
        exit: Exit,
    },
    /// The attempt is settled. `attempt.charged` says whether it counts against the maximum.
    Settled {
        /// The final record of the attempt.
        attempt: Attempt,
        /// What happens to the task.
        outcome: Outcome,
    },
}

/// What happens to a task after a settled attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Join the train.
    Approve(LandRequest),
    /// Done, with nothing to land.
    Done {
        /// The commit with the work, if there is one.
        head: Option<Oid>,
    },
    /// Try again, not before the given time.
    Retry {
        /// The earliest start.
        not_before: Option<Timestamp>,
        /// The class of the failure.
        class: FailureClass,
        /// What failed.
        why: String,
    },
    /// Back to the queue as if the attempt had not happened: stopped by an operator, or lost.
    Release {
        /// The reason.
        why: String,
    },
    /// Wait for a time; counts as an environment failure if that is the reason.
    Park {
        /// The time to wait for.
        until: Timestamp,
        /// The reason.
        why: ParkReason,
        /// The reason in words.
        detail: String,
    },
    /// Wait for a user.
    Block {
        reason: BlockReason,
        /// The reason in words.
        detail: String,
    },
    /// Failed for good.
    Fail {
        /// The reason.
        why: String,
    },
    /// Cancelled while it ran; its process tree has already ended.
    Cancel {
        /// Who cancelled it.
        by: String,
    },
}

/// A report from an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerReport {
    /// The task it is about.
    pub task: TaskId,
    /// The attempt it is about.
    pub attempt: u32,
    /// The SHA-256 of the agent's token.
    pub token_hash: String,
    /// The report itself.
    pub word: Word,
}

/// What an agent reports.
#[derive(Clone, Debug, PartialEq)]
pub enum Word {
    /// Its verdict; the last one counts.
    Done(Statement),
    /// Its progress.
    Progress {
        /// In a few words.
        label: String,
        /// More detail.
        detail: Option<String>,
        /// The phase it belongs to.
        phase: Option<String>,
    },
    /// It cannot continue without a user.
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

/// What the agent of one attempt has reported.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reported {
    /// Its last verdict.
    pub statement: Option<Statement>,
    /// Why it reported itself stuck, if it did so after that verdict.
    pub stuck: Option<String>,
}

/// An operation on a task that no session holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Cancels it. Refused for a claimed task, whose owner must end the worker first: see [`Operation::AskCancel`].
    /// Also refused once its car has passed its gate: it may be on the target already.
    Cancel {
        /// Who cancels it.
        by: String,
    },
    /// Sets a flag that the owner of a claimed task obeys: it ends the worker, then settles with [`Outcome::Cancel`].
    AskCancel {
        /// Who asks for it.
        by: String,
    },
    /// Makes it pending again with no attempts charged; dependents that were skipped because of it are pending again
    /// too. Refused while a dependency is dead: that one must be requeued first.
    Requeue {
        /// Who requeues it.
        by: String,
    },
    /// Makes a failed or blocked task pending again, with its failures kept: refused once all its attempts are charged.
    /// Dependents are pending again too, as after [`Operation::Requeue`].
    Retry {
        /// Who retries it.
        by: String,
    },
    /// Lets work that is done, or was blocked by a conflict or by tests, join the train.
    Land {
        /// Who lands it.
        by: String,
        /// The attempt that made the work.
        attempt: u32,
        /// What to land, and how.
        request: LandRequest,
    },
    /// A user accepts work that was blocked for its verdict: it joins the train, and the attempt keeps its commits.
    Accept {
        /// Who accepts it.
        by: String,
        /// The attempt that made the work.
        attempt: u32,
        /// What to land, and how.
        request: LandRequest,
    },
    /// The next attempt starts a new conversation: earlier ones are not resumed.
    EndConversations,
    /// The time it waited for has come.
    Due,
    /// Wait for a time.
    Park {
        /// The time to wait for.
        until: Timestamp,
        /// The reason in words.
        detail: String,
    },
    /// Only this node may work on it; any node if there is none. Refused once it is done, landed, landing or cancelled.
    Assign {
        /// The node's name.
        node: Option<String>,
        /// Who assigns it.
        by: String,
    },
}

/// A follow-up to be sent to a task's agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPrompt {
    /// The text for the agent.
    pub text: String,
    /// Its beginning, without secrets, for the event log.
    pub beginning: String,
    /// Who sends it.
    pub by: String,
    /// The queue that a finished task moves to; `None` for its current one.
    pub queue: Option<String>,
    /// Interrupts the current attempt, and is taken before prompts that are not urgent.
    pub urgent: bool,
}

/// The result of sending a follow-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its number among the task's follow-ups, from 1.
    pub prompt: u32,
    /// Its position among the waiting ones, from 1.
    pub position: u32,
    /// True if the task had ended, and is pending again because of it.
    pub rearmed: bool,
}

/// A task as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRecord {
    /// The task as ordered.
    pub spec: TaskSpec,
    /// Its current state.
    pub state: TaskState,
    /// Order of arrival.
    pub seq: u64,
    /// The queue it waits in.
    pub queue: String,
    /// Attempts so far.
    pub attempts: u32,
    /// Charged attempts.
    pub charged: u32,
    /// Environment failures in a row so far.
    pub environment_failures: u32,
    /// Dependencies that are not met yet.
    pub waiting_on: Vec<TaskId>,
    /// The session that holds it.
    pub session: Option<SessionId>,
    pub fence: u64,
    /// Who asked to cancel it while it is claimed.
    pub cancel_asked: Option<String>,
    /// Who asked to interrupt the current attempt so that its agent continues with an urgent prompt.
    pub interrupt_asked: Option<String>,
    /// The done or landed work that its follow-up builds on; it still counts for dependents.
    pub standing: Option<TaskState>,
    /// When it entered the queue.
    pub created_at: Timestamp,
    /// When its state last changed.
    pub updated_at: Timestamp,
}

impl TaskRecord {
    /// The state that provides its work: its own, or the one before its follow-up.
    pub fn met(&self) -> Option<&TaskState> {
        Some(&self.state).filter(|state| state.is_met()).or(self.standing.as_ref())
    }
}

/// A task for lists: everything except its spec, which may be long.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskBrief {
    pub id: TaskId,
    /// One line for display.
    pub title: String,
    /// The agent's entry in `agents:`.
    pub agent: String,
    /// The kinds of work it is.
    pub labels: Vec<String>,
    /// Its part in something larger.
    pub part: Option<Part>,
    /// Its priority; higher comes first.
    pub priority: i32,
    /// It only reads: no lane of its own, nothing to land.
    pub read_only: bool,
    /// Its current state.
    pub state: TaskState,
    /// Attempts so far.
    pub attempts: u32,
    /// Dependencies that are not met yet.
    pub waiting_on: Vec<TaskId>,
    /// How firmly its newest attempt was confined. A brief that is made from a record does not know it.
    pub sandbox: Option<Level>,
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
            sandbox: None,
            updated_at: record.updated_at,
        }
    }
}

/// Which tasks to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskQuery {
    /// Only these, regardless of case; unknown ids are left out. `None` for all.
    pub ids: Option<Vec<TaskId>>,
    /// Only tasks of this queue.
    pub queue: Option<String>,
    /// Only in these states; empty for all.
    pub states: Vec<StateName>,
    /// Only ids with this prefix, regardless of case.
    pub prefix: Option<String>,
    /// Only tasks that arrived after this one.
    pub after: Option<u64>,
    /// Maximum number; zero for all.
    pub limit: usize,
    /// If there are more than `limit`: those whose state changed last, instead of the first to arrive.
    pub latest: bool,
}

/// Permission to land. Every step of a car names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lander {
    /// The role, `train:<target>`.
    pub role: String,
    /// The session that holds it.
    pub session: SessionId,
    /// Grows with every new holder.
    pub term: u64,
}

/// One account: a profile, as one kind of agent uses it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccountKey {
    pub profile: String,
    /// The kind of agent.
    pub agent: String,
}

/// What is known about an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountRecord {
    /// The account.
    pub key: AccountKey,
    /// The highest was used last; zero if it was never used.
    pub turn: u64,
    /// Its limits, by name.
    pub coolings: Vec<Cooling>,
}

impl AccountRecord {
    /// The part that decides whether it is used.
    pub fn standing(&self) -> AccountStanding {
        AccountStanding {
            profile: self.key.profile.clone(),
            turn: self.turn,
            coolings: self.coolings.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use regatta_core::crew::MemberName;

    use super::*;

    #[test]
    fn sessions_of_older_versions_say_their_kind_by_their_text() {
        let stored = |what: &str| {
            let text = format!(r#"{{"node":"n","what":"{what}","boot_id":"b","pid":7,"starttime":8}}"#);
            serde_json::from_str::<NodeInfo>(&text).unwrap()
        };
        assert_eq!(stored("daemon").kind, SessionKind::Daemon);
        assert_eq!(stored("run plan.md").kind, SessionKind::Run);
        let member = stored("member Tom");
        assert_eq!(member.kind, SessionKind::Member(MemberName::parse("Tom").unwrap()));
        assert_eq!((member.holder(), member.is_member()), ("Tom", true));
    }

    #[test]
    fn the_kind_decides_and_not_the_text() {
        let node = NodeInfo {
            what: "daemon".to_owned(),
            ..NodeInfo::of_beats("n", &MemberName::parse("Tom").unwrap())
        };
        let text = serde_json::to_string(&node).unwrap();
        let read: NodeInfo = serde_json::from_str(&text).unwrap();
        assert_eq!(read, node);
        assert_eq!((read.holder(), read.is_member()), ("Tom", true));
    }
}
