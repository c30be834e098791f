//! Joining the crew, staying in it, leaving it, and leading it.

use std::time::Duration;

use regatta_core::crew::{MemberName, Role};
use regatta_core::session::SessionKind;
use regatta_core::state::TaskState;
use regatta_engine::clock;
use regatta_engine::crew::MemberWatch;
use regatta_engine::process::Identity;
use regatta_engine::session::{node_name, node_of};
use regatta_store::{
    LEADER_ROLE, Member, NewMember, NodeInfo, RequestId, SessionId, Step, Store, StoreError,
};

use super::held::{held, record};
use super::{Crew, Speaker, there};
use crate::changes::StoreChanges;
use crate::documents::crew::{LeaderDocument, LeftDocument, MemberDocument};
use crate::refusal::Refusal;

/// How often to check whether the lead is free while waiting for it.
const LEAD_INTERVAL: Duration = Duration::from_secs(1);

/// What a membership depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// This process.
    Here,
    /// The parent of this process.
    Parent,
    /// The process with this id.
    Process(u32),
    /// Heartbeats, at most this far apart.
    Heartbeats(Duration),
}

/// A request to join the crew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterRequest {
    /// The member's name.
    pub name: MemberName,
    /// The member's role.
    pub role: Role,
    /// What the membership depends on.
    pub stands: Stands,
    /// For the role leader: wait until the lead is free, then take it.
    pub wait: bool,
}

impl RegisterRequest {
    fn node(&self) -> Result<NodeInfo, Refusal> {
        let pid = match self.stands {
            Stands::Heartbeats(_) => return Ok(NodeInfo::of_beats(&node_name(), &self.name)),
            Stands::Here => std::process::id(),
            Stands::Parent => std::os::unix::process::parent_id(),
            Stands::Process(pid) => pid,
        };
        let identity = Identity::of(pid).ok().filter(Identity::is_alive);
        let Some(identity) = identity else {
            return Err(Refusal::not_found(format!("there is no process {pid}"))
                .hinted("name a process that stays (--pid $$ in a shell), or use heartbeats: --lease 60s"));
        };
        Ok(node_of(identity, SessionKind::Member(self.name.clone()), &format!("member {}", self.name)))
    }

    fn lease(&self) -> Option<Duration> {
        match self.stands {
            Stands::Heartbeats(lease) => Some(lease),
            _ => None,
        }
    }
}

/// A member's heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeartbeatRequest {
    /// The member.
    pub who: Speaker,
    /// The task that it holds and is working on.
    pub task: Option<String>,
}

impl Crew {
    /// Joins the crew.
    pub async fn register(&self, request: &RegisterRequest) -> Result<Member, Refusal> {
        let member = NewMember {
            name: request.name.clone(),
            role: request.role.clone(),
            session: SessionId::fresh(&format!("member-{}", request.name)),
            node: request.node()?,
            lease: request.lease(),
        };
        if request.wait && request.role.is_leader() {
            take_the_lead(self.store(), &member).await?;
        } else {
            register(self.store(), &member).await?;
        }
        there(&self.store.members().await?, &request.name)
    }

    /// Joins the crew. A member with the same name, role and process is taken as this one.
    pub async fn join(&self, request: &RegisterRequest) -> Result<Member, Refusal> {
        let node = request.node()?;
        let members = self.store.members().await?;
        let is_it = |member: &&Member| {
            member.is_there
                && member.name.is(&request.name)
                && member.role == request.role
                && member.node == node
        };
        match members.iter().find(is_it) {
            Some(member) => Ok(member.clone()),
            None => self.register(request).await,
        }
    }

    /// Registers this process as the leader, unless a member with that name is already known.
    pub async fn take_lead(&self, name: &MemberName) -> Result<Option<SessionId>, Refusal> {
        if self.store.members().await?.iter().any(|member| member.name == *name) {
            return Ok(None);
        }
        let request =
            RegisterRequest { name: name.clone(), role: leader(), stands: Stands::Here, wait: false };
        Ok(Some(self.register(&request).await?.session))
    }

