//! Whether an agent can sign in, judged by files and variables only. Nothing is asked over the network.

use std::path::{Path, PathBuf};

use regatta_core::config::{Agent, AgentKind, Profile};

/// Whether there is a sign that this agent can sign in; `None` if that cannot be judged.
pub fn is_signed_in(agent: &Agent) -> Option<bool> {
    Login::of(agent.kind).map(|login| login.found(&|name| agent.env.get(name).cloned()).is_some())
}

/// The directory in which an agent keeps its files; `None` if it has none.
pub fn agent_dir(agent: &Agent) -> Option<PathBuf> {
    let login = Login::of(agent.kind)?;
    let kept = login.kept(&|name| agent.env.get(name).cloned())?;
    kept.parent().map(Path::to_owned)
}

/// Where an agent keeps its login, and which variables replace it.
#[derive(Clone, Copy, Debug)]
pub struct Login {
    /// What the user does to sign in.
    how: &'static str,
    /// Variables that replace a login, the usual one first.
    pub variables: &'static [&'static str],
    /// The variable that names its directory, and the login file in it.
    pub home: (&'static str, &'static str),
    /// The same path below the home directory, if the variable is not set.
    usual: &'static str,
}

impl Login {
    /// The login of this kind of agent, if it has one.
    pub fn of(kind: AgentKind) -> Option<Self> {
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
    pub fn how(&self, profile: Option<&Profile>) -> String {
        let dir = profile.and_then(|profile| profile.env.get(self.home.0));
        match dir {
            Some(dir) => format!("with {}={dir} in the environment, {}", self.home.0, self.how),
            None => self.how.to_owned(),
        }
    }

    /// What lets the agent sign in, if anything. `env` overrides this process's own variables.
    pub fn found(&self, env: &dyn Fn(&str) -> Option<String>) -> Option<String> {
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
