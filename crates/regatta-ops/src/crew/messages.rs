//! Messages between members, agents and people.

use regatta_core::causes::with_causes;
use regatta_core::config::Config;
use regatta_core::crew::MemberName;
use regatta_engine::clock;
use regatta_engine::templates::{TemplateFault, Text};
use regatta_store::{
    Authority, InboxQuery, Message, MessageKind, NewMessage, Posted, Recipients, RequestId, Store, StoreError,
};

use super::wake::{sleeper, wake};
use super::{Crew, Speaker};
use crate::refusal::Refusal;
use crate::secrets::redactor;

/// A request to send a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostRequest {
    /// The sender.
    pub from: Speaker,
    /// The recipients.
    pub to: Recipients,
    /// The kind of message.
    pub kind: MessageKind,
    pub text: String,
    /// The number of the message it answers.
    pub reply_to: Option<u64>,
}

/// A request to ask for help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskRequest {
    /// The sender.
    pub from: Speaker,
    /// The recipients.
    pub to: Recipients,
    pub question: String,
    /// Background needed to answer it.
    pub context: Option<String>,
}

/// A request to answer a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyRequest {
    /// The sender, whose inbox has the message.
    pub from: Speaker,
    /// The number of the message.
    pub message: u64,
    pub text: String,
}

impl Crew {
    /// Sends a message. An agent's text is stored and shown, so secrets are masked.
    pub async fn post(&self, request: PostRequest) -> Result<Posted, Refusal> {
        post(self.store(), Some(&self.project.config), request).await
    }

    /// Sends a message to the agent of a task as its next prompt. An agent that has ended is started again.
    pub async fn post_awake(
        &self,
        from: Speaker,
        to: MemberName,
        text: String,
        reply_to: Option<u64>,
    ) -> Result<Posted, Refusal> {
        let task = sleeper(self, &to).await?;
        let (to, kind) = (Recipients::One(to), MessageKind::Direct);
        let posted = self.post(PostRequest { from, to, kind, text, reply_to }).await?;
        wake(self, &task, &posted).await?;
        Ok(posted)
    }

    /// Asks a question with the template `help`.
    pub async fn ask(&self, request: AskRequest) -> Result<Posted, Refusal> {
        let AskRequest { from, to, question, context } = request;
        let template = Text::Help.load(&self.project.repo.state_dir).map_err(unusable)?;
        let author = from.author(self.store()).await?.name;
        let said = template.render(|name| match name {
            "from" => author.to_string(),
            "question" => question.clone(),
            _ => context.clone().unwrap_or_default(),
        });
        let text = said.trim_end().to_owned();
        self.post(PostRequest { from, to, kind: MessageKind::Help, text, reply_to: None }).await
    }

    /// Answers a message in the sender's inbox.
    pub async fn reply(&self, request: ReplyRequest) -> Result<Posted, Refusal> {
        let reader = request.from.reader(self.store()).await?;
        let Some(message) = self.letter(&reader, request.message).await? else {
            return Err(no_message(request.message, &reader));
        };
        let (to, kind) = (Recipients::One(message.from), MessageKind::Direct);
        let ReplyRequest { from, text, .. } = request;
        self.post(PostRequest { from, to, kind, text, reply_to: Some(message.id) }).await
    }

    /// A message of an inbox, by number.
    pub(super) async fn letter(&self, reader: &MemberName, id: u64) -> Result<Option<Message>, Refusal> {
        let query = InboxQuery { after: id.saturating_sub(1), limit: 1, ..InboxQuery::default() };
        let found = self.store.inbox(reader, &query).await?;
        Ok(found.into_iter().find(|message| message.id == id))
    }
}

/// Sends a message; in an agent's text the secrets of this process and of the settings are masked.
pub(crate) async fn post(
    store: &dyn Store,
    config: Option<&Config>,
    request: PostRequest,
) -> Result<Posted, Refusal> {
    let PostRequest { from, to, kind, text, reply_to } = request;
    let author = from.author(store).await?;
    let text = match (&author.authority, config) {
        (Authority::Attempt { .. }, Some(config)) => redactor(config).redact(&text).into_owned(),
        _ => text,
    };
    let message = NewMessage { text, author, to, kind, reply_to };
    let posted = store.post(&message, &RequestId::fresh(), clock::now()).await;
    posted.map_err(|error| match error {
        StoreError::NotFound(what) => Refusal::not_found(format!("there is no {what}"))
            .hinted("`regatta crew list --all` shows all members, `regatta list` shows tasks"),
        error => error.into(),
    })
}

pub(super) fn no_message(id: u64, reader: &MemberName) -> Refusal {
    Refusal::not_found(format!("there is no message {id} in the inbox of {reader}"))
        .hinted("`regatta msg inbox --all` shows all messages")
}

/// The error for an invalid template, with its location.
pub fn unusable(fault: TemplateFault) -> Refusal {
    Refusal::usage(with_causes(&fault)).hinted("correct it, or remove the file to use the default text")
}

/// A sentence that says what was sent, and to whom.
pub fn sentence(posted: &Posted) -> String {
    match posted.to.as_slice() {
        [] => "no member is there to read it".to_owned(),
        names => {
            let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
            format!("message {} is in the inbox of {}", posted.id, names.join(", "))
        }
    }
}
