//! What a node says of itself, what an operator orders it, and which tasks it can serve.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::requirement::{Amount, Fact, Requirement};
use crate::id::TaskId;
use crate::rest::Rest;
use crate::spec::TaskSpec;
use crate::time::Timestamp;

/// What a node says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeRecord {
    /// Its id.
    pub id: String,
    /// Its name, unique in the store.
    pub name: String,
    /// The machine, by an id that does not change with its name.
    pub machine: Option<String>,
    /// The labels in its `node.yaml`.
    pub labels: BTreeSet<String>,
    /// The operating system.
    pub os: String,
    /// The processor.
    pub arch: String,
    /// The number of processors.
    pub cpus: u64,
    /// Its memory, in GiB.
    pub memory_gb: u64,
    /// Agents whose programs it found, with their versions; empty if a version is not known.
    pub agents: BTreeMap<String, String>,
    /// Its profiles.
    pub profiles: BTreeSet<String>,
    /// How many attempts can run on it at the same time.
    pub slots: u32,
    /// The version of its Regatta.
    pub version: String,
    /// What only a newer version knows of it.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What an operator wants of a node. It stays in force until it is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeOrder {
    /// What it should do.
    pub duty: NodeDuty,
    /// How long a drain waits for running attempts, in milliseconds from when the node reads the order; `None` for as
    /// long as they take.
    pub deadline_ms: Option<u64>,
    /// Labels in addition to those in `node.yaml`.
    pub added: BTreeSet<String>,
    /// Labels in `node.yaml` that do not count.
    pub removed: BTreeSet<String>,
    /// Who gave the last order.
    pub by: String,
    /// Counts the orders.
    pub n: u64,
    /// The number of the order that set the duty; zero in orders of older versions.
    pub duty_n: u64,
    /// What only a newer version knows of it.
    #[serde(flatten)]
    pub rest: Rest,
}

impl NodeOrder {
    /// The number of the order that set the duty.
    pub fn duty_number(&self) -> u64 {
        if self.duty_n == 0 { self.n } else { self.duty_n }
    }
}

/// What a node should do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeDuty {
    /// Work.
    #[default]
    Work,
    /// Claim nothing more.
    Cordon,
    /// Claim nothing more, give up roles, and end or wait for what runs.
    Drain,
    /// Stop everything at once and end.
    Kill,
}

/// What a node's engine does about its order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// It claims tasks.
    #[default]
    Up,
    /// It claims nothing; what runs goes on.
    Cordoned,
    /// It claims nothing, and something still runs.
    Draining,
    /// It was drained, and nothing runs.
    Drained,
}

impl NodeState {
    /// The published word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Cordoned => "cordoned",
            Self::Draining => "draining",
            Self::Drained => "drained",
        }
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a running engine says of itself, again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EngineStatus {
    /// The node it runs on.
    pub node: String,
    /// How many attempts it is working on.
    pub running: u32,
    /// How many it may work on.
    pub slots: u32,
    /// What it does about its order.
    pub state: NodeState,
    /// The number of the order it obeys.
    pub order: u64,
    /// Why ready tasks are not started, at most [`MOST_HELD`].
    pub held: BTreeMap<TaskId, String>,
    /// When it was written, by the clock of its machine.
    pub at: Option<Timestamp>,
    /// How far that clock was ahead of the store's server, in milliseconds; negative if it was behind.
    pub clock_ms: Option<i64>,
    /// The project's settings here and at the hub; unknown without a hub, and until it has answered.
    pub settings: Option<SettingsSeen>,
}

/// The project's settings, by the digests of their files; `None` where there is no file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SettingsSeen {
    /// What the engine goes by.
    pub in_force: Option<String>,
    /// What is on the target at the hub.
    pub at_hub: Option<String>,
}

impl SettingsSeen {
    /// Whether both are the same.
    pub fn are_same(&self) -> bool {
        self.in_force == self.at_hub
    }
}

