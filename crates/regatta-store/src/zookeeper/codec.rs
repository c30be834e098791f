//! Records as the text of their nodes.
//!
//! JSON, or the number itself. A long value is kept in pieces of its own ([`Blob`]), written before the transaction that
//! names them and removed by the one that replaces the value.

use std::sync::Arc;

use regatta_core::crew::{MemberName, Role};
use regatta_core::id::TaskId;
use regatta_core::prompt::Prompt;
use regatta_core::rest::Rest;
use regatta_core::state::TaskState;
use regatta_core::time::Timestamp;
use regatta_core::writes::WritePath;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use zookeeper_client::Stat;

use super::paths;
use crate::rules::record::{
    Account, Delivery, Deps, Folded, Holding, Kept, Key, Number, Pass, QueuedPrompt, Record, Registered,
    Said, Session, Spec, Starts, StoredAttempt, StoredCar, StoredMessage, Task, not_of_its_kind,
};
use crate::stored::{from_json, state_of, step_of, to_json, unreadable};
use crate::{ContextEntry, Document, MessageKind, NodeInfo, Posted, RequestId, Result, SessionId};

/// Values longer than this are kept in pieces.
const LONG: usize = 64 * 1024;

/// How long a piece is.
const PIECE: usize = 512 * 1024;

/// A long value in pieces.
pub(super) struct Blob {
    /// What stands in the node of the value.
    pub(super) reference: String,
    /// The pieces with their nodes.
    pub(super) pieces: Vec<(String, String)>,
}

impl Blob {
    /// The pieces of the value of a node, if it is long. The name is the node's own, so that nobody else uses it.
    pub(super) fn of(path: &str, text: &str) -> Option<Self> {
        if text.len() <= LONG {
            return None;
        }
        let mut hash = Sha256::new();
        hash.update(path);
        hash.update([0]);
        hash.update(text);
        let name = regatta_core::hex::hex(&hash.finalize());
        let (mut pieces, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(rest.floor_char_boundary(PIECE));
            pieces.push((node(&name, pieces.len()), piece.to_owned()));
            rest = more;
        }
        Some(Self { reference: format!("@{name} {}", pieces.len()), pieces })
    }
}

fn node(name: &str, n: usize) -> String {
    format!("{}/{name}-{n}", paths::BLOBS)
}

/// The nodes of the pieces, if a text stands for a long value.
pub(super) fn pieces_of(text: &str) -> Option<Vec<String>> {
    let (name, pieces) = text.strip_prefix('@')?.split_once(' ')?;
    let pieces: usize = pieces.parse().ok()?;
    Some((0..pieces).map(|n| node(name, n)).collect())
}

/// The version of a record in a node with this stat. Absent records have version 0.
pub(super) fn version(stat: &Stat) -> u64 {
    u64::try_from(stat.version).map_or(0, |version| version + 1)
}

/// The version of a node whose record has this version.
pub(super) fn node_version(version: u64) -> i32 {
    i32::try_from(version.saturating_sub(1)).unwrap_or(i32::MAX)
}

/// A number that grows with every transaction.
pub(super) fn zxid(zxid: i64) -> u64 {
    zxid.cast_unsigned()
}

#[derive(Serialize, Deserialize)]
struct SessionText {
    node: NodeInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<Vec<TaskId>>,
    #[serde(flatten)]
    rest: Rest,
}

#[derive(Serialize, Deserialize)]
struct HoldingText {
    session: Option<SessionId>,
    term: u64,
    #[serde(flatten)]
    rest: Rest,
}

#[derive(Serialize, Deserialize)]
struct TaskText<'a> {
    seq: u64,
    id: TaskId,
    queue: String,
    priority: i32,
    #[serde(borrow)]
    state: &'a RawValue,
    unmet: u32,
    attempts: u32,
    charged: u32,
    environment_failures: u32,
    lost: u32,
    fence: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claim_request: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token_hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cancel_asked: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    interrupt_asked: Option<String>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    standing: Option<&'a RawValue>,
    counted_from: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    writes: Vec<WritePath>,
    created_at: Timestamp,
    updated_at: Timestamp,
    #[serde(flatten)]
    rest: Rest,
}

