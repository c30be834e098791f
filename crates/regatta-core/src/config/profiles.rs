//! The `profiles` of `regatta.yaml`, and the selection by a flag or a variable.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::diagnostic::{Diagnostic, Pos, Report, nearest};

use super::agents::unknown_agent;
use super::fields::Fields;
use super::file::{pairs, texts};
use super::values::{AgentKind, Config, Origin};
use super::yaml::quoted;

/// The word for no profile in a list of profiles.
const NONE: &str = "none";

/// Variables that select the account of one kind of agent.
const ACCOUNT_VARIABLES: [(&str, AgentKind); 10] = [
    ("CLAUDE_CONFIG_DIR", AgentKind::Claude),
    ("CLAUDE_CODE_OAUTH_TOKEN", AgentKind::Claude),
    ("ANTHROPIC_API_KEY", AgentKind::Claude),
    ("ANTHROPIC_AUTH_TOKEN", AgentKind::Claude),
    ("CODEX_HOME", AgentKind::Codex),
    ("CODEX_API_KEY", AgentKind::Codex),
    ("GEMINI_CLI_HOME", AgentKind::Gemini),
    ("GEMINI_API_KEY", AgentKind::Gemini),
    ("OPENCODE_CONFIG", AgentKind::Opencode),
    ("OPENCODE_CONFIG_CONTENT", AgentKind::Opencode),
];

/// An account to rotate through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Profile {
    pub name: String,
    /// Variables that select it.
    pub env: BTreeMap<String, String>,
    /// The agents it is for, by name or by kind; empty if its variables imply them.
    pub agents: Vec<String>,
    /// True if it is not in the file: its name alone means `~/.claude-NAME`.
    #[serde(skip)]
    pub implied: bool,
}

impl Profile {
    /// The profile that rookery's users mean by a name alone.
    fn implied(name: &str) -> Self {
        let env = [("CLAUDE_CONFIG_DIR".to_owned(), format!("~/.claude-{name}"))].into();
        Self { name: name.to_owned(), env, agents: Vec::new(), implied: true }
    }

    /// Whether attempts of this agent may use it.
    pub fn is_for(&self, agent: &str, kind: AgentKind) -> bool {
        if !self.agents.is_empty() {
            return self.agents.iter().any(|name| name == agent || name == kind.as_str());
        }
        let mut kinds = ACCOUNT_VARIABLES.iter().filter(|(name, _)| self.env.contains_key(*name)).peekable();
        kinds.peek().is_none() || kinds.any(|(_, chosen)| *chosen == kind)
    }
}

/// One row, unless it has no name.
pub(super) fn row(fields: &Fields) -> Option<Profile> {
    Some(Profile {
        name: fields.text("name")?.to_owned(),
        env: pairs(fields.pairs("env").unwrap_or_default()),
        agents: fields.texts("agents").map(texts).unwrap_or_default(),
        implied: false,
    })
}

/// Checks of the rows that the types of single keys cannot express.
pub(super) fn check(rows: &[Fields], config: &Config, report: &mut Report) {
    let mut seen: Vec<&str> = Vec::new();
    for row in rows {
        let path = row.path_of("name");
        match row.text("name") {
            None if row.lacks("name") => {
                report.error(row.pos, &path, "`name` is missing");
            }
            None => {}
            Some(name) => {
                if let Some(why) = no_name(name) {
                    report.error(row.pos_of("name"), &path, format!("{} {why}", quoted(name)));
                }
                if seen.contains(&name) {
                    let message = format!("duplicate profile {}", quoted(name));
                    report.error(row.pos_of("name"), &path, message);
                }
                seen.push(name);
            }
        }
        for agent in row.texts("agents").unwrap_or_default() {
            let is_kind = AgentKind::ALL.iter().any(|kind| kind.as_str() == agent.value);
            if !is_kind && !config.agents.contains_key(&agent.value) {
                let (message, hint) = unknown_agent(config, &agent.value);
                report.error(agent.pos, &row.path_of("agents"), message).hint = Some(hint);
            }
        }
    }
}

/// Why this cannot be a profile's name; completes a sentence that begins with the name.
fn no_name(name: &str) -> Option<&'static str> {
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match name {
        NONE => Some("cannot be the name of a profile: it means no profile at all"),
        _ if name.is_empty() || name.starts_with(['-', '.']) || !name.chars().all(valid) => {
            Some("is not a valid name for a profile; letters, digits, '_', '-' and '.' are allowed")
        }
        _ => None,
    }
}

impl Config {
    /// Selects only these profiles, in this order: names separated by commas, or `none`. A name that is not in the file
    /// is one of rookery's: the account in `~/.claude-NAME`.
    pub(super) fn choose_profiles(&mut self, names: &str, source: &str, origin: Origin) -> Vec<Diagnostic> {
        let mut chosen: Vec<Profile> = Vec::new();
        let wanted = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        for name in wanted.filter(|_| names.trim() != NONE) {
            let wrong = |message: String| vec![Diagnostic::error(source.to_owned(), Pos::NOWHERE, message)];
            if let Some(why) = no_name(name) {
                return wrong(format!("{} {why}", quoted(name)));
            }
            if chosen.iter().any(|other| other.name == name) {
                return wrong(format!("names profile {} twice", quoted(name)));
            }
            let declared = self.declared_profiles.iter().find(|profile| profile.name == name);
            chosen.push(declared.cloned().unwrap_or_else(|| Profile::implied(name)));
        }
        self.profiles = chosen;
        self.origins.insert("profiles".to_owned(), origin);
        Vec::new()
    }

    /// Message and hint for a profile that is in no file and whose directory does not exist.
    pub fn no_such_profile(&self, profile: &Profile) -> (String, String) {
        let name = &profile.name;
        let message = format!(
            "there is no profile {}: it is not under `profiles:` in regatta.yaml, and there is no directory ~/.claude-{name}",
            quoted(name)
        );
        let known = self.declared_profiles.iter().map(|profile| profile.name.as_str());
        let hint = match nearest(name, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "add `profiles: [{{ name: {name}, env: {{ CLAUDE_CONFIG_DIR: DIRECTORY }} }}]`, or sign in with `CLAUDE_CONFIG_DIR=~/.claude-{name} claude`"
            ),
        };
        (message, hint)
    }
}
