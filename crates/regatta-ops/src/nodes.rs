//! Nodes that share a store: who they are, and what an operator orders them.

mod held;
mod join;
mod orders;

use std::sync::Arc;
use std::time::Duration;

use regatta_core::node::{NodeDuty, NodeOrder, NodeState};
use regatta_core::session::SessionKind;
use regatta_core::time::Timestamp;
use regatta_engine::clock;
use regatta_engine::fleet::nodes::{self, Node};
use regatta_engine::travel::CLERK;
use regatta_store::{SessionId, Store};

pub use held::{held_elsewhere, tasks_on};
pub use join::JoinRequest;
pub use orders::{KillRequest, NodeChange};

use crate::documents::{NodeDocument, NodeEngineDocument, NodeOrderDocument, NodeSettingsDocument};
use crate::operator::user;
use crate::project::Project;
use crate::refusal::Refusal;

/// A node that has not said anything for this long is shown as silent. No decision depends on it.
const SILENT: Duration = Duration::from_secs(90);

/// The nodes that an operation applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeSelection {
    /// One, by its name or the beginning of its id.
    Named(String),
    All,
}

/// The operations of a user on the nodes of a project.
pub struct Nodes {
    store: Arc<dyn Store>,
    /// The branch whose train is shown.
    target: Option<String>,
    by: String,
    /// How far this machine's clock is ahead of the store's server, in milliseconds.
    ahead: i64,
}

impl Nodes {
    /// Opens the store. Refuses one that belongs to one machine.
    pub async fn open(project: &Project) -> Result<Self, Refusal> {
        if project.store_url.starts_with("sqlite:") {
            return Err(Refusal::refused("the store of this project belongs to one machine: there are no other nodes")
                .hinted("machines share a PostgreSQL store: `store` in regatta.yaml; docs/guide/many-machines.md shows how"));
        }
        let store = project.store().await?;
        // Without it, times are by this machine's clock.
        let time = store.server_time().await.ok().flatten();
        let ahead = time.map_or(0, |time| time.ahead(clock::now()));
        Ok(Self { store, target: project.target().ok(), by: user(), ahead })
    }