#[derive(Serialize, Deserialize)]
struct SaidText {
    statement: Option<String>,
    stuck: Option<String>,
    #[serde(flatten)]
    rest: Rest,
}

#[derive(Serialize, Deserialize)]
struct PromptText {
    prompt: Prompt,
    urgent: bool,
    request: RequestId,
    position: u32,
    rearmed: bool,
    #[serde(flatten)]
    rest: Rest,
}

/// A car, as far as every version can read it.
#[derive(Serialize, Deserialize)]
pub(super) struct CarText<'a> {
    pub(super) target: String,
    pub(super) attempt: u32,
    /// JSON.
    pub(super) request: String,
    #[serde(borrow)]
    pub(super) step: &'a RawValue,
    #[serde(flatten)]
    pub(super) rest: Rest,
}

#[derive(Serialize, Deserialize)]
struct AccountText {
    turn: u64,
    coolings: Vec<(String, String)>,
    #[serde(flatten)]
    rest: Rest,
}

#[derive(Serialize, Deserialize)]
struct MemberText {
    name: MemberName,
    role: Role,
    session: SessionId,
    lease_ms: Option<i64>,
    since: Timestamp,
    #[serde(flatten)]
    rest: Rest,
}

#[derive(Serialize, Deserialize)]
struct MessageText {
    request: RequestId,
    at: Timestamp,
    author: MemberName,
    kind: MessageKind,
    reply_to: Option<u64>,
    text: String,
    #[serde(flatten)]
    rest: Rest,
}

#[derive(Serialize, Deserialize)]
struct DeliveryText {
    name: MemberName,
    read_at: Option<Timestamp>,
    dismissed_at: Option<Timestamp>,
    #[serde(flatten)]
    rest: Rest,
}

#[derive(Serialize, Deserialize)]
struct ContextText {
    key: String,
    value: Option<String>,
    version: u64,
    /// The number of its change in the store that it was copied from; else its transaction is its number.
    #[serde(default, skip_serializing_if = "is_zero")]
    change: u64,
    by: String,
    at: Timestamp,
    #[serde(flatten)]
    rest: Rest,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[derive(Serialize, Deserialize)]
struct DocumentText {
    id: String,
    body: String,
    version: u64,
    at: Timestamp,
    #[serde(flatten)]
    rest: Rest,
}

#[derive(Serialize, Deserialize)]
struct PostedText {
    id: u64,
    to: Vec<MemberName>,
    #[serde(flatten)]
    rest: Rest,
}

/// The text of a record.
pub(super) fn encode(record: &Record) -> Result<String> {
    encode_with(record, &Rest::default())
}

/// The same, with the fields that only a newer version knows.
fn encode_with(record: &Record, rest: &Rest) -> Result<String> {
    Ok(match record {
        Record::Session(it) => {
            to_json(&SessionText { node: it.node.clone(), ended: it.ended.clone(), rest: rest.clone() })
        }
        Record::Role(it) => {
            to_json(&HoldingText { session: it.session.clone(), term: it.term, rest: rest.clone() })
        }
        Record::Starts(it) => to_json(&it.last),
        Record::Task(it) => with_states(it, None, None, rest)?,
        Record::Spec(it) => it.body.clone(),
        Record::Deps(it) => to_json(&it.parents),
        Record::Attempt(it) => it.body.clone(),
        Record::Report(it) => to_json(&SaidText {
            statement: it.statement.clone(),
            stuck: it.stuck.clone(),
            rest: rest.clone(),
        }),
        Record::Prompt(it) => to_json(&PromptText {
            prompt: it.prompt.clone(),
            urgent: it.urgent,
            request: it.request.clone(),
            position: it.position,
            rearmed: it.rearmed,
            rest: rest.clone(),
        }),
        Record::Car(it) => {
            let step = raw(to_json(&it.step))?;
            let (target, request) = (it.target.clone(), it.request.clone());
            to_json(&CarText { target, attempt: it.attempt, request, step: &step, rest: rest.clone() })
        }
        Record::Pass(it) => to_json(&it.at),
        Record::Account(it) => {
            to_json(&AccountText { turn: it.turn, coolings: it.coolings.clone(), rest: rest.clone() })
        }
        Record::Member(it) => to_json(&MemberText {
            name: it.name.clone(),
            role: it.role.clone(),
            session: it.session.clone(),
            lease_ms: it.lease_ms,
            since: it.since,
            rest: rest.clone(),
        }),
        Record::Message(it) => to_json(&MessageText {
            request: it.request.clone(),
            at: it.at,
            author: it.author.clone(),
            kind: it.kind,
            reply_to: it.reply_to,
            text: it.text.clone(),
            rest: rest.clone(),
        }),
        Record::Delivery(it) => to_json(&DeliveryText {
            name: it.name.clone(),
            read_at: it.read_at,
            dismissed_at: it.dismissed_at,
            rest: rest.clone(),
        }),
        Record::Context(it) => to_json(&ContextText {
            key: it.key.clone(),
            value: it.value.clone(),
            version: it.version,
            change: it.change,
            by: it.by.clone(),
            at: it.at,
            rest: rest.clone(),
        }),
        Record::Document(it) => to_json(&DocumentText {
            id: it.id.clone(),
            body: it.body.clone(),
            version: it.version,
            at: it.at,
            rest: rest.clone(),
        }),
        Record::Posted(it) => to_json(&PostedText { id: it.id, to: it.to.clone(), rest: rest.clone() }),
        Record::Number(it) => it.0.to_string(),
        Record::Mark => String::new(),
    })
}

/// What only a newer version can read of a record: it stays as it is until that version changes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Newer {
    /// The name of a task's state, if this version does not know it.
    name: Option<String>,
    state: Option<String>,
    standing: Option<String>,
    rest: Rest,
}

