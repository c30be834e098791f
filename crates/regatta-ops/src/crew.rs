//! The crew: which member acts, and what members can do.

mod claim;
mod complete;
mod context;
mod held;
mod inbox;
mod lane;
mod members;
mod messages;
mod push;
mod stay;
mod wake;
mod watch;

use std::sync::Arc;

use regatta_core::crew::MemberName;
use regatta_engine::crew::of_this_process;
use regatta_store::{Author, Authority, Member, Store, StoreError};

pub use claim::{ClaimRequest, Pick};
pub use complete::CompleteRequest;
pub use context::{DeleteContextRequest, SetContextRequest};
pub use held::{Held, ReasonRequest};
pub use inbox::{InboxRequest, Letters, MarkRequest, WaitRequest, Which};
pub use members::{HeartbeatRequest, RegisterRequest, Stands, leader};
pub(crate) use messages::post;
pub use messages::{AskRequest, PostRequest, ReplyRequest, sentence, unusable};
pub use push::{NUMBERED, Naming, PushRequest};
pub use stay::{Heard, KeepOutput, StayRequest};
pub use watch::{BoardWatch, ContextSeen, ContextWatch};

use crate::operator::user;
use crate::project::Project;
use crate::refusal::Refusal;
use crate::worker::AttemptHere;

/// The operations of crew members on one project and its store.
#[derive(Clone)]
pub struct Crew {
    pub project: Project,
    pub store: Arc<dyn Store>,
}

impl Crew {
    /// Opens the store. A file is created if it is missing; a store that machines share is not.
    pub async fn open(project: &Project) -> Result<Self, Refusal> {
        // Creating a store asks git what is tracked; opening an existing one does not.
        let store = if project.has_store() { project.store().await? } else { project.create_store().await? };
        Ok(Self::of(project, store))
    }

    /// Opens the store for a member that joins, or for the first task: it is created if it is missing.
    pub async fn create(project: &Project) -> Result<Self, Refusal> {
        match project.store_if_any().await? {
            Some(store) => Ok(Self::of(project, store)),
            None => Ok(Self::of(project, project.create_store().await?)),
        }
    }

    /// Uses a store that is already open.
    pub fn of(project: &Project, store: Arc<dyn Store>) -> Self {
        Self { project: project.clone(), store }
    }

    fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }
}

/// Who acts: a member by name, or the one that this process belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Speaker {
    /// The member. Without one: the agent whose attempt this process runs in, or the member whose process this one
    /// descends from.
    pub name: Option<MemberName>,
}

impl Speaker {
    /// The acting member, who must not have left.
    pub async fn member(&self, store: &dyn Store) -> Result<Member, Refusal> {
        let members = store.members().await?;
        match &self.name {
            Some(name) => there(&members, name),
            None => match of_this_process(&members).as_slice() {
                [one] => Ok((*one).clone()),
                [] => Err(Refusal::usage("no crew member is registered for this shell")
                    .hinted("`regatta crew register NAME` registers one; or name one with --as NAME")),
                many => {
                    let names: Vec<&str> = many.iter().map(|member| member.name.as_str()).collect();
                    Err(Refusal::usage(format!("this process is registered as {}", names.join(" and ")))
                        .hinted("choose one with --as NAME"))
                }
            },
        }
    }

    /// The author of a message: a member, the agent of a task, or a person outside the crew.
    pub async fn author(&self, store: &dyn Store) -> Result<Author, Refusal> {
        if self.name.is_none() {
            if let Some(agent) = agent_here()? {
                return Ok(agent);
            }
            if of_this_process(&store.members().await?).is_empty() {
                let name = MemberName::parse(&user()).or_else(|_| MemberName::parse("operator"));
                let name = name.expect("the second word is a name");
                return Ok(Author { name, authority: Authority::Outside });
            }
        }
        let member = self.member(store).await?;
        Ok(Author { name: member.name, authority: Authority::Member(member.session) })
    }

    /// The owner of the inbox: the one who acts. A member who has left may still read.
    pub async fn reader(&self, store: &dyn Store) -> Result<MemberName, Refusal> {
        match &self.name {
            Some(name) => {
                let members = store.members().await?;
                if let Some(member) = members.into_iter().find(|member| member.name.is(name)) {
                    return Ok(member.name);
                }
                match store.task(name.as_task()).await {
                    Ok(task) => Ok(MemberName::from(task.spec.id)),
                    Err(StoreError::NotFound(_)) => Err(unknown(name)),
                    Err(error) => Err(error.into()),
                }
            }
            None => match agent_here()? {
                Some(agent) => Ok(agent.name),
                None => Ok(self.member(store).await?.name),
            },
        }
    }
}

/// The agent whose environment this process has, if any.
fn agent_here() -> Result<Option<Author>, Refusal> {
    Ok(AttemptHere::load()?.map(|AttemptHere { task, attempt, token_hash }| Author {
        name: MemberName::from(task),
        authority: Authority::Attempt { attempt, token_hash },
    }))
}

/// The member with that name, if it has not left.
pub fn there(members: &[Member], name: &MemberName) -> Result<Member, Refusal> {
    match members.iter().find(|member| member.name.is(name)) {
        Some(member) if member.is_there => Ok(member.clone()),
        Some(member) => Err(Refusal::refused(format!("{} has left the crew", member.name)).hinted(format!(
            "`regatta crew register {} --role {}` returns; the tasks it held are on the board again",
            member.name, member.role
        ))),
        None => Err(unknown(name)),
    }
}

fn unknown(name: &MemberName) -> Refusal {
    Refusal::not_found(format!("no crew member is named {name}"))
        .hinted(format!("`regatta crew list` shows the members, `regatta crew register {name}` adds one"))
}
