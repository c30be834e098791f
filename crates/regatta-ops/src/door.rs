//! What the agent of a task asks for through the door of its sandbox: requests and answers, one JSON document each.
//!
//! Invariant: a request names no task, no attempt, no other member and no path. Who asks is decided by the shim, which
//! holds the door; texts of files are read by the client, inside.

use std::time::Duration;

use regatta_core::crew::{MemberName, Role};
use regatta_core::time::Timestamp;
use regatta_core::verdict::Statement;
use regatta_store::{
    ContextEntry, ContextQuery, Mark, Message, MessageKind, Posted, Recipients, Store, Word,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::changes::StoreChanges;
use crate::crew::{
    AskRequest, Crew, InboxRequest, MarkRequest, PostRequest, ReplyRequest, SetContextRequest, Speaker,
    WaitRequest, Which,
};
use crate::documents::crew::crew;
use crate::project::{Project, ProjectOptions};
use crate::refusal::{Refusal, RefusalKind};
use crate::step::{Act, Step};
use crate::worker::Worker;

/// The version of the requests.
const VERSION: u64 = 1;
/// The longest that one request waits; a client that waits longer asks again.
pub const MOST_PATIENCE: Duration = Duration::from_secs(30);

/// One request of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", content = "arguments", rename_all = "snake_case")]
pub enum Tool {
    /// Reports the verdict.
    Done(Statement),
    /// Reports progress.
    Progress {
        /// In a few words.
        label: String,
        /// More detail.
        detail: Option<String>,
        /// The phase it belongs to.
        phase: Option<String>,
    },
    /// Reports that only a person can help.
    Stuck {
        /// What is needed.
        why: String,
    },
    /// Sends a message to one member or agent, to a role, or to everybody.
    SendMessage {
        /// The member or task; by default everybody.
        to: Option<MemberName>,
        /// Only members with this role.
        role: Option<Role>,
        /// The text.
        content: String,
        /// The message it answers.
        reply_to: Option<u64>,
    },
    /// Asks for help.
    Ask {
        question: String,
        /// Background needed to answer it.
        context: Option<String>,
        /// Only members with this role.
        role: Option<Role>,
    },
    /// Answers a message of the inbox.
    Reply {
        /// Its number.
        message: u64,
        /// The text.
        content: String,
    },
    /// Reads the inbox.
    PollMessages {
        /// Include messages that were shown before.
        all: bool,
        /// Do not mark new messages as shown.
        peek: bool,
    },
    /// Reads messages by number, and marks them.
    ReadMessages {
        /// The numbers.
        messages: Vec<u64>,
    },
    /// Waits for new messages, and marks them. None, if none came in time.
    WaitForMessage {
        /// Only from this member.
        from: Option<MemberName>,
        /// Only answers to this message.
        reply_to: Option<u64>,
        /// How long to wait.
        seconds: u64,
    },
    /// Removes messages from the inbox.
    DismissMessages {
        /// The numbers; by default every message that was shown.
        messages: Option<Vec<u64>>,
    },
    /// Writes a shared value.
    SetContext {
        key: String,
        value: String,
        /// Only if the value has this version.
        if_version: Option<u64>,
    },
    /// Reads a shared value.
    GetContext { key: String },
    /// Lists shared values.
    ListContext {
        /// Only keys with this prefix.
        prefix: String,
    },
    /// Waits for values that changed after a change. None, if none changed in time.
    WaitForContext {
        /// The last change seen; without one, the values as they are.
        after: Option<u64>,
        /// How long to wait.
        seconds: u64,
    },
    /// Lists the members.
    ListInstances,
}

/// A message as it goes through the door.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SentMessage {
    id: u64,
    at: Timestamp,
    from: MemberName,
    to: MemberName,
    kind: MessageKind,
    text: String,
    reply_to: Option<u64>,
    read_at: Option<Timestamp>,
}

impl From<Message> for SentMessage {
    fn from(message: Message) -> Self {
        let Message { id, at, from, to, kind, text, reply_to, read_at } = message;
        Self { id, at, from, to, kind, text, reply_to, read_at }
    }
}