impl Newer {
    /// What this version does not know of a task in these states.
    fn of_task(it: &TaskText<'_>, state: &TaskState, standing: Option<&TaskState>) -> Self {
        let text = |is_newer: bool, text: &RawValue| is_newer.then(|| text.get().to_owned());
        let standing = it.standing.and_then(|raw| text(standing.is_some_and(TaskState::is_newer), raw));
        let state = text(state.is_newer(), it.state);
        let fields = state.as_deref().and_then(|state| serde_json::from_str::<serde_json::Value>(state).ok());
        let name = fields.and_then(|fields| Some(fields.get("state")?.as_str()?.to_owned()));
        Self { name, state, standing, rest: it.rest.clone() }
    }

    /// Whether this version knows everything.
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// The name of the state that a task was written with.
    pub(super) fn state_name<'a>(&'a self, task: &'a Task) -> &'a str {
        self.name.as_deref().unwrap_or_else(|| task.state.name())
    }

    /// The text of a record that was read as `before`, with all that only a newer version knows. A state stays as long
    /// as it has not changed.
    pub(super) fn text(&self, before: &Record, record: &Record) -> Result<String> {
        let (Record::Task(before), Record::Task(task)) = (before, record) else {
            return encode_with(record, &self.rest);
        };
        let kept = |is_same: bool, text: &Option<String>| text.clone().filter(|_| is_same);
        let state = kept(before.state == task.state, &self.state);
        let standing = kept(before.standing == task.standing, &self.standing);
        with_states(task, state, standing, &self.rest)
    }
}

fn raw(json: String) -> Result<Box<RawValue>> {
    RawValue::from_string(json).map_err(|error| unreadable("a value to be stored", error))
}

