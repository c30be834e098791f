//! Orders to nodes. They are documents in the store, so they outlive restarts; the nodes read and obey them.

use std::collections::BTreeSet;
use std::time::Duration;

use regatta_core::node::{NodeDuty, NodeOrder, no_node_word};
use regatta_core::time::counted;
use regatta_engine::clock;
use regatta_engine::fleet::kill::{self, Killed};
use regatta_engine::fleet::nodes::Node;
use regatta_store::{DocumentWrite, NODE, NODE_DRAIN, NODE_NAME, NODE_ORDER, StoreError};

use super::{NodeSelection, Nodes};
use crate::documents::{NodeChangeDocument, NodeChangesDocument};
use crate::refusal::Refusal;

/// Lets a node stop everything.
fn kill_it(order: &mut NodeOrder) {
    order.duty = NodeDuty::Kill;
    order.duty_n = order.n + 1;
}

/// What was done to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeChange {
    pub id: String,
    pub name: String,
    /// The result, as the end of a sentence that begins with its name.
    pub result: String,
}

impl NodeChange {
    fn of(node: &Node, result: impl Into<String>) -> Self {
        Self { id: node.id.clone(), name: node.record.name.clone(), result: result.into() }
    }

    /// The result as a sentence.
    pub fn sentence(&self) -> String {
        format!("{} {}", self.name, self.result)
    }

    /// Changes as a document.
    pub fn document(changes: &[Self]) -> NodeChangesDocument {
        let one = |change: &Self| NodeChangeDocument {
            id: change.id.clone(),
            name: change.name.clone(),
            result: change.result.clone(),
        };
        NodeChangesDocument { nodes: changes.iter().map(one).collect() }
    }
}

/// A request to end the sessions of nodes.
#[derive(Clone, Debug)]
pub struct KillRequest {
    pub nodes: NodeSelection,
    /// The caller means it.
    pub confirmed: bool,
    /// The caller says that the machine is off.
    pub is_gone: bool,
}

impl Nodes {
    /// Lets nodes claim nothing more. What runs goes on.
    pub async fn cordon(&self, nodes: &NodeSelection) -> Result<Vec<NodeChange>, Refusal> {
        self.put_duty(nodes, NodeDuty::Cordon, None, "is cordoned: it claims nothing more").await
    }

    /// Lets nodes work again.
    pub async fn uncordon(&self, nodes: &NodeSelection) -> Result<Vec<NodeChange>, Refusal> {
        self.put_duty(nodes, NodeDuty::Work, None, "may work again").await
    }

    /// Lets nodes claim nothing more, and stops what still runs after `deadline`; without one, when it has ended.
    pub async fn drain(
        &self,
        nodes: &NodeSelection,
        deadline: Option<Duration>,
    ) -> Result<Vec<NodeChange>, Refusal> {
        let result = match deadline {
            None => "drains: what runs may end".to_owned(),
            Some(Duration::ZERO) => "drains: what runs is stopped, uncharged".to_owned(),
            Some(_) => "drains: what runs after the deadline is stopped, uncharged".to_owned(),
        };
        self.put_duty(nodes, NodeDuty::Drain, deadline, &result).await
    }

    /// Adds labels to a node and removes others, on top of its `node.yaml`.
    pub async fn label(&self, node: &str, edits: &[String]) -> Result<Vec<NodeChange>, Refusal> {
        let (mut added, mut removed) = (BTreeSet::new(), BTreeSet::new());
        for edit in edits {
            let (list, label) = match (edit.strip_prefix('+'), edit.strip_prefix('-')) {
                (Some(label), _) => (&mut added, label),
                (_, Some(label)) => (&mut removed, label),
                _ => {
                    return Err(Refusal::usage(format!("{edit:?} does not begin with + or -"))
                        .hinted("write +gpu to add a label, -gpu to remove it"));
                }
            };
            if let Some(why) = no_node_word(label) {
                return Err(Refusal::usage(format!("the label {label:?} {why}")).hinted("write +gpu or -gpu"));
            }
            list.insert(label.to_owned());
        }
        if let Some(both) = added.intersection(&removed).next() {
            return Err(Refusal::usage(format!("+{both} and -{both} contradict each other")));
        }
        let mut changes = Vec::new();
        for node in self.select(&NodeSelection::Named(node.to_owned())).await? {
            let order = self
                .put_order(&node, |order| {
                    order.added.extend(added.iter().cloned());
                    order.removed.extend(removed.iter().cloned());
                    order
                        .added
                        .retain(|label| !removed.contains(label) && !node.record.labels.contains(label));
                    order
                        .removed
                        .retain(|label| !added.contains(label) && node.record.labels.contains(label));
                })
                .await?;
            let labels: Vec<String> = node.record.labels(&order).into_iter().collect();
            let labels = if labels.is_empty() { "no labels".to_owned() } else { labels.join(", ") };
            changes.push(NodeChange::of(&node, format!("has {labels}")));
        }
        Ok(changes)
    }

