//! The crew as JSON documents: members, tasks of the board, messages, shared context.

use std::path::PathBuf;

use regatta_core::crew::{MemberName, Role};
use regatta_core::id::TaskId;
use regatta_core::state::StateName;
use regatta_core::time::Timestamp;
use regatta_store::{
    BOARD_QUEUE, ContextEntry, LEADER_ROLE, Member, Message, MessageKind, Posted, SessionId, Store,
    StoreError, TaskQuery, TaskRecord,
};
use serde::{Deserialize, Deserializer, Serialize};

use super::TaskDocument;

/// A member or an agent, as in `crew list --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemberDocument {
    /// The member's name; for a running agent, the id of its task.
    pub name: MemberName,
    pub role: Role,
    /// `idle`, `busy` or `gone`.
    pub status: &'static str,
    /// The task it is working on; if it holds several, the first.
    pub task: Option<TaskId>,
    /// All tasks it holds.
    pub tasks: Vec<TaskId>,
    /// What its membership depends on: `process`, `heartbeats`, or `attempt` for a running agent.
    pub by: &'static str,
    /// The machine of its process.
    pub node: Option<String>,
    /// The id of its process.
    pub pid: Option<u32>,
    /// The maximum number of seconds between two heartbeats.
    pub lease_s: Option<u64>,
    /// Whether it is the leader.
    pub leader: bool,
    /// When it joined.
    pub since: Timestamp,
}

impl<'de> Deserialize<'de> for MemberDocument {
    /// Reads what was written, with the words that it uses.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Written {
            name: MemberName,
            role: Role,
            status: String,
            task: Option<TaskId>,
            tasks: Vec<TaskId>,
            by: String,
            node: Option<String>,
            pid: Option<u32>,
            lease_s: Option<u64>,
            leader: bool,
            since: Timestamp,
        }
        let word = |word: &str| {
            let known = ["idle", "busy", "gone", "process", "heartbeats", "attempt"];
            let found = known.into_iter().find(|one| *one == word);
            found.ok_or_else(|| serde::de::Error::custom(format!("unknown word {word:?}")))
        };
        let Written { name, role, status, task, tasks, by, node, pid, lease_s, leader, since } =
            Written::deserialize(deserializer)?;
        let (status, by) = (word(&status)?, word(&by)?);
        Ok(Self { name, role, status, task, tasks, by, node, pid, lease_s, leader, since })
    }
}

impl MemberDocument {
    /// A registered member.
    pub fn of(member: &Member, leader: Option<&SessionId>) -> Self {
        let status = match (member.is_there, member.tasks.is_empty()) {
            (false, _) => "gone",
            (true, true) => "idle",
            (true, false) => "busy",
        };
        let by_beats = member.node.is_by_beats();
        Self {
            name: member.name.clone(),
            role: member.role.clone(),
            status,
            task: member.tasks.first().cloned(),
            tasks: member.tasks.clone(),
            by: if by_beats { "heartbeats" } else { "process" },
            node: Some(member.node.node.clone()),
            pid: (!by_beats).then_some(member.node.pid),
            lease_s: member.lease.map(|lease| lease.as_secs()),
            leader: member.is_there && leader == Some(&member.session),
            since: member.since,
        }
    }

    /// The agent of a task that an engine holds.
    pub fn of_agent(task: &TaskId, since: Timestamp) -> Self {
        Self {
            name: MemberName::from(task.clone()),
            role: Role::parse(Role::AGENT).expect("a word is a role"),
            status: "busy",
            task: Some(task.clone()),
            tasks: vec![task.clone()],
            by: "attempt",
            node: None,
            pid: None,
            lease_s: None,
            leader: false,
            since,
        }
    }
}

/// The leader, as in `crew leader --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeaderDocument {
    /// The leader, if there is one.
    pub leader: Option<MemberDocument>,
    /// Grows with every new leader; writes with an older epoch are refused.
    pub epoch: Option<u64>,
}

/// A member that left, as in `crew unregister --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeftDocument {
    pub name: MemberName,
    /// The tasks it held, which are back on the board.
    pub released: Vec<TaskId>,
    /// Always `gone`.
    pub status: &'static str,
}

/// A task of the board.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BoardTaskDocument {
    #[serde(flatten)]
    pub task: TaskDocument,
    /// What to do.
    pub description: String,
    /// The member it is for.
    pub assignee: Option<MemberName>,
    /// The member that holds it.
    pub holder: Option<MemberName>,
    /// Failures so far.
    pub charged: u32,
    /// How many failures are allowed.
    pub max_attempts: u32,
}

