//! The documents of `node`.

use std::collections::BTreeMap;

use regatta_core::node::NodeDuty;
use regatta_core::time::Timestamp;
use serde::Serialize;

/// One node, as in `node list --json` and `node show --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeDocument {
    /// Agents that can be started there, with their versions; empty if a version is not known.
    pub agents: BTreeMap<String, String>,
    pub arch: String,
    /// How far its clock is ahead of the store's server, in milliseconds; negative if it is behind.
    pub clock_ms: Option<i64>,
    /// The number of processors.
    pub cpus: u64,
    /// Its engines with an open session.
    pub engines: Vec<NodeEngineDocument>,
    pub id: String,
    /// The labels that count: those in its `node.yaml`, and what `node label` changed.
    pub labels: Vec<String>,
    /// When one of its engines last said something, by the clock of the store's server.
    pub last_beat: Option<Timestamp>,
    /// Its memory, in GiB.
    pub memory_gb: u64,
    pub name: String,
    /// What an operator ordered, if anything is in force.
    pub order: Option<NodeOrderDocument>,
    pub os: String,
    pub profiles: Vec<String>,
    /// What only one node does at a time: `train` (lands), `clerk` (deletes old refs at the hub).
    pub roles: Vec<&'static str>,
    /// How many tasks its engines hold.
    pub running: u32,
    /// The project's settings there and at the hub's target, by the digests of their files; unknown without a hub.
    pub settings: Option<NodeSettingsDocument>,
    /// How many attempts can run on it at the same time.
    pub slots: u32,
    /// `up`, `cordoned`, `cordoning`, `draining`, `drained`, `stopped`, `starting`, `silent` or `down`.
    pub state: &'static str,
    /// The version of its Regatta.
    pub version: String,
}

/// The project's settings on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeSettingsDocument {
    /// What is on the target at the hub.
    pub at_hub: Option<String>,
    /// What the node's engine goes by.
    pub in_force: Option<String>,
    /// Whether both are the same.
    pub same: bool,
}

/// An engine of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeEngineDocument {
    pub pid: u32,
    pub running: u32,
    pub session: String,
    /// `daemon`, or `run` with its plan.
    pub what: String,
}

/// An order in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeOrderDocument {
    pub by: String,
    /// For a drain: how long running attempts may take, in seconds.
    pub deadline_seconds: Option<u64>,
    pub duty: NodeDuty,
}

/// What a command did to nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeChangesDocument {
    /// Each with its result in a sentence.
    pub nodes: Vec<NodeChangeDocument>,
}

/// What was done to one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeChangeDocument {
    pub id: String,
    pub name: String,
    pub result: String,
}

/// The document of `node join --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeJoinedDocument {
    /// The clone.
    pub directory: String,
    /// Where its settings are.
    pub node_file: String,
    pub project: String,
    /// The store, without its password.
    pub store: String,
}
