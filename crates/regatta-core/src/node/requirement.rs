//! What a task requires of the node that works on it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::no_node_word;

/// One requirement. As text: `gpu`, `agent:codex`, `memory_gb>=32`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Requirement {
    /// The node has this label.
    Label(String),
    /// A fact about the node has this value.
    Is {
        fact: Fact,
        /// What it must be.
        value: String,
    },
    /// The node has at least this much.
    AtLeast {
        amount: Amount,
        /// The minimum.
        n: u64,
    },
    /// Written by a newer version. No node of this version satisfies it.
    Unknown(String),
}

/// A fact about a node that has a word as its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    /// An agent that can be started there, by its entry in `agents`.
    Agent,
    /// The node itself, by its name or id.
    Node,
    /// The operating system: `linux`.
    Os,
    /// The processor: `x86_64`.
    Arch,
    /// A profile that is there.
    Profile,
}

/// A fact about a node that is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Amount {
    /// Processors.
    Cpus,
    /// Memory, in GiB.
    MemoryGb,
}

impl Fact {
    const ALL: [Self; 5] = [Self::Agent, Self::Node, Self::Os, Self::Arch, Self::Profile];

    /// Its name in a requirement.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Node => "node",
            Self::Os => "os",
            Self::Arch => "arch",
            Self::Profile => "profile",
        }
    }
}

impl Amount {
    const ALL: [Self; 2] = [Self::Cpus, Self::MemoryGb];

    /// Its name in a requirement.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cpus => "cpus",
            Self::MemoryGb => "memory_gb",
        }
    }
}

impl Requirement {
    /// The node with this name.
    pub fn node(name: &str) -> Self {
        Self::Is { fact: Fact::Node, value: name.to_owned() }
    }

    /// A node that can start this agent.
    pub fn agent(name: &str) -> Self {
        Self::Is { fact: Fact::Agent, value: name.to_owned() }
    }

    /// Parses a requirement. The error completes a sentence that begins with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some((name, n)) = text.split_once(">=") {
            let name = name.trim();
            let amount = Amount::ALL.into_iter().find(|amount| amount.as_str() == name);
            let Some(amount) = amount else {
                return Err(format!("compares {name:?}; only `cpus` and `memory_gb` can be compared"));
            };
            let n = n.trim();
            return match n.parse() {
                Ok(n) => Ok(Self::AtLeast { amount, n }),
                Err(_) => Err(format!("compares with {n:?}, which is not a whole number")),
            };
        }
        let Some((name, value)) = text.split_once(':') else {
            if Amount::ALL.iter().any(|amount| amount.as_str() == text) {
                return Err(format!("has no minimum; write `{text}>=8`"));
            }
            return match no_node_word(text) {
                None => Ok(Self::Label(text.to_owned())),
                Some(why) => Err(why),
            };
        };
        if Amount::ALL.iter().any(|amount| amount.as_str() == name) {
            return Err(format!("is an exact number; write `{name}>={value}`"));
        }
        let Some(fact) = Fact::ALL.into_iter().find(|fact| fact.as_str() == name) else {
            let known: Vec<String> = Fact::ALL.iter().map(|fact| format!("`{}`", fact.as_str())).collect();
            return Err(format!("begins with {name:?}; known are {}", known.join(", ")));
        };
        match no_node_word(value) {
            None => Ok(Self::Is { fact, value: value.to_owned() }),
            Some(why) => Err(format!("has a value that {why}")),
        }
    }
}

impl From<String> for Requirement {
    fn from(text: String) -> Self {
        Self::parse(&text).unwrap_or(Self::Unknown(text))
    }
}

impl From<Requirement> for String {
    fn from(requirement: Requirement) -> Self {
        requirement.to_string()
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(text) | Self::Unknown(text) => f.write_str(text),
            Self::Is { fact, value } => write!(f, "{}:{value}", fact.as_str()),
            Self::AtLeast { amount, n } => write!(f, "{}>={n}", amount.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requirement_is_read_and_written_alike_and_mistakes_are_explained() {
        for text in
            ["gpu", "agent:codex", "node:big-1", "memory_gb>=32", "cpus>=8", "os:linux", "profile:max.1"]
        {
            let parsed = Requirement::parse(text).unwrap();
            assert_eq!(parsed.to_string(), text);
            let stored = serde_json::to_string(&parsed).unwrap();
            assert_eq!(serde_json::from_str::<Requirement>(&stored).unwrap(), parsed);
        }
        let why = |text: &str| Requirement::parse(text).unwrap_err();
        assert_eq!(why(""), "is empty");
        assert_eq!(why("memory_gb:32"), "is an exact number; write `memory_gb>=32`");
        assert_eq!(why("cpus"), "has no minimum; write `cpus>=8`");
        assert_eq!(why("disk>=3"), "compares \"disk\"; only `cpus` and `memory_gb` can be compared");
        assert_eq!(why("cpus>=x"), "compares with \"x\", which is not a whole number");
        assert_eq!(why("host:a"), "begins with \"host\"; known are `agent`, `node`, `os`, `arch`, `profile`");
        assert_eq!(why("node:a b"), "has a value that contains ' '; allowed are `A-Z a-z 0-9 . _ -`");
        // What a newer version wrote is kept as it is.
        let newer: Requirement = serde_json::from_str("\"zone~eu\"").unwrap();
        assert_eq!(newer, Requirement::Unknown("zone~eu".into()));
        assert_eq!(serde_json::to_string(&newer).unwrap(), "\"zone~eu\"");
    }
}