impl BoardTaskDocument {
    /// A task, and the member that holds it.
    pub fn of(record: &TaskRecord, members: &[Member]) -> Self {
        let holder = members.iter().find(|member| record.session.as_ref() == Some(&member.session));
        let mut task = TaskDocument::from(record);
        let wanted = record.spec.wanted.role.as_ref().map(ToString::to_string);
        task.role = task.role.or(wanted);
        Self {
            task,
            description: record.spec.prompt.clone(),
            assignee: record.spec.wanted.member.clone(),
            holder: holder.map(|member| member.name.clone()),
            charged: record.charged,
            max_attempts: record.spec.max_attempts,
        }
    }
}

/// A task that a member took, as in `task claim --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClaimDocument {
    #[serde(flatten)]
    pub task: BoardTaskDocument,
    /// The number of the attempt.
    pub attempt: u32,
    /// The attempt's secret, which authenticates `regatta done`, `progress` and `stuck`.
    pub token: String,
    /// The lane, if one was requested.
    pub lane: Option<PathBuf>,
}

/// A message, as in `msg inbox --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MessageDocument {
    /// Its number.
    pub id: u64,
    /// When it was sent.
    pub at: Timestamp,
    /// The sender.
    pub from: MemberName,
    /// The owner of the inbox.
    pub to: MemberName,
    /// `direct`, `broadcast` or `help`.
    pub kind: MessageKind,
    pub text: String,
    /// The number of the message it answers.
    pub reply_to: Option<u64>,
    /// Whether it had been shown before.
    pub read: bool,
    /// When it was first shown.
    pub read_at: Option<Timestamp>,
}

impl From<&Message> for MessageDocument {
    fn from(message: &Message) -> Self {
        Self {
            id: message.id,
            at: message.at,
            from: message.from.clone(),
            to: message.to.clone(),
            kind: message.kind,
            text: message.text.clone(),
            reply_to: message.reply_to,
            read: message.read_at.is_some(),
            read_at: message.read_at,
        }
    }
}

/// A sent message, as in `msg send --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PostedDocument {
    /// Its number.
    pub id: u64,
    /// The members whose inboxes have it.
    pub to: Vec<MemberName>,
}

impl From<&Posted> for PostedDocument {
    fn from(posted: &Posted) -> Self {
        Self { id: posted.id, to: posted.to.clone() }
    }
}

/// A value of the shared context, as in `ctx get --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContextDocument {
    pub key: String,
    /// The value; `null` if it was deleted, which only `ctx watch` shows.
    pub value: Option<String>,
    /// Grows with every write to the key.
    pub version: u64,
    /// The member that wrote it.
    pub by: String,
    /// When it was sent.
    pub at: Timestamp,
}

impl From<&ContextEntry> for ContextDocument {
    fn from(entry: &ContextEntry) -> Self {
        Self {
            key: entry.key.clone(),
            value: entry.value.clone(),
            version: entry.version,
            by: entry.by.clone(),
            at: entry.at,
        }
    }
}

/// Members by name, then the running agents.
pub async fn crew(store: &dyn Store) -> Result<Vec<MemberDocument>, StoreError> {
    let members = store.members().await?;
    let leader = store.holder(LEADER_ROLE).await?.map(|leader| leader.session);
    let mut crew: Vec<MemberDocument> =
        members.iter().map(|member| MemberDocument::of(member, leader.as_ref())).collect();
    let states = vec![StateName::Claimed, StateName::Running];
    for brief in store.briefs(&TaskQuery { states, ..TaskQuery::default() }).await? {
        let is_held = members.iter().any(|member| member.is_there && member.tasks.contains(&brief.id));
        if !is_held {
            crew.push(MemberDocument::of_agent(&brief.id, brief.updated_at));
        }
    }
    Ok(crew)
}

/// The tasks of the board, and those that members hold of other queues: in these states, or all where there are none.
pub async fn board(
    store: &dyn Store,
    states: Vec<StateName>,
) -> Result<Vec<(TaskRecord, BoardTaskDocument)>, StoreError> {
    let members = store.members().await?;
    let query =
        TaskQuery { queue: Some(BOARD_QUEUE.to_owned()), states: states.clone(), ..TaskQuery::default() };
    let mut tasks = store.tasks(&query).await?;
    let elsewhere: Vec<_> = members.iter().flat_map(|member| member.tasks.iter().cloned()).collect();
    let query = TaskQuery { ids: Some(elsewhere), states, ..TaskQuery::default() };
    let held = store.tasks(&query).await?;
    tasks.extend(held.into_iter().filter(|task| task.queue != BOARD_QUEUE));
    tasks.sort_by_key(|task| task.seq);
    let shown = |task: TaskRecord| {
        let document = BoardTaskDocument::of(&task, &members);
        (task, document)
    };
    Ok(tasks.into_iter().map(shown).collect())
}