impl From<SentMessage> for Message {
    fn from(message: SentMessage) -> Self {
        let SentMessage { id, at, from, to, kind, text, reply_to, read_at } = message;
        Self { id, at, from, to, kind, text, reply_to, read_at }
    }
}

/// A shared value as it goes through the door.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SentContext {
    key: String,
    value: Option<String>,
    version: u64,
    change: u64,
    by: String,
    at: Timestamp,
}

impl From<ContextEntry> for SentContext {
    fn from(entry: ContextEntry) -> Self {
        let ContextEntry { key, value, version, change, by, at } = entry;
        Self { key, value, version, change, by, at }
    }
}

impl From<SentContext> for ContextEntry {
    fn from(entry: SentContext) -> Self {
        let SentContext { key, value, version, change, by, at } = entry;
        Self { key, value, version, change, by, at }
    }
}

/// The first line of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// One request.
    Tool(Tool),
    /// The MCP server from here on.
    Mcp,
}

impl Call {
    /// As one line.
    pub fn line(&self) -> String {
        let mut line = json!({ "v": VERSION, "verb": "mcp" });
        if let Self::Tool(tool) = self {
            line = serde_json::to_value(tool).expect("plain data");
            line["v"] = VERSION.into();
            line["verb"] = "tool".into();
        }
        format!("{line}\n")
    }

    /// Reads a line.
    pub fn parse(line: &str) -> Result<Self, Refusal> {
        let wrong = |why: String| Refusal::usage(format!("the request: {why}"));
        let value: Value = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        match (value["v"].as_u64(), value["verb"].as_str()) {
            (Some(VERSION), Some("mcp")) => Ok(Self::Mcp),
            (Some(VERSION), Some("tool")) => {
                let tool = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
                Ok(Self::Tool(tool))
            }
            _ => Err(wrong("it is not of version 1".into())),
        }
    }
}

/// The answer as one line.
pub fn answer(result: &Result<Value, Refusal>) -> String {
    let document = match result {
        Ok(value) => json!({ "ok": value }),
        Err(refusal) => {
            let next = serde_json::to_value(&refusal.next).expect("plain data");
            let error = json!({
                "kind": name(refusal.kind), "message": refusal.message, "hint": refusal.hint(), "next": next,
            });
            json!({ "error": error })
        }
    };
    format!("{document}\n")
}

/// Reads an answer.
pub fn answered(line: &str) -> Result<Value, Refusal> {
    let unreadable = || {
        Refusal::new(RefusalKind::CannotWork, "the answer from outside the sandbox cannot be read")
            .hinted("try again")
    };
    let mut document: Value = serde_json::from_str(line).map_err(|_| unreadable())?;
    if let Some(value) = document.get_mut("ok") {
        return Ok(value.take());
    }
    let error = &document["error"];
    let message = error["message"].as_str().ok_or_else(unreadable)?;
    let refusal = Refusal::new(kind(error["kind"].as_str().unwrap_or_default()), message);
    let steps: Vec<Step> = error["next"].as_array().into_iter().flatten().filter_map(step).collect();
    Err(match (steps.is_empty(), error["hint"].as_str()) {
        (false, _) => Refusal { next: steps, ..refusal },
        (true, Some(hint)) => refusal.hinted(hint),
        (true, None) => refusal,
    })
}

fn step(value: &Value) -> Option<Step> {
    let act = serde_json::from_value::<Act>(value["act"].clone());
    let task = serde_json::from_value(value["task"].clone());
    match (act, task) {
        (Ok(act), Ok(task)) => Some(Step::Act { act, task }),
        _ => value["text"].as_str().map(|text| Step::Advice(text.to_owned())),
    }
}

const KINDS: [(RefusalKind, &str); 7] = [
    (RefusalKind::Usage, "usage"),
    (RefusalKind::CannotWork, "cannot-work"),
    (RefusalKind::NotFound, "not-found"),
    (RefusalKind::TimedOut, "timed-out"),
    (RefusalKind::Refused, "refused"),
    (RefusalKind::Git, "git"),
    (RefusalKind::Interrupted, "interrupted"),
];