    /// How long [`Nodes::kill`] may wait for nodes that do not answer.
    pub async fn kill_patience(&self, request: &KillRequest) -> Result<Duration, Refusal> {
        let mut longest = Duration::ZERO;
        for node in self.select(&request.nodes).await? {
            for engine in &node.engines {
                let patience = kill::patience(self.store(), &engine.session, request.is_gone).await?;
                longest = longest.max(patience);
            }
        }
        Ok(longest)
    }

    /// Ends everything that nodes run: a node that answers does it itself; one that does not has its sessions ended when
    /// its agents must have ended, so that no second agent starts beside a live first one.
    pub async fn kill(&self, request: &KillRequest) -> Result<Vec<NodeChange>, Refusal> {
        let nodes = self.select(&request.nodes).await?;
        if !request.confirmed && !request.is_gone {
            let running: usize = nodes.iter().map(|node| node.engines.len()).sum();
            return Err(Refusal::refused(format!(
                "this stops every agent on {} at once ({})",
                counted(nodes.len() as u64, "node"),
                counted(running as u64, "engine")
            ))
            .hinted("repeat it with --yes; `regatta node drain` waits for agents to end"));
        }
        let mut changes = Vec::new();
        for node in nodes {
            // A node that is said to be gone gets its order when that is certain.
            if !request.is_gone {
                self.put_order(&node, kill_it).await?;
            }
            let mut results = Vec::new();
            for engine in &node.engines {
                results.push(match kill::end(self.store(), &engine.session, request.is_gone).await? {
                    Killed::Obeyed => "has stopped".to_owned(),
                    Killed::Expired(tasks) => {
                        let tasks = counted(tasks.len() as u64, "task");
                        format!("did not answer: its session was ended, and {tasks} can start elsewhere")
                    }
                    Killed::LeftAgents => {
                        let name = &node.record.name;
                        return Err(Refusal::refused(format!(
                            "{name} was stopped and left agents running: they may be alive"
                        ))
                        .hinted(format!("`regatta node kill {name} --yes` waits until they have ended")));
                    }
                    Killed::Alive => {
                        return Err(Refusal::refused(format!("{} is not gone: it beats", node.record.name))
                            .hinted(format!(
                                "`regatta node kill {} --yes` waits until its agents have ended",
                                node.record.name
                            )));
                    }
                });
            }
            if request.is_gone {
                self.put_order(&node, kill_it).await?;
            }
            results.dedup();
            let result = if results.is_empty() { "runs nothing".to_owned() } else { results.join("; ") };
            changes.push(NodeChange::of(&node, result));
        }
        Ok(changes)
    }

    /// Removes nodes that are gone for good. Refuses one with an open session.
    pub async fn forget(&self, nodes: &NodeSelection) -> Result<Vec<NodeChange>, Refusal> {
        let nodes = self.select(nodes).await?;
        if let Some(node) = nodes.iter().find(|node| !node.engines.is_empty()) {
            let name = &node.record.name;
            return Err(Refusal::refused(format!("{name} has an open session, so it is not forgotten"))
                .hinted(format!("stop its daemon, or `regatta node kill {name} --yes`, then forget it")));
        }
        let mut changes = Vec::new();
        for node in nodes {
            let name = node.record.name.to_lowercase();
            let by_id = [NODE_ORDER, NODE_DRAIN, NODE].map(|kind| (kind, &node.id));
            for (kind, id) in [(NODE_NAME, &name)].into_iter().chain(by_id) {
                self.store().put_document(&DocumentWrite::deletion(kind, id), clock::now()).await?;
            }
            changes.push(NodeChange::of(&node, "is forgotten"));
        }
        Ok(changes)
    }

    async fn put_duty(
        &self,
        nodes: &NodeSelection,
        duty: NodeDuty,
        deadline: Option<Duration>,
        result: &str,
    ) -> Result<Vec<NodeChange>, Refusal> {
        let millis = deadline.map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
        let mut changes = Vec::new();
        for node in self.select(nodes).await? {
            self.put_order(&node, |order| {
                order.duty = duty;
                order.deadline_ms = millis;
                order.duty_n = order.n + 1;
            })
            .await?;
            let when = if node.engines.is_empty() { " (it is down; it obeys when it starts)" } else { "" };
            changes.push(NodeChange::of(&node, format!("{result}{when}")));
        }
        Ok(changes)
    }

    /// Changes the order to a node.
    async fn put_order(&self, node: &Node, change: impl Fn(&mut NodeOrder)) -> Result<NodeOrder, Refusal> {
        let store = self.store();
        loop {
            let found = store.document(NODE_ORDER, &node.id).await?;
            let version = found.as_ref().map_or(0, |found| found.version);
            let mut order: NodeOrder =
                found.and_then(|found| serde_json::from_str(&found.body).ok()).unwrap_or_default();
            change(&mut order);
            order.n += 1;
            order.by.clone_from(&self.by);
            let body = serde_json::to_string(&order).unwrap_or_default();
            let write = DocumentWrite::new(NODE_ORDER, &node.id, body).at_version(version);
            match store.put_document(&write, clock::now()).await {
                Ok(_) => return Ok(order),
                // Another operator was faster.
                Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
