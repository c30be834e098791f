//! Adds Regatta to the user's own claude or codex: a skill, commands and the MCP server, among the user's own files.

mod files;
mod json_servers;
mod places;
mod toml_servers;

use std::path::PathBuf;

use regatta_core::crew::{MemberName, Role};
use regatta_engine::templates::Text;

pub use files::{FileDone, FileStep};

use crate::documents::{SetupDocument, SetupMemberDocument};
use crate::project::Project;
use crate::refusal::Refusal;

/// The agents that Regatta can be added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupAgent {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
}

/// For whom Regatta is added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetupScope {
    /// Everyone who works on the repository with this root.
    Repository(PathBuf),
    /// One user, in every repository.
    User(AgentHomes),
}

/// Where the user's agents keep their own settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentHomes {
    pub claude: PathBuf,
    pub codex: PathBuf,
}

impl AgentHomes {
    /// According to the environment of this process.
    pub fn of_this_user() -> Result<Self, Refusal> {
        let variable =
            |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = variable("HOME")
            .ok_or_else(|| Refusal::usage("HOME is not set").hinted("your own settings are there"))?;
        Ok(Self {
            claude: variable("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.join(".claude")),
            codex: variable("CODEX_HOME").unwrap_or_else(|| home.join(".codex")),
        })
    }
}

/// A request to add Regatta to an agent, or to remove it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupRequest {
    pub agent: SetupAgent,
    pub scope: SetupScope,
    /// Delete what was written.
    pub remove: bool,
    /// Change nothing, only say what would be done.
    pub dry_run: bool,
}

/// Adds Regatta to an agent, or removes it. Files that the user wrote or edited stay; they are in the result as
/// [`FileDone::Kept`].
pub fn set_up(request: &SetupRequest) -> Result<SetupDocument, Refusal> {
    let SetupRequest { agent, scope, remove, dry_run } = request;
    let place = places::place(*agent, scope);
    let mut steps = Vec::new();
    for (path, text) in &place.files {
        let path = place.root.join(path);
        steps.push(if *remove {
            files::take_away(&path, &place.root, *dry_run)?
        } else {
            files::put(&path, text, *dry_run)?
        });
    }
    let mut by_hand = None;
    match (agent, scope) {
        (SetupAgent::Claude, SetupScope::Repository(root)) => {
            steps.push(json_servers::change(&root.join(".mcp.json"), *remove, *dry_run)?);
        }
        // Claude keeps servers in a file that it rewrites all the time, so only its own program should change it.
        (SetupAgent::Claude, SetupScope::User(_)) => {
            by_hand = Some(if *remove {
                "claude mcp remove --scope user regatta"
            } else {
                "claude mcp add --scope user regatta -- regatta mcp"
            });
        }
        (SetupAgent::Codex, SetupScope::Repository(root)) => {
            steps.push(toml_servers::change(&root.join(".codex/config.toml"), *remove, *dry_run)?);
        }
        (SetupAgent::Codex, SetupScope::User(_)) => {
            steps.push(toml_servers::change(&place.root.join("config.toml"), *remove, *dry_run)?);
        }
    }
    Ok(SetupDocument { by_hand, dry_run: *dry_run, files: steps })
}

impl Project {
    /// Creates the store, and the built-in templates for editing, for a member that registers later, as
    /// claude-orchestrator does.
    pub async fn prepare_member(
        &self,
        name: &MemberName,
        role: &Role,
    ) -> Result<SetupMemberDocument, Refusal> {
        self.create_store().await?;
        let templates = self.repo.state_dir.join("templates");
        std::fs::create_dir_all(&templates).map_err(|error| Refusal::io("making", &templates, &error))?;
        for text in Text::ALL {
            let path = text.file(&self.repo.state_dir);
            if path.symlink_metadata().is_err() {
                std::fs::write(&path, text.built_in())
                    .map_err(|error| Refusal::io("writing", &path, &error))?;
            }
        }
        Ok(SetupMemberDocument {
            next: format!("regatta register --name {name} --role {role}"),
            name: Some(name.to_string()),
            project: self.repo.toplevel.clone(),
            role: role.to_string(),
            templates,
        })
    }
}