fn name(kind: RefusalKind) -> &'static str {
    KINDS.iter().find(|(one, _)| *one == kind).map_or("cannot-work", |(_, name)| name)
}

fn kind(name: &str) -> RefusalKind {
    KINDS.iter().find(|(_, one)| *one == name).map_or(RefusalKind::CannotWork, |(kind, _)| *kind)
}

/// Carries out a request as the attempt that this process acts for.
pub async fn carry_out(tool: Tool, project: &ProjectOptions) -> Result<Value, Refusal> {
    let word = match tool {
        Tool::Done(statement) => Word::Done(statement),
        Tool::Progress { label, detail, phase } => Word::Progress { label, detail, phase },
        Tool::Stuck { why } => Word::Stuck(why),
        tool => return with_crew(tool, &Crew::open(&Project::look(project)?).await?).await,
    };
    // This needs nothing of the project, only the store.
    let worker = Worker::here()?;
    worker.say(word).await?;
    Ok(json!({ "task": worker.task, "attempt": worker.attempt }))
}

async fn with_crew(tool: Tool, crew_of: &Crew) -> Result<Value, Refusal> {
    let who = Speaker::default;
    let recipients = |to: Option<MemberName>, role: Option<Role>| match (to, role) {
        (Some(one), _) => Recipients::One(one),
        (None, Some(role)) => Recipients::Role(role),
        (None, None) => Recipients::Everybody,
    };
    match tool {
        Tool::SendMessage { to, role, content: text, reply_to } => {
            let kind = if to.is_some() { MessageKind::Direct } else { MessageKind::Broadcast };
            let request = PostRequest { from: who(), to: recipients(to, role), kind, text, reply_to };
            Ok(posted(&crew_of.post(request).await?))
        }
        Tool::Ask { question, context, role } => {
            let request = AskRequest { from: who(), to: recipients(None, role), question, context };
            Ok(posted(&crew_of.ask(request).await?))
        }
        Tool::Reply { message, content: text } => {
            Ok(posted(&crew_of.reply(ReplyRequest { from: who(), message, text }).await?))
        }
        Tool::PollMessages { all, peek } => {
            let reader = crew_of.reader(&who()).await?;
            let letters = crew_of.inbox(&InboxRequest { all, ..InboxRequest::new(reader) }).await?;
            Ok(messages(if peek { letters.messages } else { letters.shown().await? }))
        }
        Tool::ReadMessages { messages: ids } => {
            Ok(messages(crew_of.read(&who(), &ids).await?.shown().await?))
        }
        Tool::WaitForMessage { from, reply_to, seconds } => {
            let reader = crew_of.reader(&who()).await?;
            let inbox = InboxRequest { from, reply_to, ..InboxRequest::new(reader) };
            let until = Some(Instant::now() + patience(seconds));
            let found = crew_of.wait_for_letters(&WaitRequest { inbox, until, keeps_there: false }).await?;
            Ok(messages(match found {
                Some(letters) => letters.shown().await?,
                None => Vec::new(),
            }))
        }
        Tool::DismissMessages { messages } => {
            let which = messages.map_or(Which::Shown, Which::Numbers);
            Ok(json!(crew_of.mark(MarkRequest { who: who(), which, mark: Mark::Dismissed }).await?))
        }
        Tool::SetContext { key, value, if_version } => {
            let request = SetContextRequest { who: who(), key, value, if_version, epoch: None };
            document(&crew_of.set_context(&request).await?)
        }
        Tool::GetContext { key } => document(&crew_of.context(&key).await?),
        Tool::ListContext { prefix } => {
            Ok(contexts(crew_of.store.contexts(&ContextQuery { prefix, after: None }).await?))
        }
        Tool::WaitForContext { after, seconds } => {
            Ok(contexts(changed(crew_of.store.as_ref(), after, patience(seconds)).await?))
        }
        Tool::ListInstances => document(&crew(crew_of.store.as_ref()).await?),
        Tool::Done(_) | Tool::Progress { .. } | Tool::Stuck { .. } => {
            Err(Refusal::usage("this is a report, and not of the crew"))
        }
    }
}