/// The text of a task; its states as given, else as they are.
fn with_states(it: &Task, state: Option<String>, standing: Option<String>, rest: &Rest) -> Result<String> {
    let state = raw(state.unwrap_or_else(|| to_json(&it.state)))?;
    let standing = standing.or_else(|| it.standing.as_ref().map(to_json)).map(raw).transpose()?;
    Ok(to_json(&TaskText {
        seq: it.seq,
        id: it.id.clone(),
        queue: it.queue.clone(),
        priority: it.priority,
        state: &state,
        unmet: it.unmet,
        attempts: it.attempts,
        charged: it.charged,
        environment_failures: it.environment_failures,
        lost: it.lost,
        fence: it.fence,
        session: it.session.clone(),
        claim_request: it.claim_request.clone(),
        token_hash: it.token_hash.clone(),
        cancel_asked: it.cancel_asked.clone(),
        interrupt_asked: it.interrupt_asked.clone(),
        standing: standing.as_deref(),
        counted_from: it.counted_from,
        group: it.group.clone(),
        writes: it.writes.clone(),
        created_at: it.created_at,
        updated_at: it.updated_at,
        rest: rest.clone(),
    }))
}

/// The task of a text.
pub(super) fn task(text: &str) -> Result<Task> {
    Ok(task_and_newer(text)?.0)
}

/// The same, and what this version does not know of it.
pub(super) fn task_and_newer(text: &str) -> Result<(Task, Newer)> {
    let it: TaskText<'_> = from_json("a task", text)?;
    let state = state_of(it.state.get())?;
    let standing = it.standing.map(|state| state_of(state.get())).transpose()?;
    let newer = Newer::of_task(&it, &state, standing.as_ref());
    let task = Task {
        seq: it.seq,
        id: it.id,
        queue: it.queue,
        priority: it.priority,
        state,
        unmet: it.unmet,
        attempts: it.attempts,
        charged: it.charged,
        environment_failures: it.environment_failures,
        lost: it.lost,
        fence: it.fence,
        session: it.session,
        claim_request: it.claim_request,
        token_hash: it.token_hash,
        cancel_asked: it.cancel_asked,
        interrupt_asked: it.interrupt_asked,
        standing,
        counted_from: it.counted_from,
        group: it.group,
        writes: it.writes,
        created_at: it.created_at,
        updated_at: it.updated_at,
    };
    Ok((task, newer))
}

/// The record of a node.
pub(super) fn decode(key: &Key, text: &str) -> Result<Record> {
    Ok(decode_whole(key, text)?.0)
}