    /// The current time by the clock of the store's server, with which the times of nodes are compared.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(clock::now().millis().saturating_sub(self.ahead))
    }

    /// The store.
    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// All nodes as documents, by name.
    pub async fn list(&self) -> Result<Vec<NodeDocument>, Refusal> {
        let holders = self.holders().await?;
        let mut documents = Vec::new();
        for node in nodes::all(self.store()).await? {
            documents.push(self.document(&node, &holders).await?);
        }
        Ok(documents)
    }

    /// One node as a document.
    pub async fn show(&self, text: &str) -> Result<NodeDocument, Refusal> {
        self.document(&find(self.store(), text).await?, &self.holders().await?).await
    }

    async fn select(&self, selection: &NodeSelection) -> Result<Vec<Node>, Refusal> {
        Ok(match selection {
            NodeSelection::Named(text) => vec![find(self.store(), text).await?],
            NodeSelection::All => nodes::all(self.store()).await?,
        })
    }

    /// What only one node does at a time, and the session of the engine that does it.
    async fn holders(&self) -> Result<Vec<(&'static str, SessionId)>, Refusal> {
        let train = self.target.as_ref().map(|target| ("train", format!("train:{target}")));
        let mut holders = Vec::new();
        for (shown, role) in train.into_iter().chain([("clerk", CLERK.to_owned())]) {
            holders.extend(self.store.holder(&role).await?.map(|holder| (shown, holder.session)));
        }
        Ok(holders)
    }

    async fn document(
        &self,
        node: &Node,
        holders: &[(&'static str, SessionId)],
    ) -> Result<NodeDocument, Refusal> {
        let mut engines = Vec::new();
        for engine in &node.engines {
            let claims = self.store.claims_of(&engine.session.session).await?;
            let info = &engine.session.node;
            engines.push(NodeEngineDocument {
                pid: info.pid,
                running: u32::try_from(claims.len()).unwrap_or(u32::MAX),
                session: engine.session.session.0.clone(),
                what: info.what.clone(),
            });
        }
        let is_here = |session: &SessionId| node.engines.iter().any(|own| own.session.session == *session);
        let roles = holders.iter().filter(|(_, holder)| is_here(holder)).map(|(role, _)| *role).collect();
        let record = node.record.clone();
        let last_beat = last_beat(node);
        Ok(NodeDocument {
            agents: record.agents.clone(),
            arch: record.arch.clone(),
            clock_ms: speaker(node).and_then(|engine| engine.status.as_ref()?.clock_ms),
            cpus: record.cpus,
            id: node.id.clone(),
            labels: record.labels(&node.order).into_iter().collect(),
            last_beat,
            memory_gb: record.memory_gb,
            name: record.name.clone(),
            order: order_document(&node.order),
            os: record.os.clone(),
            profiles: record.profiles.into_iter().collect(),
            roles,
            settings: settings(node),
            running: engines.iter().map(|engine| engine.running).sum(),
            slots: record.slots,
            state: state(node, last_beat, self.now()),
            version: record.version,
            engines,
        })
    }
}

/// What the engine of a node says about its settings.
fn settings(node: &Node) -> Option<NodeSettingsDocument> {
    let seen = speaker(node)?.status.as_ref()?.settings.clone()?;
    let same = seen.are_same();
    Some(NodeSettingsDocument { at_hub: seen.at_hub, in_force: seen.in_force, same })
}

fn last_beat(node: &Node) -> Option<Timestamp> {
    node.engines.iter().filter_map(|engine| engine.status.as_ref()?.written()).max()
}

/// The engine that speaks for its node: the daemon, if there is one.
fn speaker(node: &Node) -> Option<&nodes::NodeEngine> {
    let is_daemon = |engine: &&nodes::NodeEngine| engine.session.node.kind == SessionKind::Daemon;
    node.engines.iter().find(is_daemon).or(node.engines.first())
}

fn order_document(order: &NodeOrder) -> Option<NodeOrderDocument> {
    (order.duty != NodeDuty::Work).then(|| NodeOrderDocument {
        by: order.by.clone(),
        deadline_seconds: order.deadline_ms.map(|millis| millis / 1000),
        duty: order.duty,
    })
}

/// The state of a node in one word.
fn state(node: &Node, last_beat: Option<Timestamp>, now: Timestamp) -> &'static str {
    let Some(engine) = speaker(node) else { return "down" };
    if engine.has_left {
        return "stopped";
    }
    if engine.is_over {
        return "silent";
    }
    let Some(status) = &engine.status else { return "starting" };
    if last_beat.is_none_or(|at| now.since(at) > SILENT) {
        return "silent";
    }
    if status.order == node.order.n {
        return status.state.as_str();
    }
    match node.order.duty {
        NodeDuty::Work => NodeState::Up.as_str(),
        NodeDuty::Cordon => "cordoning",
        NodeDuty::Drain | NodeDuty::Kill => NodeState::Draining.as_str(),
    }
}

/// The node that `text` names: by its name, its id, or the only id that begins with it.
pub async fn find(store: &dyn Store, text: &str) -> Result<Node, Refusal> {
    let mut nodes = nodes::all(store).await?;
    let by_name = nodes.iter().position(|node| node.record.name.eq_ignore_ascii_case(text));
    let by_id = |node: &&Node| !text.is_empty() && node.id.starts_with(&text.to_lowercase());
    if let Some(at) = by_name {
        return Ok(nodes.swap_remove(at));
    }
    let found: Vec<&Node> = nodes.iter().filter(by_id).collect();
    match found.as_slice() {
        [node] => Ok((*node).clone()),
        [] => {
            let names: Vec<&str> = nodes.iter().map(|node| node.record.name.as_str()).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Err(Refusal::not_found(format!("there is no node {text:?}; known are: {known}"))
                .hinted("`regatta node list` shows all nodes"))
        }
        found => {
            let names: Vec<&str> = found.iter().map(|node| node.record.name.as_str()).collect();
            Err(Refusal::usage(format!("{text:?} matches {}", names.join(", ")))
                .hinted("type more of the id, or the name"))
        }
    }
}
