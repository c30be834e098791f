//! What an agent may do and which tools it gets: tool rules, sandbox, MCP servers.
//!
//! Invariant: a bound that an agent cannot enforce is refused before it starts ([`refusals`]), never dropped.

mod enforce;
mod rule;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use enforce::{Refused, refusals};
pub use rule::Rule;

/// The bounds of one task, or of an agent for all its tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// The tools and commands it may use.
    #[serde(default)]
    pub permissions: Permissions,
    /// What it is kept in; by default the lane is writable, and little else.
    #[serde(default)]
    pub sandbox: Option<Sandbox>,
    /// Its MCP servers, by name.
    #[serde(default)]
    pub mcp: BTreeMap<String, McpServer>,
}

/// The tools and commands an agent may use. A denial overrides every permission.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permissions {
    /// Only these are allowed; without a list, everything is.
    #[serde(default)]
    pub allow: Option<Vec<Rule>>,
    /// These are denied.
    #[serde(default)]
    pub deny: Vec<Rule>,
}

/// How an agent is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sandbox {
    /// No sandbox.
    Off,
    /// It may write its lane, temporary files and its own state.
    Workspace,
    /// It may write temporary files and its own state, and not its lane.
    ReadOnly,
}

impl Sandbox {
    /// The names used in files.
    pub const NAMES: [(&str, Sandbox); 3] =
        [("off", Sandbox::Off), ("workspace", Sandbox::Workspace), ("read-only", Sandbox::ReadOnly)];

    /// The sandbox with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, sandbox)| *sandbox)
    }
}

/// A server that speaks the Model Context Protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum McpServer {
    /// A program that is started for the agent and talks to it over its standard streams.
    Program {
        /// The program to start.
        command: String,
        /// Its arguments.
        #[serde(default)]
        args: Vec<String>,
        /// Its environment variables.
        #[serde(default)]
        env: BTreeMap<String, String>,
    },
    /// A server reached over HTTP.
    Remote {
        /// The server's address.
        url: String,
        /// Headers sent with every request.
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
    /// True if no bound is set.
    pub fn is_empty(&self) -> bool {
        self.allow.is_none() && self.deny.is_empty()
    }
}

impl Bounds {
    /// True if there are no rules.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Merges these bounds with those `below`: denials and servers add up; otherwise these bounds win.
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
