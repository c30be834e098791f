//! What the commands lend the MCP server: the same acts, with the same refusals.

pub(crate) mod door;

use std::time::Duration;

use async_trait::async_trait;
use regatta_core::crew::{MemberName, Role};
use regatta_core::time::Timestamp;
use regatta_engine::clock;
use regatta_ops::crew::{
    self, AskRequest, ClaimRequest, CompleteRequest, Crew, DeleteContextRequest, HeartbeatRequest, Held,
    InboxRequest, Pick, PostRequest, PushRequest, RegisterRequest, SetContextRequest, Stands,
};
use regatta_ops::documents::crew::{
    BoardTaskDocument, ClaimDocument, ContextDocument, MemberDocument, PostedDocument,
};
use regatta_ops::documents::{ChangesDocument, RadarDocument, StatusDocument, TaskDocument};
use regatta_ops::look;
use regatta_ops::tasks::{AddRequest, EnqueueRequest, Source};
use regatta_server::mcp::{
    ClaimOrder, CompleteOrder, ContextOrder, EnqueueOrder, Host, InboxOrder, PostOrder, PushOrder, Refusal,
    Speaker,
};
use regatta_store::{Author, MAIN_QUEUE, Message, MessageKind, Word};
use serde_json::Value;

use crate::error::CliError;
use crate::project::find_task;
use crate::queue::Operator;

/// The operations, on one project and one store.
pub(crate) struct Commands {
    pub(crate) crew: Crew,
    /// No process stands for whoever registers, but its calls, at most this far apart: its client is somewhere else.
    pub(crate) lease: Option<Duration>,
}

fn who(speaker: &Speaker) -> crew::Speaker {
    crew::Speaker { name: speaker.name.clone() }
}

impl Commands {
    /// Joins the crew. One who is there already under that name, by this very process, is it.
    pub(crate) async fn join(&self, name: &MemberName, role: &Role) -> Result<MemberDocument, CliError> {
        let stands = self.lease.map_or(Stands::Here, Stands::Heartbeats);
        let (name, role) = (name.clone(), role.clone());
        let member = self.crew.join(&RegisterRequest { name, role, stands, wait: false }).await?;
        self.crew.document(&member).await
    }
}

#[async_trait]
impl Host for Commands {
    fn now(&self) -> Timestamp {
        clock::now()
    }

    fn without_secrets(&self, text: &str) -> String {
        crate::render::shown::redactor(&self.crew.project.config).redact(text).into_owned()
    }

    async fn register(&self, name: &MemberName, role: &Role) -> Result<MemberDocument, Refusal> {
        Ok(self.join(name, role).await?)
    }

    async fn heartbeat(&self, speaker: &Speaker, task: Option<&str>) -> Result<MemberDocument, Refusal> {
        let request = HeartbeatRequest { who: who(speaker), task: task.map(str::to_owned) };
        Ok(self.crew.heartbeat(&request).await?)
    }

    async fn heard(&self, name: &MemberName) {
        if self.lease.is_some() {
            self.crew.heard(name).await;
        }
    }

    async fn author(&self, speaker: &Speaker) -> Result<Author, Refusal> {
        Ok(who(speaker).author(self.crew.store.as_ref()).await?)
    }

    async fn reader(&self, speaker: &Speaker) -> Result<MemberName, Refusal> {
        Ok(self.crew.reader(&who(speaker)).await?)
    }

    async fn push(&self, order: PushOrder) -> Result<BoardTaskDocument, Refusal> {
        let request = PushRequest {
            title: order.title,
            description: order.description,
            id: order.id,
            role: order.role,
            assignee: order.assignee,
            priority: order.priority,
            deps: order.deps.iter().map(ToString::to_string).collect(),
            ..PushRequest::default()
        };
        Ok(self.crew.push(&request).await?)
    }

    async fn claim(&self, order: ClaimOrder) -> Result<ClaimDocument, Refusal> {
        let pick = order.task.map_or(Pick::Next, Pick::Named);
        Ok(self.crew.claim(&ClaimRequest { who: who(&order.who), pick, lane: order.lane }).await?)
    }