/// The record of a node, and what only a newer version knows of it, if there is something.
pub(super) fn decode_whole(key: &Key, text: &str) -> Result<(Record, Option<Newer>)> {
    let (record, rest) = match key {
        Key::Session(_) => {
            let it: SessionText = from_json("a session", text)?;
            (Session { node: it.node, ended: it.ended }.record(), it.rest)
        }
        Key::Role(_) => {
            let it: HoldingText = from_json("a role", text)?;
            (Holding { session: it.session, term: it.term }.record(), it.rest)
        }
        Key::Task(_) => {
            let (task, newer) = task_and_newer(text)?;
            return Ok((task.record(), Some(newer).filter(|newer| !newer.is_nothing())));
        }
        Key::Report(..) => {
            let it: SaidText = from_json("a report", text)?;
            (Said { statement: it.statement, stuck: it.stuck }.record(), it.rest)
        }
        Key::Prompt(..) => {
            let it: PromptText = from_json("a prompt", text)?;
            let PromptText { prompt, urgent, request, position, rearmed, rest } = it;
            (QueuedPrompt { prompt, urgent, request, position, rearmed }.record(), rest)
        }
        Key::Car(_) => {
            let it: CarText<'_> = from_json("a car", text)?;
            let step = step_of("a car's step", it.step.get())?;
            let car = StoredCar { target: it.target, attempt: it.attempt, request: it.request, step };
            (car.record(), it.rest)
        }
        Key::Account(_) => {
            let it: AccountText = from_json("an account", text)?;
            (Account { turn: it.turn, coolings: it.coolings }.record(), it.rest)
        }
        Key::Member(_) => {
            let it: MemberText = from_json("a member", text)?;
            let MemberText { name, role, session, lease_ms, since, rest } = it;
            (Registered { name, role, session, lease_ms, since }.record(), rest)
        }
        Key::Message(_) => {
            let it: MessageText = from_json("a message", text)?;
            let MessageText { request, at, author, kind, reply_to, text, rest } = it;
            (StoredMessage { request, at, author, kind, reply_to, text }.record(), rest)
        }
        Key::Delivery(..) => {
            let it: DeliveryText = from_json("a delivery", text)?;
            let DeliveryText { name, read_at, dismissed_at, rest } = it;
            (Delivery { name, read_at, dismissed_at }.record(), rest)
        }
        Key::Context(_) => {
            let it: ContextText = from_json("a value of the context", text)?;
            let ContextText { key, value, version, change, by, at, rest } = it;
            (ContextEntry { key, value, version, change, by, at }.record(), rest)
        }
        Key::Document(..) => {
            let it: DocumentText = from_json("a document", text)?;
            (Document { id: it.id, body: it.body, version: it.version, at: it.at }.record(), it.rest)
        }
        Key::Posted(_) => {
            let it: PostedText = from_json("the answer to a message", text)?;
            (Posted { id: it.id, to: it.to }.record(), it.rest)
        }
        // Specs and attempts know the rest themselves; what follows has no fields.
        Key::Spec(task) => (Spec::read(task, text.to_owned())?.record(), Rest::default()),
        Key::Attempt(..) => {
            let stored = StoredAttempt::read("the record of an attempt", text.to_owned())?;
            (stored.record(), Rest::default())
        }
        Key::Starts => {
            let last = from_json("the time of the last start", text)?;
            (Starts { last }.record(), Rest::default())
        }
        Key::Deps(_) => (Deps { parents: parents(text)? }.record(), Rest::default()),
        Key::Pass(..) => (Pass { at: from_json("a passed tree", text)? }.record(), Rest::default()),
        Key::Holds(_) | Key::Crew | Key::Profile(_) | Key::Request(..) => (Record::Mark, Rest::default()),
        Key::Beat(_) | Key::Written(_) | Key::Counter(_) => (Number(number(text)?).record(), Rest::default()),
    };
    let newer = (!rest.is_empty()).then(|| Newer { rest, ..Newer::default() });
    Ok((record, newer))
}

pub(super) fn session(text: &str) -> Result<Session> {
    let it: SessionText = from_json("a session", text)?;
    Ok(Session { node: it.node, ended: it.ended })
}

pub(super) fn parents(text: &str) -> Result<Vec<Folded>> {
    let parents: Vec<String> = from_json("the dependencies of a task", text)?;
    Ok(parents.into_iter().map(Arc::from).collect())
}

pub(super) fn said(text: &str) -> Result<Said> {
    let it: SaidText = from_json("a report", text)?;
    Ok(Said { statement: it.statement, stuck: it.stuck })
}

pub(super) fn prompt(text: &str) -> Result<QueuedPrompt> {
    let it: PromptText = from_json("a prompt", text)?;
    let PromptText { prompt, urgent, request, position, rearmed, rest: _ } = it;
    Ok(QueuedPrompt { prompt, urgent, request, position, rearmed })
}

pub(super) fn account(text: &str) -> Result<Account> {
    let it: AccountText = from_json("an account", text)?;
    Ok(Account { turn: it.turn, coolings: it.coolings })
}

pub(super) fn member(text: &str) -> Result<Registered> {
    let it: MemberText = from_json("a member", text)?;
    let MemberText { name, role, session, lease_ms, since, rest: _ } = it;
    Ok(Registered { name, role, session, lease_ms, since })
}

pub(super) fn message(text: &str) -> Result<StoredMessage> {
    let it: MessageText = from_json("a message", text)?;
    let MessageText { request, at, author, kind, reply_to, text, rest: _ } = it;
    Ok(StoredMessage { request, at, author, kind, reply_to, text })
}

pub(super) fn delivery(text: &str) -> Result<Delivery> {
    let it: DeliveryText = from_json("a delivery", text)?;
    Ok(Delivery { name: it.name, read_at: it.read_at, dismissed_at: it.dismissed_at })
}

/// A value of the context as it is stored: its change is zero, unless it was copied from another store.
fn stored_context(text: &str) -> Result<ContextEntry> {
    let it: ContextText = from_json("a value of the context", text)?;
    let ContextText { key, value, version, change, by, at, rest: _ } = it;
    Ok(ContextEntry { key, value, version, change, by, at })
}

