//! The crew's part of the contract: members, their messages, and the shared context.
//!
//! The rules of [`Store`](crate::Store) apply here too: atomic, repeatable, fenced, clock-free. A member belongs to a
//! session, as claims do: when the session ends, for whatever reason, the member has left and its tasks are back on the
//! board.

use std::time::Duration;

use async_trait::async_trait;
use regatta_core::crew::{MemberName, Role};
use regatta_core::id::TaskId;
use regatta_core::session::SessionKind;
use regatta_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Beat, Claim, ClaimRequest, Lander, NodeInfo, RequestId, Result, SessionId};

/// The queue from which members take tasks by hand. No engine works on it.
pub const BOARD_QUEUE: &str = "board";

/// The role in the store that the leader of the crew holds.
pub const LEADER_ROLE: &str = "leader";

/// Longest value of the shared context, in bytes.
pub const MAX_CONTEXT_VALUE: usize = 64 * 1024;
/// Longest key of the shared context, in bytes.
pub const MAX_CONTEXT_KEY: usize = 256;
/// Longest message, in bytes.
pub const MAX_MESSAGE: usize = 64 * 1024;

/// What the crew needs from a database.
#[async_trait]
pub trait Crew: Send + Sync {
    // ── Members ─────────────────────────────────────────────────────────────────────────────────────────────

    /// Opens the member's session and adds it to the crew. Repeating it changes nothing.
    ///
    /// [`StoreError::Conflict`](crate::StoreError::Conflict) while a member with that name is present in another
    /// session, [`StoreError::Refused`](crate::StoreError::Refused) if a task has that id. A member with the role
    /// [`Role::LEADER`] becomes the leader in the same transaction, or is refused if there is one.
    async fn register(&self, member: &NewMember, at: Timestamp) -> Result<()>;

    /// All members who ever registered, by name, including those who left.
    async fn members(&self) -> Result<Vec<Member>>;

    /// The holder of `role`, if its session is open.
    async fn holder(&self, role: &str) -> Result<Option<Lander>>;

    // ── The board ───────────────────────────────────────────────────────────────────────────────────────────

    /// Like [`Store::claim`](crate::Store::claim), but also takes a blocked task, which becomes pending and claimed in
    /// one transaction.
    async fn take_up(&self, claim: &ClaimRequest, at: Timestamp) -> Result<Option<Claim>>;

    // ── Messages ────────────────────────────────────────────────────────────────────────────────────────────

    /// Puts a message into the inbox of every recipient and returns their names. No recipient gets it twice.
    ///
    /// [`StoreError::NotFound`](crate::StoreError::NotFound) if a recipient is neither a member nor a task, or if it
    /// answers an unknown message. Fenced by its author's authority.
    async fn post(&self, message: &NewMessage, request: &RequestId, at: Timestamp) -> Result<Posted>;

    /// The messages for `name` that are not dismissed, oldest first.
    async fn inbox(&self, name: &MemberName, query: &InboxQuery) -> Result<Vec<Message>>;

    /// The last `limit` messages after the number `after`, to any recipient, oldest first: one per inbox, dismissed or
    /// not.
    async fn correspondence(&self, after: u64, limit: usize) -> Result<Vec<Message>>;

    /// Marks messages in the inbox of `name`. [`StoreError::NotFound`](crate::StoreError::NotFound) if one of them was
    /// never in it; then none is marked. Repeating it changes nothing.
    async fn mark(&self, name: &MemberName, messages: &[u64], mark: Mark, at: Timestamp) -> Result<()>;

    // ── Shared context ──────────────────────────────────────────────────────────────────────────────────────

    /// Writes or deletes a value and returns its version, which grows with every write, including deletions.
    /// [`StoreError::Conflict`](crate::StoreError::Conflict) if it is not at the expected version,
    /// [`StoreError::Invalid`](crate::StoreError::Invalid) if key or value are too long.
    async fn set_context(&self, write: &ContextWrite, request: &RequestId, at: Timestamp) -> Result<u64>;

    /// One value, if it exists.
    async fn context(&self, key: &str) -> Result<Option<ContextEntry>>;

    /// Values by key. With `after`, also values deleted since then, in the order of changes.
    async fn contexts(&self, query: &ContextQuery) -> Result<Vec<ContextEntry>>;
}

/// A member that joins the crew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMember {
    pub name: MemberName,
    pub role: Role,
    /// Its session; a fresh one.
    pub session: SessionId,
    /// The process that represents it. No process if it proves its presence by heartbeats: see [`NodeInfo::of_beats`].
    pub node: NodeInfo,
    /// Without a heartbeat for this long, by the observer's clock, it has left. `None` if a process represents it.
    pub lease: Option<Duration>,
}