impl EngineStatus {
    /// When it was written, by the clock of the store's server as far as the difference is known.
    pub fn written(&self) -> Option<Timestamp> {
        let at = self.at?.millis();
        Some(Timestamp::from_millis(at.saturating_sub(self.clock_ms.unwrap_or(0))))
    }
}

/// The most tasks in [`EngineStatus::held`].
pub const MOST_HELD: usize = 200;

impl NodeRecord {
    /// Its labels under an order.
    pub fn labels(&self, order: &NodeOrder) -> BTreeSet<String> {
        let own = self.labels.iter().filter(|label| !order.removed.contains(*label));
        own.chain(&order.added).cloned().collect()
    }

    /// The requirements that it does not satisfy under an order, in their order.
    pub fn lacks<'a>(&self, order: &NodeOrder, requires: &'a [Requirement]) -> Vec<&'a Requirement> {
        requires.iter().filter(|requirement| !self.satisfies(order, requirement)).collect()
    }

    fn satisfies(&self, order: &NodeOrder, requirement: &Requirement) -> bool {
        match requirement {
            Requirement::Label(label) => {
                order.added.contains(label) || (self.labels.contains(label) && !order.removed.contains(label))
            }
            Requirement::Is { fact, value } => match fact {
                Fact::Agent => self.agents.contains_key(value),
                Fact::Node => self.name.eq_ignore_ascii_case(value) || self.id == *value,
                Fact::Os => self.os == *value,
                Fact::Arch => self.arch == *value,
                Fact::Profile => self.profiles.contains(value),
            },
            Requirement::AtLeast { amount, n } => match amount {
                Amount::Cpus => self.cpus >= *n,
                Amount::MemoryGb => self.memory_gb >= *n,
            },
            Requirement::Unknown(_) => false,
        }
    }
}

/// Everything a task requires of a node: what it says, and the agent it needs by itself.
pub fn requirements(spec: &TaskSpec) -> Vec<Requirement> {
    let agent = Requirement::agent(&spec.agent);
    let mut all = spec.requires.clone();
    if !all.contains(&agent) {
        all.push(agent);
    }
    all
}

/// Requirements as a list for a sentence: `gpu, cpus>=8`.
pub fn listed<'a>(requirements: impl IntoIterator<Item = &'a Requirement>) -> String {
    requirements.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> NodeRecord {
        NodeRecord {
            id: "0123".into(),
            name: "big-1".into(),
            labels: ["gpu".to_owned()].into(),
            os: "linux".into(),
            arch: "x86_64".into(),
            cpus: 16,
            memory_gb: 62,
            agents: [("codex".to_owned(), "1.2".to_owned())].into(),
            profiles: ["max-1".to_owned()].into(),
            ..NodeRecord::default()
        }
    }

    #[test]
    fn a_node_serves_what_it_satisfies() {
        let parse = |texts: &[&str]| -> Vec<Requirement> {
            texts.iter().map(|text| Requirement::parse(text).unwrap()).collect()
        };
        let check = |order: &NodeOrder, texts: &[&str], lacks: &str| {
            assert_eq!(listed(node().lacks(order, &parse(texts))), lacks, "{texts:?}");
        };
        let none = NodeOrder::default();
        check(&none, &[], "");
        check(&none, &["gpu", "agent:codex", "node:big-1", "memory_gb>=32"], "");
        check(
            &none,
            &["node:BIG-1", "node:0123", "os:linux", "arch:x86_64", "profile:max-1", "cpus>=16"],
            "",
        );
        check(&none, &["slow", "agent:claude", "cpus>=17", "gpu"], "slow, agent:claude, cpus>=17");
        let relabelled = NodeOrder {
            added: ["slow".to_owned()].into(),
            removed: ["gpu".to_owned()].into(),
            ..NodeOrder::default()
        };
        check(&relabelled, &["slow", "gpu"], "gpu");
        let newer = [Requirement::Unknown("zone~eu".into())];
        assert_eq!(node().lacks(&none, &newer).len(), 1);
    }
}
