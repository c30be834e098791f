//! Messages of members and agents.

use std::time::Duration;

use regatta_store::{MAX_MESSAGE, Mark, Message, MessageKind, Posted, Recipients};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::schemars::{self, JsonSchema};
use rmcp::{tool, tool_router};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::crew::count;
use crate::mcp::answer::{Answer, ToolResult};
use crate::mcp::{Server, input};
use regatta_ops::crew::{AskRequest, InboxRequest, MarkRequest, PostRequest, WaitRequest, Which, sentence};
use regatta_ops::documents::crew::{MessageDocument, PostedDocument};
use regatta_ops::{Refusal, RefusalKind};

/// Seconds to wait by default, and at most, because clients give up a call after a while.
const USUAL_PATIENCE: u64 = 30;
const MOST_PATIENCE: u64 = 600;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SendMessage {
    /// A member's name, or the id of a task for its agent; by default everybody.
    #[serde(alias = "to_name")]
    to: Option<String>,
    /// The message.
    #[serde(alias = "text")]
    content: String,
    /// The number of the message it answers.
    reply_to: Option<u64>,
    /// Act as this member; by default the one that registered here.
    #[serde(rename = "as")]
    who: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Poll {
    /// Include messages that were shown before.
    #[serde(default)]
    all: bool,
    /// Do not mark new messages as shown.
    #[serde(default)]
    peek: bool,
    /// Read this member's inbox; by default that of the member that registered here.
    #[serde(rename = "as")]
    who: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Wait {
    /// Wait at most this many seconds: 30 by default, 600 at most.
    #[serde(alias = "timeout_s")]
    timeout: Option<u64>,
    /// Only messages from this member.
    from: Option<String>,
    /// Only answers to this message.
    reply_to: Option<u64>,
    /// Read this member's inbox; by default that of the member that registered here.
    #[serde(rename = "as")]
    who: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct One {
    /// The message's number.
    #[serde(alias = "id")]
    message_id: u64,
    /// In this member's inbox; by default that of the member that registered here.
    #[serde(rename = "as")]
    who: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Help {
    /// The question.
    question: String,
    /// Background needed to answer it.
    context: Option<String>,
    /// Ask only members with this role.
    role: Option<String>,
    /// Act as this member; by default the one that registered here.
    #[serde(rename = "as")]
    who: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Ask {
    /// The question.
    question: String,
    /// Background needed to answer it.
    context: Option<String>,
    /// Ask this member, or the agent of this task; by default everybody.
    to: Option<String>,
    /// Wait at most this many seconds for an answer: 30 by default, 600 at most. 0 does not wait.
    #[serde(alias = "timeout_s")]
    timeout: Option<u64>,
    /// Act as this member; by default the one that registered here.
    #[serde(rename = "as")]
    who: Option<String>,
}

#[tool_router(router = message_tools, vis = "pub(super)")]
impl Server {
    /// Send a message to a member or to the agent of a task; without `to`, to the whole crew.
    #[tool(annotations(read_only_hint = false, destructive_hint = false, open_world_hint = false))]
    async fn send_message(&self, Parameters(args): Parameters<SendMessage>) -> ToolResult {
        let to = input::maybe_name("to", args.to.as_deref())?;
        let request = PostRequest {
            from: input::speaker(args.who.as_deref(), self.registered())?,
            kind: if to.is_some() { MessageKind::Direct } else { MessageKind::Broadcast },
            to: to.map_or(Recipients::Everybody, Recipients::One),
            text: input::text("content", args.content, MAX_MESSAGE)?,
            reply_to: args.reply_to,
        };
        Ok(posted(&self.desk.crew.post(request).await?))
    }

    /// Read the new messages in your inbox, each once.
    #[tool(annotations(read_only_hint = false, destructive_hint = false, open_world_hint = false))]
    async fn poll_messages(&self, Parameters(args): Parameters<Poll>) -> ToolResult {
        let who = input::speaker(args.who.as_deref(), self.registered())?;
        let crew = &self.desk.crew;
        let reader = crew.reader(&who).await?;
        let letters = crew.inbox(&InboxRequest { all: args.all, ..InboxRequest::new(reader) }).await?;
        let messages = if args.peek { letters.messages } else { letters.shown().await? };
        Ok(told(&messages))
    }

    /// Wait for a new message, and read it. Tells you if none came in time; then wait again, or continue.
    #[tool(annotations(read_only_hint = false, destructive_hint = false, open_world_hint = false))]
    async fn wait_for_message(&self, Parameters(args): Parameters<Wait>) -> ToolResult {
        let who = input::speaker(args.who.as_deref(), self.registered())?;
        let reader = self.desk.crew.reader(&who).await?;
        let from = input::maybe_name("from", args.from.as_deref())?;
        let inbox = InboxRequest { from, reply_to: args.reply_to, ..InboxRequest::new(reader) };
        Ok(told(&self.next_messages(inbox, patience(args.timeout)).await?))
    }

    /// Remove a message from your inbox.
    #[tool(annotations(
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn dismiss_message(&self, Parameters(args): Parameters<One>) -> ToolResult {
        self.mark(args, Mark::Dismissed, "dismissed").await
    }

    /// Mark a message of your inbox as read.
    #[tool(annotations(
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn mark_read(&self, Parameters(args): Parameters<One>) -> ToolResult {
        self.mark(args, Mark::Read, "read").await
    }

    /// Ask the whole crew for help, and continue; the answers come into your inbox.
    #[tool(annotations(read_only_hint = false, destructive_hint = false, open_world_hint = false))]
    async fn request_help(&self, Parameters(args): Parameters<Help>) -> ToolResult {
        let role = args.role.as_deref().map(input::role).transpose()?;
        let request = AskRequest {
            from: input::speaker(args.who.as_deref(), self.registered())?,
            to: role.map_or(Recipients::Everybody, Recipients::Role),
            question: input::text("question", args.question, MAX_MESSAGE)?,
            context: args.context,
        };
        Ok(posted(&self.desk.crew.ask(request).await?))
    }

    /// Ask the crew or one member, and wait for the answer. If none comes in time, decide yourself or call `stuck`.
    #[tool(annotations(read_only_hint = false, destructive_hint = false, open_world_hint = false))]
    async fn ask(&self, Parameters(args): Parameters<Ask>) -> ToolResult {
        let from = input::speaker(args.who.as_deref(), self.registered())?;
        let to = input::maybe_name("to", args.to.as_deref())?;
        // A sender that waits needs an inbox for the answer.
        let reader = self.desk.crew.reader(&from).await?;
        let request = AskRequest {
            from,
            to: to.map_or(Recipients::Everybody, Recipients::One),
            question: input::text("question", args.question, MAX_MESSAGE)?,
            context: args.context,
        };
        let posted = self.desk.crew.ask(request).await?;
        if posted.to.is_empty() {
            let text = "no one is there to answer it: decide yourself, or call `stuck`";
            return Ok(Answer::said(text, &json!({ "question": posted.id, "asked": [], "messages": [] })));
        }
        let inbox = InboxRequest { reply_to: Some(posted.id), ..InboxRequest::new(reader) };
        let found = self.next_messages(inbox, patience(args.timeout)).await?;
        let messages: Vec<_> = found.iter().map(MessageDocument::from).collect();
        let document = json!({ "question": posted.id, "asked": posted.to, "messages": messages });
        Ok(if found.is_empty() {
            Answer::said(
                format!("no answer to {} yet: wait_for_message waits longer, with reply_to", posted.id),
                &document,
            )
        } else {
            Answer::found("answered", &document)
        })
    }
}

impl Server {
    async fn mark(&self, args: One, mark: Mark, word: &str) -> ToolResult {
        let who = input::speaker(args.who.as_deref(), self.registered())?;
        let which = Which::Numbers(vec![args.message_id]);
        let marked = self.desk.crew.mark(MarkRequest { who, which, mark }).await;
        marked.map_err(|refusal| match refusal.kind {
            RefusalKind::NotFound => refusal.hinted("poll_messages with `all` shows the messages"),
            _ => refusal,
        })?;
        let document = json!({ "message_id": args.message_id, word: true });
        Ok(Answer::said(format!("message {} is {word}", args.message_id), &document))
    }

    /// New messages that match, as soon as there are some; empty if the time is over.
    async fn next_messages(&self, inbox: InboxRequest, patience: Duration) -> Result<Vec<Message>, Refusal> {
        let until = Some(Instant::now() + patience);
        let request = WaitRequest { inbox, until, keeps_there: self.desk.lease.is_some() };
        match self.desk.crew.wait_for_letters(&request).await? {
            Some(letters) => letters.shown().await,
            None => Ok(Vec::new()),
        }
    }
}

fn posted(posted: &Posted) -> Answer {
    Answer::said(sentence(posted), &PostedDocument::from(posted))
}

fn patience(said: Option<u64>) -> Duration {
    Duration::from_secs(said.unwrap_or(USUAL_PATIENCE).min(MOST_PATIENCE))
}

fn told(messages: &[Message]) -> Answer {
    let documents: Vec<_> = messages.iter().map(MessageDocument::from).collect();
    let document = json!({ "messages": documents });
    if messages.is_empty() {
        Answer::said("no new messages", &document)
    } else {
        Answer::found(count(messages.len(), "message"), &document)
    }
}
