//! Joining the crew, staying in it, leaving it, and leading it.

use std::time::Duration;

use regatta_core::crew::{MemberName, Role};
use regatta_core::state::TaskState;
use regatta_engine::clock;
use regatta_engine::crew::Watch;
use regatta_engine::process::Identity;
use regatta_engine::session::{node_name, node_of};
use regatta_store::{
    LEADER_ROLE, Member, NewMember, NodeInfo, RequestId, SessionId, Step, Store, StoreError,
};

use super::held::{held, record};
use super::{Crew, Speaker, deaf, there};
use crate::documents::crew::{LeaderDocument, LeftDocument, MemberDocument};
use crate::refusal::Refusal;

/// Who waits for the lead looks this often whether it is free.
const LOOK: Duration = Duration::from_secs(1);

/// What a member's being there is seen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// This process lives.
    Here,
    /// The process that started this one lives.
    Parent,
    /// The process of this number lives.
    Process(u32),
    /// Heartbeats come, at most this far apart.
    Heartbeats(Duration),
}

/// Somebody who joins the crew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterRequest {
    /// Under which name.
    pub name: MemberName,
    /// What for.
    pub role: Role,
    /// What its being there is seen by.
    pub stands: Stands,
    /// Of role leader: wait until the lead is free, and take it then.
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
            return Err(Refusal::not_found(format!("there is no process {pid}")).hinted(
                "name one that stays, --pid $$ in a shell, or let heartbeats stand for it: --lease 60s",
            ));
        };
        Ok(node_of(identity, "").of_member(&self.name))
    }

    fn lease(&self) -> Option<Duration> {
        match self.stands {
            Stands::Heartbeats(lease) => Some(lease),
            _ => None,
        }
    }
}

/// A member says that it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeartbeatRequest {
    /// Who.
    pub who: Speaker,
    /// The task that it holds and works on now.
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
        match request.wait && request.role.is_leader() {
            true => take_the_lead(self.store(), &member).await?,
            false => register(self.store(), &member).await?,
        }
        there(&self.store.members().await?, &request.name)
    }

    /// Joins the crew. One who is there already under that name and role, by the same sign, is it.
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

    /// Registers this process as the leader, unless a member of that name is known already: then nothing is to be done.
    pub async fn take_lead(&self, name: &MemberName) -> Result<Option<SessionId>, Refusal> {
        if self.store.members().await?.iter().any(|member| member.name == *name) {
            return Ok(None);
        }
        let request =
            RegisterRequest { name: name.clone(), role: leader(), stands: Stands::Here, wait: false };
        Ok(Some(self.register(&request).await?.session))
    }

    /// A member for programs.
    pub async fn document(&self, member: &Member) -> Result<MemberDocument, Refusal> {
        let leader = self.store.holder(LEADER_ROLE).await?.map(|leader| leader.session);
        Ok(MemberDocument::of(member, leader.as_ref()))
    }

    /// A member is still there; a task that it names and holds is running.
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

    /// The member of that name did something: it is there. One that cannot be renewed has left; what it does next says so.
    pub async fn heard(&self, name: &MemberName) {
        let Ok(members) = self.store.members().await else { return };
        if let Some(member) = members.iter().find(|member| member.is_there && member.name.is(name)) {
            let _ = self.store.renew(&member.session).await;
        }
    }

    /// Leaves the crew. What the member holds is on the board again, and nothing is charged.
    pub async fn leave(&self, who: &Speaker) -> Result<LeftDocument, Refusal> {
        let member = who.member(self.store()).await?;
        self.store.close_session(&member.session, clock::now()).await?;
        Ok(LeftDocument { name: member.name, released: member.tasks, status: "gone" })
    }

    /// Every member that this process stands for leaves.
    pub async fn leave_all(&self) {
        let Ok(members) = self.store.members().await else { return };
        let own = std::process::id();
        for member in members.iter().filter(|member| member.is_there && member.node.pid == own) {
            // The next who looks sees that the process is gone.
            let _ = self.store.close_session(&member.session, clock::now()).await;
        }
    }

    /// Who leads, and the epoch: it grows with every new leader.
    pub async fn leader(&self) -> Result<LeaderDocument, Refusal> {
        let held = self.store.holder(LEADER_ROLE).await?;
        let members = self.store.members().await?;
        let leader = held.as_ref().and_then(|held| members.iter().find(|one| one.session == held.session));
        let leader = leader.map(|leader| MemberDocument::of(leader, Some(&leader.session)));
        Ok(LeaderDocument { leader, epoch: held.map(|held| held.term) })
    }
}

/// The role of the one who leads.
pub fn leader() -> Role {
    Role::parse(Role::LEADER).expect("a word is a role")
}

/// Registers a leader as soon as there is none.
async fn take_the_lead(store: &dyn Store, member: &NewMember) -> Result<(), Refusal> {
    let mut changes = store.subscribe().await?;
    let mut watch = Watch::default();
    loop {
        changes.borrow_and_update();
        watch.look(store).await?;
        match store.register(member, clock::now()).await {
            // Somebody leads; unless it is a task that has the name.
            Err(StoreError::Refused(_)) if store.task(member.name.as_task()).await.is_err() => {}
            Ok(()) => return Ok(()),
            Err(_) => return register(store, member).await,
        }
        tokio::select! {
            more = changes.changed() => if more.is_err() {
                return Err(deaf());
            },
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Registers, with the next step where that is refused.
async fn register(store: &dyn Store, member: &NewMember) -> Result<(), Refusal> {
    let registered = store.register(member, clock::now()).await;
    registered.map_err(|error| match error {
        StoreError::Conflict(why) => Refusal::refused(why).hinted(format!(
            "choose another name, or `regatta crew unregister {}` sends that one away",
            member.name
        )),
        StoreError::Refused(why) => {
            Refusal::refused(why).hinted("`regatta crew list` shows who is there, `regatta list` the tasks")
        }
        error => error.into(),
    })
}
