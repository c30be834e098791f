//! What the commands lend the MCP server: the same acts, with the same refusals.

pub(crate) mod door;
mod log;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use regatta_core::crew::{MemberName, Role};
use regatta_core::time::Timestamp;
use regatta_core::verdict::Statement;
use regatta_engine::clock;
use regatta_engine::session::node_name;
use regatta_ops::documents::crew::{
    BoardTaskDocument, ClaimDocument, ContextDocument, MemberDocument, PostedDocument,
};
use regatta_ops::documents::{ChangesDocument, RadarDocument, StatusDocument, TaskDocument};
use regatta_ops::tasks::{AddRequest, EnqueueRequest, Source};
use regatta_server::mcp::{
    ClaimOrder, CompleteOrder, ContextOrder, EnqueueOrder, Host, InboxOrder, PostOrder, PushOrder, Refusal,
    Speaker,
};
use regatta_store::{
    Author, Authority, InboxQuery, LEADER_ROLE, MAIN_QUEUE, Message, MessageKind, NewMember, NodeInfo,
    SessionId, Store, Word,
};
use serde_json::Value;

use crate::commands::crew::{heartbeat, register};
use crate::commands::ctx::{delete, set};
use crate::commands::lane::lanes;
use crate::commands::msg::{ask, post, show};
use crate::commands::task::{claim, complete, held, push};
use crate::commands::{land, list, radar, status, worker};
use crate::crew::{As, there};
use crate::error::CliError;
use crate::project::{Project, find_task};
use crate::queue::Operator;

/// The commands, on one project and one store.
pub(crate) struct Commands {
    pub(crate) project: Project,
    pub(crate) store: Arc<dyn Store>,
    /// No process stands for whoever registers, but its calls, at most this far apart: its client is somewhere else.
    pub(crate) lease: Option<Duration>,
}

fn who(speaker: &Speaker) -> As {
    As { name: speaker.name.clone() }
}

impl Commands {
    async fn told(&self, name: &MemberName) -> Result<MemberDocument, CliError> {
        let member = there(&self.store.members().await?, name)?;
        let leader = self.store.holder(LEADER_ROLE).await?.map(|leader| leader.session);
        Ok(MemberDocument::of(&member, leader.as_ref()))
    }

    /// Joins the crew. Whoever is there already under that name, by this very process, is it.
    pub(crate) async fn join(&self, name: &MemberName, role: &Role) -> Result<MemberDocument, CliError> {
        let members = self.store.members().await?;
        let node = match self.lease {
            Some(_) => NodeInfo::of_beats(&node_name(), name),
            None => register::process(Some(std::process::id()))?.of_member(name),
        };
        let is_it = |member: &&regatta_store::Member| {
            member.is_there && member.name.is(name) && member.role == *role && member.node == node
        };
        if !members.iter().any(|member| is_it(&member)) {
            let session = SessionId::fresh(&format!("member-{name}"));
            let (name, role) = (name.clone(), role.clone());
            let member = NewMember { name, role, session, node, lease: self.lease };
            register::register(self.store.as_ref(), &member).await?;
        }
        self.told(name).await
    }

    /// What was registered by this process leaves.
    pub(crate) async fn leave(&self) {
        let Ok(members) = self.store.members().await else { return };
        let own = std::process::id();
        for member in members.iter().filter(|member| member.is_there && member.node.pid == own) {
            // Whoever looks next sees that the process is gone.
            let _ = self.store.close_session(&member.session, clock::now()).await;
        }
    }
}

#[async_trait]
impl Host for Commands {
    fn now(&self) -> Timestamp {
        clock::now()
    }

    fn without_secrets(&self, text: &str) -> String {
        crate::render::shown::redactor(&self.project.config).redact(text).into_owned()
    }

    async fn register(&self, name: &MemberName, role: &Role) -> Result<MemberDocument, Refusal> {
        Ok(self.join(name, role).await?)
    }

    async fn heartbeat(&self, speaker: &Speaker, task: Option<&str>) -> Result<MemberDocument, Refusal> {
        let member = who(speaker).member(self.store.as_ref()).await?;
        Ok(heartbeat::beat(self.store.as_ref(), &member, task).await?)
    }

    async fn heard(&self, name: &MemberName) {
        if self.lease.is_none() {
            return;
        }
        let Ok(members) = self.store.members().await else { return };
        if let Some(member) = members.iter().find(|member| member.is_there && member.name.is(name)) {
            // One that cannot be renewed has left; what it calls says so.
            let _ = self.store.renew(&member.session).await;
        }
    }

    async fn author(&self, speaker: &Speaker) -> Result<Author, Refusal> {
        Ok(who(speaker).author(self.store.as_ref()).await?)
    }

    async fn reader(&self, speaker: &Speaker) -> Result<MemberName, Refusal> {
        Ok(who(speaker).reader(self.store.as_ref()).await?)
    }

    async fn push(&self, order: PushOrder) -> Result<BoardTaskDocument, Refusal> {
        let deps: Vec<&str> = order.deps.iter().map(|id| id.as_str()).collect();
        let args = push::Args {
            title: order.title,
            description: order.description,
            id: order.id,
            role: order.role,
            assign: order.assignee,
            priority: order.priority,
            deps: (!deps.is_empty()).then(|| deps.join(",")),
            max_attempts: None,
            checks: Vec::new(),
            land: false,
        };
        let store = self.store.as_ref();
        let spec = push::put_on_board(&args, &push::NUMBERED, &self.project, store).await?;
        Ok(BoardTaskDocument::of(&store.task(&spec.id).await?, &store.members().await?))
    }

