//! The part of the contract that is about the crew: who is there, what they tell each other, what they all know.
//!
//! The rules of [`Store`](crate::Store) hold here too: atomic, repeatable, fenced, clock-free. A member hangs on a
//! session, as claims do: when that ends, whoever ends it, the member has left and its tasks are back on the board.

use std::time::Duration;

use async_trait::async_trait;
use regatta_core::crew::{MemberName, Role};
use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Beat, Claim, ClaimRequest, Lander, NodeInfo, RequestId, Result, SessionId};

/// The queue from which members take tasks by hand. No engine works on it.
pub const BOARD_QUEUE: &str = "board";

/// The role in the store that the leader of the crew holds.
pub const LEADER_ROLE: &str = "leader";

/// The longest value of the shared context, in bytes.
pub const MAX_CONTEXT_VALUE: usize = 64 * 1024;
/// The longest key of the shared context, in bytes.
pub const MAX_CONTEXT_KEY: usize = 256;
/// The longest message, in bytes.
pub const MAX_MESSAGE: usize = 64 * 1024;

/// What the crew needs of a database.
#[async_trait]
pub trait Crew: Send + Sync {
    // ── Members ─────────────────────────────────────────────────────────────────────────────────────────────

    /// Opens the member's session and puts it into the crew. Repeating it changes nothing.
    ///
    /// [`StoreError::Conflict`](crate::StoreError::Conflict) while somebody of that name is there on another session,
    /// [`StoreError::Refused`](crate::StoreError::Refused) if a task has that id. A member whose role is
    /// [`Role::LEADER`] becomes the leader in the same step, or is refused because there is one.
    async fn register(&self, member: &NewMember, at: Timestamp) -> Result<()>;

    /// Everybody who ever registered, by name; those who left too.
    async fn members(&self) -> Result<Vec<Member>>;

    /// Who holds `role`, if that session is open.
    async fn holder(&self, role: &str) -> Result<Option<Lander>>;

    // ── The board ───────────────────────────────────────────────────────────────────────────────────────────

    /// As [`Store::claim`](crate::Store::claim), and takes a blocked task too: in one step it is pending and claimed.
    async fn take_up(&self, claim: &ClaimRequest, at: Timestamp) -> Result<Option<Claim>>;

    // ── Messages ────────────────────────────────────────────────────────────────────────────────────────────

    /// Puts a message into the inbox of everybody it is for, and says who they are. Nobody gets it twice.
    ///
    /// [`StoreError::NotFound`](crate::StoreError::NotFound) if it is for one who is neither a member nor a task, or
    /// answers a message that is not there. Fenced by its author's authority.
    async fn post(&self, message: &NewMessage, request: &RequestId, at: Timestamp) -> Result<Posted>;

    /// The messages for `name` that were not dismissed, oldest first.
    async fn inbox(&self, name: &MemberName, query: &InboxQuery) -> Result<Vec<Message>>;

    /// The last `limit` messages after the number `after`, whoever they are for, oldest first: one for each inbox it was
    /// put into, dismissed or not.
    async fn correspondence(&self, after: u64, limit: usize) -> Result<Vec<Message>>;

    /// Marks messages in the inbox of `name`. [`StoreError::NotFound`](crate::StoreError::NotFound) if one of them never
    /// was in it; then none is marked. Repeating it changes nothing.
    async fn mark(&self, name: &MemberName, messages: &[u64], mark: Mark, at: Timestamp) -> Result<()>;

    // ── Shared context ──────────────────────────────────────────────────────────────────────────────────────

    /// Writes or deletes a value and returns its version, which grows with every write, a deletion too.
    /// [`StoreError::Conflict`](crate::StoreError::Conflict) if it is not in the version that was expected,
    /// [`StoreError::Invalid`](crate::StoreError::Invalid) if key or value are too long.
    async fn set_context(&self, write: &ContextWrite, request: &RequestId, at: Timestamp) -> Result<u64>;

    /// One value, if it is there.
    async fn context(&self, key: &str) -> Result<Option<ContextEntry>>;

    /// Values by key. Behind a change, also those that were deleted since, in the order of changes.
    async fn contexts(&self, query: &ContextQuery) -> Result<Vec<ContextEntry>>;
}

/// Somebody who joins the crew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMember {
    /// The name.
    pub name: MemberName,
    /// What for.
    pub role: Role,
    /// The session it hangs on; a fresh one.
    pub session: SessionId,
    /// The process that stands for it. No process, where heartbeats do: see [`NodeInfo::of_beats`].
    pub node: NodeInfo,
    /// Without a heartbeat for so long, by the clock of whoever watches, it has left. `None` where a process stands for it.
    pub lease: Option<Duration>,
}

