//! Whether the agents' programs are there, and can sign in.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use regatta_core::config::{Agent, AgentKind};
use regatta_engine::agents::find_program;

use super::Finding;
use crate::project::Project;
use crate::render::shown::clean_line;

/// So long a program may take to tell its version.
const PATIENCE: Duration = Duration::from_secs(5);

/// Variables that let claude in without a stored login.
const LOGINS: [&str; 5] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
];

pub(super) async fn look(project: &Project) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, agent) in &project.config.agents {
        let is_default = *name == project.config.default_agent;
        let shown = if is_default { format!("{name} (default)") } else { name.clone() };
        let program = match agent.kind {
            AgentKind::Sim => {
                found.push(Finding::ok("agent", format!("{shown}: built in")));
                continue;
            }
            AgentKind::Claude => agent
                .exe
                .clone()
                .or_else(|| agent.argv.first().cloned())
                .unwrap_or_else(|| "claude".to_owned()),
            AgentKind::Command => agent.argv.first().cloned().unwrap_or_default(),
        };
        let Some(path) = find_program(&program, &project.repo.toplevel) else {
            let text = format!("{shown}: its program {program:?} was not found");
            let finding =
                if is_default { Finding::error("agent", text) } else { Finding::warning("agent", text) };
            found.push(finding.hinted(match agent.kind {
                AgentKind::Claude => {
                    "install it (npm install -g @anthropic-ai/claude-code), or set `default_agent` in regatta.yaml"
                }
                _ => "put it on PATH, or correct `agents:` in regatta.yaml",
            }));
            continue;
        };
        if agent.kind != AgentKind::Claude {
            found.push(Finding::ok("agent", format!("{shown}: {}", path.display())));
            continue;
        }
        match version(&path).await {
            Ok(version) => {
                found.push(Finding::ok("agent", format!("{shown}: {version} at {}", path.display())));
            }
            Err(why) => found.push(
                Finding::warning("agent", format!("{shown}: `{} --version` {why}", path.display()))
                    .hinted("run it by hand and see"),
            ),
        }
        if !can_sign_in(agent) {
            found.push(
                Finding::warning("agent", format!("{shown}: no sign of a login"))
                    .hinted(format!("start `{program}` once and sign in, or set ANTHROPIC_API_KEY")),
            );
        }
    }
    found
}

async fn version(program: &Path) -> Result<String, String> {
    let asked = tokio::process::Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    match tokio::time::timeout(PATIENCE, asked).await {
        Err(_) => Err(format!("did not answer within {} s", PATIENCE.as_secs())),
        Ok(Err(error)) => Err(format!("could not be started: {error}")),
        Ok(Ok(output)) if !output.status.success() => Err(format!("ended with {}", output.status)),
        Ok(Ok(output)) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            Ok(clean_line(text.lines().next().unwrap_or_default()).chars().take(80).collect())
        }
    }
}

fn can_sign_in(agent: &Agent) -> bool {
    let variable = |name: &str| agent.env.get(name).cloned().or_else(|| std::env::var(name).ok());
    let is_set = |name: &&str| variable(name).is_some_and(|value| !value.is_empty());
    let dir = variable("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    let dir = dir.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".claude")));
    LOGINS.iter().any(is_set) || dir.is_some_and(|dir| dir.join(".credentials.json").is_file())
}
