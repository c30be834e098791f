//! `roles` and `chain` of a configuration: who plans and who does which link, and how often work goes back.

use serde::Serialize;

use super::agents::unknown_agent;
use super::values::{AgentKind, Config};

/// Who does what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Roles {
    /// Who turns a goal into a plan.
    pub planner: Role,
    /// Who does tasks with a chain that name no agent.
    pub builder: Role,
    /// Who looks before the checks run again; nobody where no agent is named.
    pub verifier: Role,
    /// Who reads the work.
    pub reviewer: Role,
    /// Who holds the work against what was ordered.
    pub accepter: Role,
}

/// One role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Role {
    /// The entry of `agents`; the default one where none is named.
    pub agent: Option<String>,
    /// The model, where the agent has a choice.
    pub model: Option<String>,
}

/// How a chain goes on where a link is not content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Chain {
    /// How often the work goes back to its builder.
    pub rounds: u32,
}

impl Default for Chain {
    fn default() -> Self {
        Self { rounds: 3 }
    }
}

impl Roles {
    /// The role of that name.
    pub fn role(&self, name: &str) -> &Role {
        match name {
            "planner" => &self.planner,
            "builder" => &self.builder,
            "verifier" => &self.verifier,
            "reviewer" => &self.reviewer,
            _ => &self.accepter,
        }
    }

    /// Takes `roles.NAME.KEY`; `false` where there is no such thing.
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

    /// Why the agent of a role cannot play it, if it cannot: what it is told are words, and never a script.
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
                format!("the agent {name:?} takes what it is told for a script, so it cannot be the {role}"),
                format!("name another in regatta.yaml: `roles: {{ {role}: {{ agent: claude }} }}`"),
            )),
            _ => None,
        }
    }
}

/// Roles whose agents there are not.
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
