//! The directories in which agents keep their own state: logins, conversations, settings.
//!
//! An agent must be able to write its state, or no conversation could be resumed. Some of it makes the user's own
//! agents run commands: such files are protected.

use std::path::{Path, PathBuf};

use crate::config::AgentKind;
use crate::writes::name_covers;

/// Where an agent keeps its state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentState {
    /// Directories it reads and writes.
    pub write: Vec<PathBuf>,
    /// What it must not change in them.
    pub protected: Vec<Protected>,
}

/// Entries of one directory that an agent must not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protected {
    /// The directory.
    pub dir: PathBuf,
    /// The names of the entries; `*` stands for any text.
    pub names: &'static [&'static str],
    /// Paths below the directory that the agent may change after all.
    pub except: &'static [&'static str],
    /// A JSON file in it that the agent writes, but not the MCP servers in it.
    pub servers: Option<&'static str>,
}

const CLAUDE: &[&str] = &[
    "settings*.json",
    "CLAUDE.md",
    "commands",
    "agents",
    "skills",
    "hooks",
    "plugins",
    "output-styles",
    "statusline*",
    "rules",
    "keybindings.json",
];
/// Where claude keeps what it remembers, and the MCP servers that the user has added.
const CLAUDE_FILE: &str = ".claude.json";
const CODEX: &[&str] = &[
    "config.toml",
    "*.config.toml",
    "AGENTS.md",
    "AGENTS.override.md",
    "prompts",
    "rules",
    "skills",
    "hooks.json",
];
const GEMINI: &[&str] = &[
    "settings.json",
    "GEMINI.md",
    "extensions",
    "commands",
    "policies",
    "hooks",
    "agents",
    "skills",
    ".env",
];
/// What opencode itself writes among its settings.
const OPENCODE_OWN: &[&str] =
    &[".gitignore", "node_modules", "bun.lock", "package.json", "package-lock.json"];

/// The state of an agent of this kind. `variable` looks up the agent's environment.
pub fn state_of(kind: AgentKind, home: &Path, variable: &dyn Fn(&str) -> Option<PathBuf>) -> AgentState {
    let named = |name: &str| variable(name).filter(|path| path.is_absolute());
    let protect = |dir: &Path, names, except| Protected { dir: dir.to_owned(), names, except, servers: None };
    match kind {
        AgentKind::Claude => {
            let dir = named("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.join(".claude"));
            // Claude keeps the data of its built-in plugins in `plugins/store`.
            let own = protect(&dir, CLAUDE, &["plugins/store"]);
            let own = Protected { servers: Some(CLAUDE_FILE), ..own };
            AgentState { protected: vec![own], write: vec![dir] }
        }
        AgentKind::Codex => {
            let dir = named("CODEX_HOME").unwrap_or_else(|| home.join(".codex"));
            // Codex fills `skills/.system` at its first start.
            AgentState { protected: vec![protect(&dir, CODEX, &["skills/.system"])], write: vec![dir] }
        }
        AgentKind::Gemini => {
            let dir = named("GEMINI_CLI_HOME").unwrap_or_else(|| home.to_owned()).join(".gemini");
            AgentState { protected: vec![protect(&dir, GEMINI, &[])], write: vec![dir] }
        }
        AgentKind::Opencode => {
            let below =
                |name: &str, usual: &str| named(name).unwrap_or_else(|| home.join(usual)).join("opencode");
            let config = below("XDG_CONFIG_HOME", ".config");
            let protected = vec![protect(&config, &["*"], OPENCODE_OWN)];
            let write = vec![
                below("XDG_DATA_HOME", ".local/share"),
                below("XDG_STATE_HOME", ".local/state"),
                below("XDG_CACHE_HOME", ".cache"),
                config,
            ];
            AgentState { write, protected }
        }
        AgentKind::Command | AgentKind::Sim => AgentState::default(),
    }
}

/// The state directories of all kinds with one, under the usual names.
pub fn usual_dirs(home: &Path) -> Vec<PathBuf> {
    AgentKind::ALL.into_iter().flat_map(|kind| state_of(kind, home, &|_| None).write).collect()
}

impl Protected {
    /// Whether the entry with this name is protected.
    pub fn covers(&self, name: &str) -> bool {
        self.names.iter().any(|pattern| name_covers(pattern, name)) && !self.except.contains(&name)
    }

    /// Whether a path below the directory may be changed although it is below a protected entry.
    pub fn excepts(&self, path: &Path) -> bool {
        self.except.iter().any(|free| path.starts_with(free))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_writes_its_own_state_and_not_its_settings() {
        let home = Path::new("/home/u");
        let none = |_: &str| None;
        let claude = state_of(AgentKind::Claude, home, &none);
        assert_eq!(claude.write, [PathBuf::from("/home/u/.claude")]);
        for name in ["settings.json", "settings.local.json", "hooks", "CLAUDE.md"] {
            assert!(claude.protected[0].covers(name), "{name}");
        }
        for name in [".claude.json", "projects", "settings.json.bak2", "history.jsonl", ".credentials.json"] {
            assert!(!claude.protected[0].covers(name), "{name}");
        }
        let codex = state_of(AgentKind::Codex, home, &|name| (name == "CODEX_HOME").then(|| "/acc/1".into()));
        assert_eq!(codex.write, [PathBuf::from("/acc/1")]);
        assert!(codex.protected[0].covers("config.toml") && codex.protected[0].covers("work.config.toml"));
        assert!(codex.protected[0].excepts(Path::new("skills/.system/x")));
        assert!(!codex.protected[0].excepts(Path::new("skills/mine")));
        let gemini = state_of(AgentKind::Gemini, home, &|_| Some("relative".into()));
        assert_eq!(gemini.write, [PathBuf::from("/home/u/.gemini")]);
        let opencode = state_of(AgentKind::Opencode, home, &none);
        assert_eq!(opencode.write.len(), 4);
        assert!(opencode.protected[0].covers("opencode.json") && opencode.protected[0].covers("plugin"));
        assert!(!opencode.protected[0].covers("node_modules"));
        assert_eq!(state_of(AgentKind::Command, home, &none), AgentState::default());
        assert_eq!(usual_dirs(home).len(), 7);
    }
}
