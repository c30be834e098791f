//! The files that an agent looks for, and where.

use std::path::{Path, PathBuf};

/// The agents that Regatta can be added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Agent {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
}

/// Installed for everyone who works on this repository, or for one user in every repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Project,
    User,
}

/// A directory of the agent, and our files in it.
pub(crate) struct InstallPlace {
    pub(crate) root: PathBuf,
    /// Paths below it, and their texts.
    pub(crate) files: Vec<(PathBuf, String)>,
}

const SKILL: &str = include_str!("texts/skill.md");

/// Name, description, argument hint and text.
const COMMANDS: [(&str, &str, &str, &str); 3] = [
    (
        "regatta-run",
        "Split work into tasks and have Regatta's agents do them in parallel",
        "what to do",
        include_str!("texts/run.md"),
    ),
    (
        "regatta-report",
        "What Regatta's agents did, and what needs you",
        "since when",
        include_str!("texts/report.md"),
    ),
    ("regatta-review", "Judge the work of one Regatta task", "ID", include_str!("texts/review.md")),
];

/// Where the agent's files go. `home` is the user's, `variable` reads the environment.
pub(crate) fn place(
    agent: Agent,
    scope: Scope,
    repository: &Path,
    home: &Path,
    variable: &dyn Fn(&str) -> Option<PathBuf>,
) -> InstallPlace {
    let root = match (agent, scope) {
        (Agent::Claude, Scope::Project) => repository.join(".claude"),
        (Agent::Claude, Scope::User) => variable("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.join(".claude")),
        (Agent::Codex, Scope::Project) => repository.join(".agents"),
        (Agent::Codex, Scope::User) => variable("CODEX_HOME").unwrap_or_else(|| home.join(".codex")),
    };
    let mut files = vec![(PathBuf::from("skills/regatta/SKILL.md"), SKILL.to_owned())];
    for (name, what, takes, text) in COMMANDS {
        files.push(match agent {
            Agent::Claude => (
                PathBuf::from(format!("commands/{name}.md")),
                format!("---\ndescription: {what}\nargument-hint: \"[{takes}]\"\n---\n\n{text}"),
            ),
            // Codex has no custom commands, but every skill can be called by its name: `$regatta-run …`.
            Agent::Codex => (
                PathBuf::from(format!("skills/{name}/SKILL.md")),
                format!(
                    "---\nname: {name}\ndescription: {what}. Use it when the user calls it by name, as ${name}.\n---\n\n{}",
                    text.replace("$ARGUMENTS", "(the text given with the name of this skill)")
                ),
            ),
        });
    }
    InstallPlace { root, files }
}
