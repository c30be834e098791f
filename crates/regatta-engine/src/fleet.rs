//! This node among others, where machines share the store.
//!
//! Three kinds of documents, and no machine listens to another:
//!
//! * **the record** of a node, by its id: what it is and has. Its engines write it when they start, hourly, and after a
//!   reload (`register`).
//! * **the order** to a node, by its id: what an operator wants of it. It stays until it is changed, so it outlives
//!   restarts; the node's engines read it when a document changes (`serve`) and obey (`engine/nodes.rs`).
//! * **the status** of an engine, by its session: what it runs, holds, and does about its order. It is written when it
//!   changes and once a minute, and wakes nobody.
//!
//! No decision of one node about another rests on a clock: whether another node is alive is decided by its session.

pub mod facts;
pub mod kill;
pub mod nodes;
mod register;
mod serve;

pub(crate) use register::{enter, leave};
pub(crate) use serve::serve;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use regatta_core::config::Config;
use regatta_core::node::{EngineStatus, NodeOrder, NodeRecord};
use regatta_core::oid::Oid;
use regatta_store::Store;
use tokio::sync::watch;

/// The pause after an error of the store.
const AGAIN: Duration = Duration::from_secs(2);

/// Subscribes to changes of documents, and tries again until the store answers.
pub(crate) async fn document_news(store: &dyn Store) -> watch::Receiver<u64> {
    loop {
        match store.subscribe_documents().await {
            Ok(news) => return news,
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
}

/// All nodes that the store knows, and their orders, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Registry {
    pub(crate) nodes: BTreeMap<String, NodeRecord>,
    pub(crate) orders: BTreeMap<String, NodeOrder>,
}

impl Registry {
    /// The order to a node; one without an order works.
    pub(crate) fn order(&self, id: &str) -> NodeOrder {
        self.orders.get(id).cloned().unwrap_or_default()
    }
}

/// The settings at the hub's target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AtHub {
    /// The id of their file.
    pub(crate) file: Option<Oid>,
    /// The digest of their file; `None` if there is none.
    pub(crate) digest: Option<String>,
}

/// What the engine and the task that talks to other nodes tell each other.
#[derive(Debug)]
pub(crate) struct FleetMemory {
    /// This node.
    pub(crate) own: watch::Sender<NodeRecord>,
    /// The order to it.
    pub(crate) order: watch::Sender<NodeOrder>,
    /// All nodes.
    pub(crate) registry: watch::Sender<Registry>,
    /// What this engine does.
    pub(crate) status: watch::Sender<EngineStatus>,
    /// The settings at the hub's target, once they are known.
    pub(crate) at_hub: watch::Sender<Option<AtHub>>,
    /// Signals after each look at the hub that its settings are not those in force.
    pub(crate) differ: watch::Sender<()>,
    /// The settings of the last reload, and the repository's root.
    settings: watch::Sender<Option<Arc<(Config, PathBuf)>>>,
}

impl Default for FleetMemory {
    fn default() -> Self {
        Self {
            own: watch::channel(NodeRecord::default()).0,
            order: watch::channel(NodeOrder::default()).0,
            registry: watch::channel(Registry::default()).0,
            status: watch::channel(EngineStatus::default()).0,
            at_hub: watch::channel(None).0,
            differ: watch::channel(()).0,
            settings: watch::channel(None).0,
        }
    }
}

impl FleetMemory {
    /// The settings were reloaded: labels, slots and agents may have changed.
    pub(crate) fn reloaded(&self, config: &Config, root: &Path) {
        let mut now = facts::here(config, root);
        self.own.send_if_modified(|own| {
            now.name.clone_from(&own.name);
            for (agent, version) in &mut now.agents {
                if let Some(known) = own.agents.get(agent) {
                    version.clone_from(known);
                }
            }
            let is_new = *own != now;
            *own = now;
            is_new
        });
        self.settings.send_replace(Some(Arc::new((config.clone(), root.to_owned()))));
    }

    /// The settings of the last reload, and the repository's root.
    pub(crate) fn reloaded_settings(&self) -> Option<Arc<(Config, PathBuf)>> {
        self.settings.borrow().clone()
    }

    /// The settings at the hub's target were read. Wakes the engine only if they are others than before; the process
    /// that reloads settings, whenever they are others than those in force.
    pub(crate) fn learn_settings(&self, now: AtHub, in_force: Option<&str>) {
        let differ = now.digest.as_deref() != in_force;
        self.at_hub.send_if_modified(|known| {
            let is_new = known.as_ref().map(|known| &known.digest) != Some(&now.digest);
            *known = Some(now);
            is_new
        });
        if differ {
            self.differ.send_replace(());
        }
    }

    /// Takes in what the store says. Wakes only those for whom something has changed.
    fn learn(&self, registry: Registry, own: &str) {
        let order = registry.order(own);
        self.order.send_if_modified(|known| {
            let is_new = *known != order;
            *known = order;
            is_new
        });
        self.registry.send_if_modified(|known| {
            let is_new = *known != registry;
            *known = registry;
            is_new
        });
    }
}