async fn changed(
    store: &dyn Store,
    after: Option<u64>,
    patience: Duration,
) -> Result<Vec<ContextEntry>, Refusal> {
    let until = Instant::now() + patience;
    let mut changes = StoreChanges::of(store).await?;
    loop {
        let found = store.contexts(&ContextQuery { prefix: String::new(), after }).await?;
        if !found.is_empty() || after.is_none() || Instant::now() >= until {
            return Ok(found);
        }
        let left = until.saturating_duration_since(Instant::now());
        changes.next_within(left.min(Duration::from_secs(5))).await?;
    }
}

fn patience(seconds: u64) -> Duration {
    Duration::from_secs(seconds).min(MOST_PATIENCE)
}

fn posted(posted: &Posted) -> Value {
    json!({ "id": posted.id, "to": posted.to })
}

fn messages(found: Vec<Message>) -> Value {
    json!(found.into_iter().map(SentMessage::from).collect::<Vec<_>>())
}

fn contexts(found: Vec<ContextEntry>) -> Value {
    json!(found.into_iter().map(SentContext::from).collect::<Vec<_>>())
}

fn document(document: &impl Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(document)
        .map_err(|error| Refusal::new(RefusalKind::CannotWork, format!("write the answer: {error}")))
}

/// Reads the answers of the types that commands show.
pub fn read<T: for<'de> Deserialize<'de>>(value: Value) -> Result<T, Refusal> {
    serde_json::from_value(value).map_err(|error| {
        Refusal::new(RefusalKind::CannotWork, format!("the answer from outside the sandbox: {error}"))
            .hinted("the agent's Regatta and the one outside may be of different versions")
    })
}

/// What a sent message is to a command.
#[derive(Deserialize)]
pub struct SentPost {
    id: u64,
    to: Vec<MemberName>,
}

impl From<SentPost> for Posted {
    fn from(SentPost { id, to }: SentPost) -> Self {
        Self { id, to }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_one_line_and_is_read_again() {
        let tool = Tool::SetContext { key: "a\nb".into(), value: "x".into(), if_version: Some(0) };
        for call in [Call::Mcp, Call::Tool(tool), Call::Tool(Tool::ListInstances)] {
            let line = call.line();
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            assert_eq!(Call::parse(&line).unwrap(), call);
        }
        let done = r#"{"v":1,"verb":"tool","name":"done","arguments":{"verdict":"pass"}}"#;
        assert!(matches!(Call::parse(done).unwrap(), Call::Tool(Tool::Done(_))));
        for wrong in [
            "",
            "[]",
            r#"{"v":2,"verb":"mcp"}"#,
            r#"{"v":1,"verb":"shell"}"#,
            r#"{"v":1,"verb":"tool"}"#,
            r#"{"v":1,"verb":"tool","name":"enqueue","arguments":{}}"#,
            r#"{"v":1,"verb":"tool","name":"done","arguments":{"verdict":"great"}}"#,
        ] {
            assert!(Call::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_refusal_keeps_its_kind_and_its_next_steps() {
        let task = regatta_core::id::TaskId::parse("t").unwrap();
        let refusal = Refusal::refused("no").offering(&task, [Act::Status]);
        let again = answered(&answer(&Err(refusal.clone()))).unwrap_err();
        assert_eq!(
            (again.kind, &again.message, &again.next),
            (refusal.kind, &refusal.message, &refusal.next)
        );
        assert_eq!(answered(&answer(&Ok(json!({ "a": 1 })))).unwrap(), json!({ "a": 1 }));
        let brief = r#"{"error":{"kind":"refused","message":"m","hint":"h"}}"#;
        assert_eq!(answered(brief).unwrap_err().hint(), "h");
        assert_eq!(answered("what").unwrap_err().kind, RefusalKind::CannotWork);
    }
}