/// A value of the context. The number of its change is the transaction that wrote it, after all changes that were copied
/// from another store, the last of which is `before`.
pub(super) fn context(text: &str, mzxid: i64, before: u64) -> Result<ContextEntry> {
    let entry = stored_context(text)?;
    let change = if entry.change > 0 { entry.change } else { before + zxid(mzxid) };
    Ok(ContextEntry { change, ..entry })
}

pub(super) fn document(text: &str) -> Result<Document> {
    let it: DocumentText = from_json("a document", text)?;
    Ok(Document { id: it.id, body: it.body, version: it.version, at: it.at })
}

pub(super) fn posted(text: &str) -> Result<Posted> {
    let it: PostedText = from_json("the answer to a message", text)?;
    Ok(Posted { id: it.id, to: it.to })
}

pub(super) fn number(text: &str) -> Result<u64> {
    text.parse().map_err(|error| unreadable(&format!("the number {text:?}"), error))
}

/// The error for a record that its key cannot have.
pub(super) fn odd(key: &Key) -> crate::StoreError {
    not_of_its_kind(key)
}

#[cfg(test)]
mod tests {
    use regatta_core::time::Timestamp;

    use super::{Blob, LONG, PIECE, Rest, decode_whole, pieces_of, task, with_states};
    use crate::rules::record::{Kept, Key, Task};

    #[test]
    fn what_only_a_newer_version_knows_of_a_task_stays_until_it_is_changed() {
        let id = regatta_core::id::TaskId::parse("t").unwrap();
        let new = crate::NewTask {
            spec: regatta_core::spec::TaskSpec::plain(id, "sh", "x"),
            queue: "main".into(),
            if_present: crate::IfPresent::Refuse,
        };
        let known = Task::new(1, &new, Timestamp::from_millis(1));
        let key = Key::Task("t".into());
        let none = Rest::default();
        assert!(decode_whole(&key, &with_states(&known, None, None, &none).unwrap()).unwrap().1.is_none());
        let (frozen, sail) = ("{\"state\":\"frozen\",\"until\":7}", "\"sail\":[1,2]");
        let text = with_states(&known, Some(frozen.into()), None, &none).unwrap();
        let text = format!("{},{sail}}}", text.strip_suffix('}').unwrap());
        let (before, newer) = decode_whole(&key, &text).unwrap();
        let (newer, was) = (newer.unwrap(), task(&text).unwrap());
        assert_eq!(newer.state_name(&was), "frozen");
        let touched = newer.text(&before, &Task { unmet: 3, ..was.clone() }.record()).unwrap();
        assert!(
            touched.contains(frozen) && touched.contains(sail) && touched.contains("\"unmet\":3"),
            "{touched}"
        );
        let changed = newer.text(&before, &Task { state: known.state.clone(), ..was }.record()).unwrap();
        assert!(!changed.contains("frozen") && changed.contains(sail), "{changed}");
    }

    #[test]
    fn a_long_value_is_the_sum_of_its_pieces() {
        assert!(Blob::of("/t/a/spec", &"x".repeat(LONG)).is_none());
        let text = format!("x{}", "ü".repeat(PIECE));
        let blob = Blob::of("/t/a/spec", &text).unwrap();
        assert_eq!(blob.pieces.len(), 3);
        assert!(blob.pieces.iter().all(|(_, piece)| piece.len() <= PIECE));
        assert_eq!(blob.pieces.iter().map(|(_, piece)| piece.as_str()).collect::<String>(), text);
        let nodes: Vec<String> = blob.pieces.iter().map(|(node, _)| node.clone()).collect();
        assert_eq!(pieces_of(&blob.reference), Some(nodes));
        // Each node has its own, so that removing one harms no other.
        assert_ne!(Blob::of("/t/b/spec", &text).unwrap().reference, blob.reference);
        assert_eq!(pieces_of("{\"a\":1}"), None);
    }
}