    async fn claim(&self, order: ClaimOrder) -> Result<ClaimDocument, Refusal> {
        let member = who(&order.who).member(self.store.as_ref()).await?;
        let (task, lane) = (order.task, order.lane);
        let args = claim::Args { task, who: As::default(), lane, wait: false, timeout: None };
        Ok(claim::take(&args, &self.project, &self.store, &member).await?)
    }

    async fn complete(&self, order: CompleteOrder) -> Result<BoardTaskDocument, Refusal> {
        let who = who(&order.who);
        let member = who.member(self.store.as_ref()).await?;
        let held = held::Held { task: order.task, who, token: order.token };
        let args = complete::Args { held, result: order.result, verdict: order.verdict, tell: None };
        let task = complete::complete(&args, &self.project, &self.store, &member).await?;
        Ok(BoardTaskDocument::of(&task, &self.store.members().await?))
    }

    async fn post(&self, order: PostOrder) -> Result<PostedDocument, Refusal> {
        let (store, who) = (self.store.as_ref(), who(&order.who));
        let text = match order.kind {
            MessageKind::Help => {
                ask::worded(&self.project, store, &who, &order.text, order.context.as_deref()).await?
            }
            _ => order.text,
        };
        let is_agent = matches!(who.author(store).await?.authority, Authority::Attempt { .. });
        let text = if is_agent { self.without_secrets(&text) } else { text };
        let posted = post::post(store, &who, order.to, order.kind, &text, order.reply_to).await?;
        Ok(PostedDocument::from(&posted))
    }

    async fn inbox(&self, order: &InboxOrder) -> Result<Vec<Message>, Refusal> {
        let store = self.store.as_ref();
        let _turn = show::turn(&self.project, &order.reader).await?;
        let query = InboxQuery { unread: !order.all, ..InboxQuery::default() };
        let mut messages = store.inbox(&order.reader, &query).await?;
        messages.retain(|message| {
            order.from.as_ref().is_none_or(|name| name.is(&message.from))
                && order.reply_to.is_none_or(|id| message.reply_to == Some(id))
        });
        if !order.peek {
            show::shown(store, &order.reader, &messages).await?;
        }
        Ok(messages)
    }

    async fn write_context(&self, order: ContextOrder) -> Result<ContextDocument, Refusal> {
        let (store, who) = (self.store.as_ref(), who(&order.who));
        let (key, if_version) = (order.key, order.if_version);
        let Some(value) = order.value else {
            let by = who.author(store).await?.name.to_string();
            let args = delete::Args { key: key.clone(), if_version, epoch: None, who };
            let version = delete::delete(&args, store).await?;
            return Ok(ContextDocument { key, value: None, version, by, at: clock::now() });
        };
        let value = crate::render::shown::redactor_here(&self.project.config).redact(&value).into_owned();
        let args = set::Args { key, value, if_version, epoch: None, who };
        Ok(set::write(&args, store).await?)
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
                return Ok(self.project.add(&request).await?.document().await?);
            }
        };
        let request = EnqueueRequest { replace, ..EnqueueRequest::new(source) };
        Ok(self.project.enqueue(&request).await?.document().await?)
    }

    async fn tasks(&self, status: &str, limit: usize) -> Result<Vec<TaskDocument>, Refusal> {
        Ok(list::documents(&self.project, self.store.as_ref(), status, limit).await?)
    }

    async fn status(&self, task: &str) -> Result<StatusDocument, Refusal> {
        let task = find_task(self.store.as_ref(), task).await?;
        Ok(status::document(&self.project, self.store.as_ref(), &task).await?)
    }

    async fn radar(&self, task: Option<&str>) -> Result<Option<RadarDocument>, Refusal> {
        let mut only = std::collections::BTreeSet::new();
        if let Some(text) = task {
            only.insert(find_task(self.store.as_ref(), text).await?.spec.id);
        }
        let Some(lanes) = lanes(&self.project)? else { return Ok(None) };
        let mut sighting = radar::look_now(self.store.as_ref(), &lanes, &self.project).await?;
        radar::restrict(&mut sighting, &only);
        Ok(Some(RadarDocument::from(&sighting)))
    }

    async fn land_status(&self) -> Result<Value, Refusal> {
        Ok(land::look::train(&self.project).await?)
    }

    async fn log(&self, task: &str, most: usize) -> Result<String, Refusal> {
        Ok(log::end_of(&self.project, self.store.as_ref(), task, most).await?)
    }

    fn clean_word(&self, word: Word) -> Word {
        // An agent may hand on less of its environment than it has: what the settings know counts here too.
        let clean = |text: String| self.without_secrets(&text);
        match worker::without_secrets(word) {
            Word::Done(statement) => Word::Done(Statement { summary: clean(statement.summary), ..statement }),
            Word::Progress { label, detail, phase } => {
                Word::Progress { label: clean(label), detail: detail.map(clean), phase: phase.map(clean) }
            }
            Word::Stuck(why) => Word::Stuck(clean(why)),
        }
    }

    async fn takers(&self) -> Result<String, Refusal> {
        let queue = Operator::of(&self.project, self.store.clone()).await?;
        Ok(queue.takers.sentence(MAIN_QUEUE))
    }
}
