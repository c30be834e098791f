//! The files that an agent looks for, and where.

use std::path::PathBuf;

use super::{SetupAgent, SetupScope};

/// A directory of the agent, and our files in it.
pub(super) struct InstallPlace {
    pub(super) root: PathBuf,
    /// Paths below it, and their texts.
    pub(super) files: Vec<(PathBuf, String)>,
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

/// Where the agent's files go.
pub(super) fn place(agent: SetupAgent, scope: &SetupScope) -> InstallPlace {
    let root = match (agent, scope) {
        (SetupAgent::Claude, SetupScope::Repository(root)) => root.join(".claude"),
        (SetupAgent::Claude, SetupScope::User(homes)) => homes.claude.clone(),
        (SetupAgent::Codex, SetupScope::Repository(root)) => root.join(".agents"),
        (SetupAgent::Codex, SetupScope::User(homes)) => homes.codex.clone(),
    };
    let mut files = vec![(PathBuf::from("skills/regatta/SKILL.md"), SKILL.to_owned())];
    for (name, what, takes, text) in COMMANDS {
        files.push(match agent {
            SetupAgent::Claude => (
                PathBuf::from(format!("commands/{name}.md")),
                format!("---\ndescription: {what}\nargument-hint: \"[{takes}]\"\n---\n\n{text}"),
            ),
            // Codex has no custom commands, but every skill can be called by its name: `$regatta-run …`.
            SetupAgent::Codex => (
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