    /// A member as a document.
    pub async fn document(&self, member: &Member) -> Result<MemberDocument, Refusal> {
        let leader = self.store.holder(LEADER_ROLE).await?.map(|leader| leader.session);
        Ok(MemberDocument::of(member, leader.as_ref()))
    }

    /// Records that a member is alive; a task that it names and holds becomes running.
    pub async fn heartbeat(&self, request: &HeartbeatRequest) -> Result<MemberDocument, Refusal> {
        let store = self.store();
        let member = request.who.member(store).await?;
        store.renew(&member.session).await?;
        if let Some(text) = &request.task {
            let (task, claim) = held(store, &member, text).await?;
            if matches!(task.state, TaskState::Claimed { .. }) {
                let mut attempt = record(store, &claim).await?;
                attempt.started_at = Some(clock::now());
                let step = Step::Started { attempt, pid: member.node.pid };
                store.advance(&claim, &step, &RequestId::fresh(), clock::now()).await?;
            }
        }
        let member = there(&store.members().await?, &member.name)?;
        self.document(&member).await
    }

    /// Counts an action of the named member as a heartbeat. A member that cannot be renewed has left; its next request
    /// will say so.
    pub async fn heard(&self, name: &MemberName) {
        let Ok(members) = self.store.members().await else { return };
        if let Some(member) = members.iter().find(|member| member.is_there && member.name.is(name)) {
            let _ = self.store.renew(&member.session).await;
        }
    }

    /// Leaves the crew. The member's tasks go back to the board, and nothing is charged.
    pub async fn leave(&self, who: &Speaker) -> Result<LeftDocument, Refusal> {
        let member = who.member(self.store()).await?;
        self.store.close_session(&member.session, clock::now()).await?;
        Ok(LeftDocument { name: member.name, released: member.tasks, status: "gone" })
    }

    /// Removes every member that depends on this process.
    pub async fn leave_all(&self) {
        let Ok(members) = self.store.members().await else { return };
        let own = std::process::id();
        for member in members.iter().filter(|member| member.is_there && member.node.pid == own) {
            // If this fails, the next process that looks will notice that this one is gone.
            let _ = self.store.close_session(&member.session, clock::now()).await;
        }
    }

    /// The leader and the epoch, which grows with every new leader.
    pub async fn leader(&self) -> Result<LeaderDocument, Refusal> {
        let held = self.store.holder(LEADER_ROLE).await?;
        let members = self.store.members().await?;
        let leader = held.as_ref().and_then(|held| members.iter().find(|one| one.session == held.session));
        let leader = leader.map(|leader| MemberDocument::of(leader, Some(&leader.session)));
        Ok(LeaderDocument { leader, epoch: held.map(|held| held.term) })
    }
}

/// The role of the leader.
pub fn leader() -> Role {
    Role::parse(Role::LEADER).expect("a word is a role")
}

/// Registers a leader as soon as there is none.
async fn take_the_lead(store: &dyn Store, member: &NewMember) -> Result<(), Refusal> {
    let mut changes = StoreChanges::of(store).await?;
    let mut watch = MemberWatch::default();
    loop {
        watch.look(store).await?;
        match store.register(member, clock::now()).await {
            // Another member leads, unless the name was refused because a task has it.
            Err(StoreError::Refused(_)) if store.task(member.name.as_task()).await.is_err() => {}
            Ok(()) => return Ok(()),
            Err(_) => return register(store, member).await,
        }
        changes.next_within(LEAD_INTERVAL).await?;
    }
}

/// Registers a member; a refusal gets a hint.
async fn register(store: &dyn Store, member: &NewMember) -> Result<(), Refusal> {
    let registered = store.register(member, clock::now()).await;
    registered.map_err(|error| match error {
        StoreError::Conflict(why) => Refusal::refused(why).hinted(format!(
            "choose another name, or `regatta crew unregister {}` removes that member",
            member.name
        )),
        StoreError::Refused(why) => {
            Refusal::refused(why).hinted("`regatta crew list` shows the members, `regatta list` shows tasks")
        }
        error => error.into(),
    })
}
