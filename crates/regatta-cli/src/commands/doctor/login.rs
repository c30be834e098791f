//! Whether an agent can sign in, judged by files and variables only. Nothing is asked over the network.

use std::path::{Path, PathBuf};

use regatta_core::config::{Agent, AgentKind, Profile};

use rustix::fs::{Access, access};

use super::Finding;

/// The agent's own login and that of each of its profiles. For an agent that the project does not use, only logins that
/// exist are reported.
pub(super) fn look(shown: &str, agent: &Agent, profiles: &[Profile], is_wanted: bool) -> Vec<Finding> {
    let Some(login) = Login::of(agent.kind) else { return Vec::new() };
    let mut accounts = vec![(shown.to_owned(), None)];
    for profile in profiles {
        accounts.push((format!("{shown}, profile {}", profile.name), Some(profile)));
    }
    let mut found = Vec::new();
    for (who, profile) in accounts {
        let env = |name: &str| {
            let chosen = profile.and_then(|profile| profile.env.get(name));
            chosen.or_else(|| agent.env.get(name)).cloned()
        };
        match login.found(&env) {
            Some(by) => found.push(Finding::ok("login", format!("{who}: signed in by {by}"))),
            None if is_wanted => {
                let hint = format!("{}, or set {}", login.how(profile), login.variables[0]);
                found.push(Finding::warning("login", format!("{who}: no login was found")).hinted(hint));
            }
            None => {}
        }
    }
    found
}

/// Whether there is a sign that this agent can sign in; `None` if that cannot be judged.
pub(crate) fn is_signed_in(agent: &Agent) -> Option<bool> {
    Login::of(agent.kind).map(|login| login.found(&|name| agent.env.get(name).cloned()).is_some())
}

/// The directory in which an agent keeps its files; `None` if it has none.
pub(super) fn agent_dir(agent: &Agent) -> Option<PathBuf> {
    let login = Login::of(agent.kind)?;
    let kept = login.kept(&|name| agent.env.get(name).cloned())?;
    kept.parent().map(Path::to_owned)
}

/// A finding if the agent cannot store its conversations.
pub(super) fn home(shown: &str, agent: &Agent) -> Option<Finding> {
    let dir = agent_dir(agent)?;
    let there = dir.ancestors().find(|dir| dir.symlink_metadata().is_ok())?;
    let why = match access(there, Access::WRITE_OK | Access::EXEC_OK) {
        _ if !there.is_dir() => "is not a directory".to_owned(),
        Ok(()) => return None,
        Err(error) => format!("cannot be written: {error}"),
    };
    let text = format!("{shown} keeps its conversations in {}, and {} {why}", dir.display(), there.display());
    let hint = format!("make it writable, or set {} to another directory", Login::of(agent.kind)?.home.0);
    Some(Finding::error("home", text).hinted(hint))
}

/// Where an agent keeps its login, and which variables replace it.
struct Login {
    /// What the user does to sign in.
    how: &'static str,
    /// Variables that replace a login, the usual one first.
    variables: &'static [&'static str],
    /// The variable that names its directory, and the login file in it.
    home: (&'static str, &'static str),
    /// The same path below the home directory, if the variable is not set.
    usual: &'static str,
}

impl Login {
    fn of(kind: AgentKind) -> Option<Self> {
        match kind {
            AgentKind::Claude => Some(Self {
                how: "start `claude` once and sign in",
                variables: &[
                    "ANTHROPIC_API_KEY",
                    "ANTHROPIC_AUTH_TOKEN",
                    "CLAUDE_CODE_OAUTH_TOKEN",
                    "CLAUDE_CODE_USE_BEDROCK",
                    "CLAUDE_CODE_USE_VERTEX",
                ],
                home: ("CLAUDE_CONFIG_DIR", ".credentials.json"),
                usual: ".claude/.credentials.json",
            }),
            AgentKind::Codex => Some(Self {
                how: "run `codex login`",
                variables: &["CODEX_API_KEY", "OPENAI_API_KEY"],
                home: ("CODEX_HOME", "auth.json"),
                usual: ".codex/auth.json",
            }),
            AgentKind::Gemini => Some(Self {
                how: "start `gemini` once and sign in",
                variables: &[
                    "GEMINI_API_KEY",
                    "GOOGLE_API_KEY",
                    "GOOGLE_GENAI_USE_VERTEXAI",
                    "GOOGLE_GENAI_USE_GCA",
                ],
                home: ("GEMINI_CLI_HOME", ".gemini/oauth_creds.json"),
                usual: ".gemini/oauth_creds.json",
            }),
            AgentKind::Opencode => Some(Self {
                how: "run `opencode auth login`",
                variables: &[
                    "ANTHROPIC_API_KEY",
                    "OPENAI_API_KEY",
                    "OPENROUTER_API_KEY",
                    "OPENCODE_CONFIG_CONTENT",
                ],
                home: ("XDG_DATA_HOME", "opencode/auth.json"),
                usual: ".local/share/opencode/auth.json",
            }),
            AgentKind::Command | AgentKind::Sim => None,
        }
    }

    /// What the user does to sign in; for a profile, with its directory.
    fn how(&self, profile: Option<&Profile>) -> String {
        let dir = profile.and_then(|profile| profile.env.get(self.home.0));
        match dir {
            Some(dir) => format!("with {}={dir} in the environment, {}", self.home.0, self.how),
            None => self.how.to_owned(),
        }
    }

    /// What lets the agent sign in, if anything. `env` overrides this process's own variables.
    fn found(&self, env: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        let variable = |name: &str| {
            let value = env(name).or_else(|| std::env::var(name).ok());
            value.filter(|value| !value.is_empty())
        };
        if let Some(name) = self.variables.iter().find(|name| variable(name).is_some()) {
            return Some((*name).to_owned());
        }
        let kept = self.kept(env)?;
        kept.is_file().then(|| kept.display().to_string())
    }

    /// The path of its login file, whether or not it exists.
    fn kept(&self, env: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
        let variable = |name: &str| {
            let value = env(name).or_else(|| std::env::var(name).ok());
            value.filter(|value| !value.is_empty())
        };
        let user = std::env::var_os("HOME").map(PathBuf::from);
        let (name, file) = self.home;
        Some(match (variable(name), user) {
            (Some(dir), user) => match (dir.strip_prefix("~/"), user) {
                (Some(below), Some(user)) => user.join(below).join(file),
                _ => PathBuf::from(dir).join(file),
            },
            (None, Some(user)) => user.join(self.usual),
            (None, None) => return None,
        })
    }
}