/// Somebody of the crew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The name.
    pub name: MemberName,
    /// What for.
    pub role: Role,
    /// The session it hangs, or hung, on.
    pub session: SessionId,
    /// The process that stands for it.
    pub node: NodeInfo,
    /// Its heartbeats must not be further apart than this.
    pub lease: Option<Duration>,
    /// Its beat as read now.
    pub beat: Beat,
    /// Whether its session is open.
    pub is_there: bool,
    /// When it registered.
    pub since: Timestamp,
    /// The tasks it holds, in order of arrival.
    pub tasks: Vec<TaskId>,
}

impl NodeInfo {
    /// What stands for a member of a process.
    pub fn of_member(self, name: &MemberName) -> Self {
        Self { what: format!("member {name}"), ..self }
    }

    /// What stands for a member by its heartbeats alone.
    pub fn of_beats(node: &str, name: &MemberName) -> Self {
        let (node, what) = (node.to_owned(), format!("member {name}"));
        Self { node, what, boot_id: String::new(), pid: 0, starttime: 0, machine: None, pid_ns: None }
    }

    /// Whether a member of the crew opened the session, and no engine.
    pub fn is_member(&self) -> bool {
        self.what.starts_with("member ")
    }

    /// Who holds what hangs on the session: the member, or the machine of an engine.
    pub fn holder(&self) -> &str {
        self.what.strip_prefix("member ").unwrap_or(&self.node)
    }

    /// Whether no process stands for it.
    pub fn is_by_beats(&self) -> bool {
        self.pid == 0
    }
}

/// A message on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    /// From whom.
    pub author: Author,
    /// For whom.
    pub to: Recipients,
    /// What kind it is.
    pub kind: MessageKind,
    /// What it says.
    pub text: String,
    /// The message it answers.
    pub reply_to: Option<u64>,
}

/// Who writes, and by what right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// The name that is shown.
    pub name: MemberName,
    /// The right to that name.
    pub authority: Authority,
}

/// The right to write under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authority {
    /// Somebody outside of the crew, at whose word the store takes it.
    Outside,
    /// A member: its session has to be open.
    Member(SessionId),
    /// The agent of a task: its attempt has to be claimed or running.
    Attempt {
        /// The attempt.
        attempt: u32,
        /// The SHA-256 of its token.
        token_hash: String,
    },
}

/// For whom a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipients {
    /// A member, there or not, or the agent of a task.
    One(MemberName),
    /// Every member that is there and every agent at work, but for the author.
    Everybody,
    /// The same, of this role.
    Role(Role),
}

/// What kind a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MessageKind {
    /// For one.
    Direct,
    /// For everybody.
    Broadcast,
    /// A question to everybody.
    Help,
}

/// A message that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    /// Its number.
    pub id: u64,
    /// In whose inboxes it is.
    pub to: Vec<MemberName>,
}

/// A message in somebody's inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its number; later ones have higher numbers.
    pub id: u64,
    /// When it was written.
    pub at: Timestamp,
    /// From whom.
    pub from: MemberName,
    /// In whose inbox it is.
    pub to: MemberName,
    /// What kind it is.
    pub kind: MessageKind,
    /// What it says.
    pub text: String,
    /// The message it answers.
    pub reply_to: Option<u64>,
    /// When it was shown.
    pub read_at: Option<Timestamp>,
}

/// Which messages to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboxQuery {
    /// Only those that were not shown yet.
    pub unread: bool,
    /// Only after this number.
    pub after: u64,
    /// At most so many; zero for all.
    pub limit: usize,
}

/// What is done to a message in an inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It was shown. The first time counts.
    Read,
    /// It is listed no more.
    Dismissed,
}

/// A value on its way into the shared context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextWrite {
    /// Under which key.
    pub key: String,
    /// What; `None` deletes it.
    pub value: Option<String>,
    /// Only if it is in this version; zero if it is not there.
    pub if_version: Option<u64>,
    /// Only as the leader of this term.
    pub leader: Option<Lander>,
    /// By whom, for people.
    pub by: String,
}

/// A value of the shared context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextEntry {
    /// Its key.
    pub key: String,
    /// The value; `None` if it was deleted.
    pub value: Option<String>,
    /// Grows with every write to the key.
    pub version: u64,
    /// Grows with every write to any key: whoever follows the last one misses no key.
    pub change: u64,
    /// Who wrote it.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// Which values to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextQuery {
    /// Only keys that begin with this.
    pub prefix: String,
    /// Only what changed after this change.
    pub after: Option<u64>,
}