/// A member of the crew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: MemberName,
    pub role: Role,
    /// Its current or last session.
    pub session: SessionId,
    /// The process that represents it.
    pub node: NodeInfo,
    /// The longest allowed pause between its heartbeats.
    pub lease: Option<Duration>,
    /// Its current beat.
    pub beat: Beat,
    /// Whether its session is open.
    pub is_there: bool,
    /// When it registered.
    pub since: Timestamp,
    /// The tasks it holds, in order of arrival.
    pub tasks: Vec<TaskId>,
}

impl NodeInfo {
    /// The node info of a member that only sends heartbeats.
    pub fn of_beats(node: &str, name: &MemberName) -> Self {
        Self {
            node: node.to_owned(),
            kind: SessionKind::Member(name.clone()),
            what: format!("member {name}"),
            boot_id: String::new(),
            pid: 0,
            starttime: 0,
            machine: None,
            pid_ns: None,
            place: None,
            lease_ms: None,
            node_id: None,
            program: Some(crate::program::program()),
            rest: Default::default(),
        }
    }

    /// True if a crew member opened the session, not an engine.
    pub fn is_member(&self) -> bool {
        self.kind.member().is_some()
    }

    /// Who holds the session's claims: the member, or the engine's machine.
    pub fn holder(&self) -> &str {
        self.kind.member().map_or(&self.node, |name| name.as_str())
    }

    /// True if no process represents it.
    pub fn is_by_beats(&self) -> bool {
        self.pid == 0
    }
}

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    /// The sender.
    pub author: Author,
    /// The recipients.
    pub to: Recipients,
    /// The kind of message.
    pub kind: MessageKind,
    pub text: String,
    /// The message it answers.
    pub reply_to: Option<u64>,
}

/// The sender of a message and its authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// The displayed name.
    pub name: MemberName,
    /// The authority to use that name.
    pub authority: Authority,
}

/// The authority to write under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authority {
    /// A sender outside the crew, whom the store trusts.
    Outside,
    /// A member: its session must be open.
    Member(SessionId),
    /// The agent of a task: its attempt must be claimed or running.
    Attempt {
        /// The attempt's number.
        attempt: u32,
        /// The SHA-256 of its token.
        token_hash: String,
    },
}

/// The recipients of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipients {
    /// A member, present or not, or the agent of a task.
    One(MemberName),
    /// Every present member and every running agent, except the author.
    Everybody,
    /// The same, but only with this role.
    Role(Role),
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MessageKind {
    /// To one recipient.
    Direct,
    /// To all.
    Broadcast,
    /// A question to all.
    Help,
}

/// A stored message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    /// Its number.
    pub id: u64,
    /// The owners of the inboxes that contain it.
    pub to: Vec<MemberName>,
}

/// A message in an inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its number; later messages have higher numbers.
    pub id: u64,
    /// When it was written.
    pub at: Timestamp,
    /// The sender.
    pub from: MemberName,
    /// The owner of the inbox.
    pub to: MemberName,
    /// The kind of message.
    pub kind: MessageKind,
    pub text: String,
    /// The message it answers.
    pub reply_to: Option<u64>,
    /// When it was shown.
    pub read_at: Option<Timestamp>,
}

/// Which messages to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboxQuery {
    /// Only unread messages.
    pub unread: bool,
    /// Only messages after this number.
    pub after: u64,
    /// Maximum number; zero for all.
    pub limit: usize,
}

/// How to mark a message in an inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It was shown. The first time counts.
    Read,
    /// It is no longer listed.
    Dismissed,
}

/// A write to the shared context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextWrite {
    pub key: String,
    /// The value; `None` deletes it.
    pub value: Option<String>,
    /// Only at this version; zero if it must not exist.
    pub if_version: Option<u64>,
    /// Only as the leader of this term.
    pub leader: Option<Lander>,
    /// Who writes it, for display.
    pub by: String,
}

/// A value of the shared context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextEntry {
    pub key: String,
    /// The value; `None` if it was deleted.
    pub value: Option<String>,
    /// Grows with every write to the key.
    pub version: u64,
    /// Grows with every write to any key: a reader that follows it misses no key.
    pub change: u64,
    /// Who wrote it.
    pub by: String,
    /// When it was written.
    pub at: Timestamp,
}

/// Which values to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextQuery {
    /// Only keys with this prefix.
    pub prefix: String,
    /// Only values changed after this change.
    pub after: Option<u64>,
}