    async fn complete(&self, order: CompleteOrder) -> Result<BoardTaskDocument, Refusal> {
        let held = Held { task: order.task, who: who(&order.who), token: order.token };
        let (result, verdict) = (order.result, order.verdict);
        Ok(self.crew.complete(&CompleteRequest { held, result, verdict, tell: None }).await?)
    }

    async fn post(&self, order: PostOrder) -> Result<PostedDocument, Refusal> {
        let (from, to) = (who(&order.who), order.to);
        let posted = match order.kind {
            MessageKind::Help => {
                let (question, context) = (order.text, order.context);
                self.crew.ask(AskRequest { from, to, question, context }).await?
            }
            kind => {
                let (text, reply_to) = (order.text, order.reply_to);
                self.crew.post(PostRequest { from, to, kind, text, reply_to }).await?
            }
        };
        Ok(PostedDocument::from(&posted))
    }

    async fn inbox(&self, order: &InboxOrder) -> Result<Vec<Message>, Refusal> {
        let request = InboxRequest {
            all: order.all,
            from: order.from.clone(),
            reply_to: order.reply_to,
            ..InboxRequest::new(order.reader.clone())
        };
        let letters = self.crew.inbox(&request).await?;
        if order.peek { Ok(letters.messages) } else { Ok(letters.shown().await?) }
    }

    async fn write_context(&self, order: ContextOrder) -> Result<ContextDocument, Refusal> {
        let (who, key, if_version) = (who(&order.who), order.key, order.if_version);
        Ok(match order.value {
            Some(value) => {
                let request = SetContextRequest { who, key, value, if_version, epoch: None };
                self.crew.set_context(&request).await?
            }
            None => {
                let request = DeleteContextRequest { who, key, if_version, epoch: None };
                self.crew.delete_context(&request).await?
            }
        })
    }

    async fn enqueue(&self, order: EnqueueOrder) -> Result<ChangesDocument, Refusal> {
        let (source, replace) = match order {
            EnqueueOrder::Plan { text, replace } => (Source::Text(text), replace),
            EnqueueOrder::Files { what, replace } => (Source::Files(what), replace),
            EnqueueOrder::Prompt { prompt, id, title, deps, agent, priority, land } => {
                let deps: Vec<String> = deps.iter().map(ToString::to_string).collect();
                let deps = (!deps.is_empty()).then_some(deps);
                let request =
                    AddRequest { prompt, id, title, deps, agent, priority, land, ..AddRequest::default() };
                return Ok(self.crew.project.add(&request).await?.document().await?);
            }
        };
        let request = EnqueueRequest { replace, ..EnqueueRequest::new(source) };
        Ok(self.crew.project.enqueue(&request).await?.document().await?)
    }

    async fn tasks(&self, status: &str, limit: usize) -> Result<Vec<TaskDocument>, Refusal> {
        Ok(look::tasks::documents(&self.crew.project, self.crew.store.as_ref(), status, limit).await?)
    }

    async fn status(&self, task: &str) -> Result<StatusDocument, Refusal> {
        let task = find_task(self.crew.store.as_ref(), task).await?;
        Ok(look::status::document(&self.crew.project, self.crew.store.as_ref(), &task).await?)
    }

    async fn radar(&self, task: Option<&str>) -> Result<Option<RadarDocument>, Refusal> {
        let mut only = std::collections::BTreeSet::new();
        if let Some(text) = task {
            only.insert(find_task(self.crew.store.as_ref(), text).await?.spec.id);
        }
        let seen = look::radar::radar(&self.crew.project, self.crew.store.as_ref(), &only).await?;
        Ok(seen.as_ref().map(RadarDocument::from))
    }

    async fn land_status(&self) -> Result<Value, Refusal> {
        let train = look::train::train(&self.crew.project).await?;
        Ok(serde_json::to_value(train).expect("our own values serialise"))
    }

    async fn log(&self, task: &str, most: usize) -> Result<String, Refusal> {
        Ok(look::log::end_of(&self.crew.project, self.crew.store.as_ref(), task, most).await?)
    }

    fn clean_word(&self, word: Word) -> Word {
        regatta_ops::worker::without_secrets(word, Some(&self.crew.project.config))
    }

    async fn takers(&self) -> Result<String, Refusal> {
        let queue = Operator::of(&self.crew.project, self.crew.store.clone()).await?;
        Ok(queue.takers.sentence(MAIN_QUEUE))
    }
}
