//! What an agent may do and what it is given to do it with: rules for its tools, its sandbox, its MCP servers.
//!
//! Invariant: a bound that an agent cannot keep is refused before it starts ([`refusals`]), never left out.

mod enforce;
mod rule;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use enforce::{Refused, refusals};
pub use rule::Rule;

/// The bounds of one task, or those of an agent for all its tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Which tools and commands it may use.
    #[serde(default)]
    pub permissions: Permissions,
    /// What keeps its commands in; the agent's usual where nothing is said, which is none.
    #[serde(default)]
    pub sandbox: Option<Sandbox>,
    /// MCP servers for it, by name.
    #[serde(default)]
    pub mcp: BTreeMap<String, McpServer>,
}

/// Which tools and commands an agent may use. A denial beats whatever is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permissions {
    /// Nothing but these; everything where there is no list.
    #[serde(default)]
    pub allow: Option<Vec<Rule>>,
    /// Not these.
    #[serde(default)]
    pub deny: Vec<Rule>,
}

/// What keeps an agent's commands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sandbox {
    /// Nothing.
    Off,
    /// They write in the lane and in temporary directories alone.
    Workspace,
    /// They write nowhere.
    ReadOnly,
}

impl Sandbox {
    /// The words for them in files.
    pub const NAMES: [(&str, Sandbox); 3] =
        [("off", Sandbox::Off), ("workspace", Sandbox::Workspace), ("read-only", Sandbox::ReadOnly)];

    /// The one of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, sandbox)| *sandbox)
    }
}

/// A server that speaks the Model Context Protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum McpServer {
    /// A program that is started for the agent and spoken to over its standard streams.
    Program {
        /// The program.
        command: String,
        /// Its arguments.
        #[serde(default)]
        args: Vec<String>,
        /// Variables for it.
        #[serde(default)]
        env: BTreeMap<String, String>,
    },
    /// One that runs somewhere, over HTTP.
    Remote {
        /// Where.
        url: String,
        /// What is sent with every request.
        #[serde(default)]
        headers: BTreeMap<String, String>,
    },
}

impl McpServer {
    /// The variables or headers, which may hold secrets.
    pub fn variables(&self) -> &BTreeMap<String, String> {
        match self {
            McpServer::Program { env, .. } => env,
            McpServer::Remote { headers, .. } => headers,
        }
    }
}

impl Permissions {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.allow.is_none() && self.deny.is_empty()
    }
}

impl Bounds {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// These and those below: what is denied adds up, servers too; else the nearer one wins.
    #[must_use]
    pub fn on_top_of(&self, below: &Bounds) -> Bounds {
        let (near, far) = (&self.permissions, &below.permissions);
        let mut deny = far.deny.clone();
        deny.extend(near.deny.iter().filter(|rule| !far.deny.contains(rule)).cloned());
        let mut mcp = below.mcp.clone();
        mcp.extend(self.mcp.clone());
        Bounds {
            permissions: Permissions { allow: near.allow.clone().or_else(|| far.allow.clone()), deny },
            sandbox: self.sandbox.or(below.sandbox),
            mcp,
        }
    }
}
