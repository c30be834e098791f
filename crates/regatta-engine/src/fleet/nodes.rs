//! All nodes as the store shows them, for operators and for decisions about tasks that another node may serve better.

use std::collections::BTreeMap;

use regatta_core::node::{EngineStatus, NodeOrder, NodeRecord};
use regatta_core::session::SessionKind;
use regatta_store::{STATUS, SessionInfo, Store, StoreError};

use super::{Registry, register};
use crate::session::{LEAVES, is_over};

/// One node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its id.
    pub id: String,
    /// What it says of itself.
    pub record: NodeRecord,
    /// What an operator wants of it.
    pub order: NodeOrder,
    /// Its open engines.
    pub engines: Vec<NodeEngine>,
}

/// An engine of a node, with an open session.
#[derive(Clone, Debug)]
pub struct NodeEngine {
    pub session: SessionInfo,
    /// What it says of itself, if it has said anything yet.
    pub status: Option<EngineStatus>,
    /// It was stopped, and left its agents running for its successor.
    pub has_left: bool,
    /// Its process has certainly ended, or it was silent for too long. Its agents may be alive.
    pub is_over: bool,
}

impl NodeEngine {
    /// Whether it claims tasks of the main queue, as far as orders let it.
    pub(crate) fn serves(&self) -> bool {
        self.session.node.kind == SessionKind::Daemon && !self.has_left && !self.is_over
    }

    /// Whether it can take one more task, as far as it says.
    pub(crate) fn has_room(&self) -> bool {
        self.serves() && self.status.as_ref().is_none_or(|status| status.running < status.slots)
    }
}

/// All nodes, by name.
pub async fn all(store: &dyn Store) -> Result<Vec<Node>, StoreError> {
    with_engines(register::read(store).await?, store).await
}

/// The nodes of a registry with their engines, by name.
pub(crate) async fn with_engines(registry: Registry, store: &dyn Store) -> Result<Vec<Node>, StoreError> {
    let mut status: BTreeMap<String, EngineStatus> = BTreeMap::new();
    for found in store.documents(STATUS, "").await? {
        if let Ok(said) = serde_json::from_str(&found.body) {
            status.insert(found.id, said);
        }
    }
    let left = store.documents(LEAVES, "").await?;
    let sessions = store.sessions().await?;
    let engines_of = |id: &str| -> Vec<NodeEngine> {
        let own =
            sessions.iter().filter(|info| info.node.node_id.as_deref() == Some(id) && !info.node.is_member());
        own.map(|info| NodeEngine {
            session: info.clone(),
            status: status.get(&info.session.0).cloned(),
            is_over: is_over(info),
            has_left: left.iter().any(|left| left.id == info.session.0),
        })
        .collect()
    };
    let mut nodes: Vec<Node> = registry
        .nodes
        .iter()
        .map(|(id, record)| Node {
            id: id.clone(),
            record: record.clone(),
            order: registry.order(id),
            engines: engines_of(id),
        })
        .collect();
    nodes.sort_by(|a, b| a.record.name.cmp(&b.record.name));
    Ok(nodes)
}
