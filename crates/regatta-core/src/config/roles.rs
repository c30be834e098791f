//! The `roles` and `chain` of a configuration: which agents plan and do each link, and how often work is sent back.

use serde::Serialize;

use super::agents::unknown_agent;
use super::values::{AgentKind, Config};

/// The agent and model for each role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Roles {
    /// Turns a goal into a plan.
    pub planner: Role,
    /// Does the tasks with a chain that name no agent.
    pub builder: Role,
    /// Examines the work before the checks run again; without an agent, only the checks run.
    pub verifier: Role,
    /// Reviews the work.
    pub reviewer: Role,
    /// Compares the work with the order.
    pub accepter: Role,
}

/// One role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Role {
    /// The entry of `agents`; unset, the default agent.
    pub agent: Option<String>,
    /// The model, if the agent has a choice.
    pub model: Option<String>,
}

/// What happens when a link asks for changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Chain {
    /// Maximum number of times the work is sent back to its builder.
    pub rounds: u32,
}

impl Default for Chain {
    fn default() -> Self {
        Self { rounds: 3 }
    }
}

impl Roles {
    /// The role with this name.
    pub fn role(&self, name: &str) -> &Role {
        match name {
            "planner" => &self.planner,
            "builder" => &self.builder,
            "verifier" => &self.verifier,
            "reviewer" => &self.reviewer,
            _ => &self.accepter,
        }
    }

    /// Sets `roles.NAME.KEY`; `false` if there is no such key.
    pub(super) fn set(&mut self, path: &str, text: &str) -> bool {
        let role = match path.split('.').nth(1) {
            Some("planner") => &mut self.planner,
            Some("builder") => &mut self.builder,
            Some("verifier") => &mut self.verifier,
            Some("reviewer") => &mut self.reviewer,
            Some("accepter") => &mut self.accepter,
            _ => return false,
        };
        match path.rsplit('.').next() {
            Some("agent") => role.agent = Some(text.to_owned()),
            Some("model") => role.model = Some(text.to_owned()),
            _ => return false,
        }
        true
    }
}

impl Config {
    /// The agent of a role.
    pub fn agent_of(&self, role: &str) -> &str {
        self.roles.role(role).agent.as_deref().unwrap_or(&self.default_agent)
    }

    /// Why the agent of a role cannot play it, if so: it receives prose, never a script.
    pub fn unfit(&self, role: &str) -> Option<(String, String)> {
        let name = self.agent_of(role);
        let Some(agent) = self.agents.get(name) else { return Some(unknown_agent(self, name)) };
        let program = agent.argv.first().map(|program| program.rsplit('/').next().unwrap_or(program));
        let reads_scripts = |program: &str| {
            let plain = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
            ["sh", "bash", "dash", "zsh", "ksh", "fish", "python", "perl", "ruby", "node", "php"]
                .contains(&plain)
        };
        match agent.kind {
            AgentKind::Command if program.is_some_and(reads_scripts) => Some((
                format!("the agent {name:?} runs its prompt as a script, so it cannot be the {role}"),
                format!("name another in regatta.yaml: `roles: {{ {role}: {{ agent: claude }} }}`"),
            )),
            _ => None,
        }
    }
}

/// Roles whose agent is unknown.
pub(super) fn unknown_agents(config: &Config) -> Vec<(&'static str, String, String)> {
    let Roles { planner, builder, verifier, reviewer, accepter } = &config.roles;
    let roles = [
        ("roles.planner.agent", planner),
        ("roles.builder.agent", builder),
        ("roles.verifier.agent", verifier),
        ("roles.reviewer.agent", reviewer),
        ("roles.accepter.agent", accepter),
    ];
    let named = roles.into_iter().filter_map(|(key, role)| Some((key, role.agent.as_ref()?)));
    named
        .filter(|(_, agent)| !config.agents.contains_key(*agent))
        .map(|(key, agent)| {
            let (message, hint) = unknown_agent(config, agent);
            (key, message, hint)
        })
        .collect()
}
