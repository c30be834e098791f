//! Whether the agents' programs are there, and can sign in.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use regatta_core::config::{Agent, AgentKind, Origin};
use regatta_engine::agents::find_program;

use super::Finding;
use crate::project::Project;
use crate::render::shown::clean_line;

/// So long a program may take to tell its version.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn look(project: &Project) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut not_installed = Vec::new();
    for (name, agent) in &project.config.agents {
        let is_default = *name == project.config.default_agent;
        let is_wanted = is_default || project.config.origin(&format!("agents.{name}")) != Origin::Default;
        let shown = if is_default { format!("{name} (default)") } else { name.clone() };
        let Some(program) = agent.program() else {
            found.push(Finding::ok("agent", format!("{shown}: built in")));
            continue;
        };
        let Some(path) = find_program(program, &project.repo.toplevel) else {
            match agent.kind.install() {
                // One of those that are there for who wants them, and nobody does.
                Some(_) if !is_wanted => not_installed.push(name.as_str()),
                install => found.push(missing(&shown, program, is_default, install)),
            }
            continue;
        };
        if agent.kind == AgentKind::Command {
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
        if let Some(login) = Login::of(agent.kind).filter(|login| is_wanted && !login.is_there(agent)) {
            found.push(
                Finding::warning("agent", format!("{shown}: no sign of a login"))
                    .hinted(format!("{}, or set {}", login.how, login.variables[0])),
            );
        }
    }
    if !not_installed.is_empty() {
        found.push(Finding::ok(
            "agent",
            format!("not installed, and not asked for: {}", not_installed.join(", ")),
        ));
    }
    found
}

fn missing(shown: &str, program: &str, is_default: bool, install: Option<&str>) -> Finding {
    let text = format!("{shown}: its program {program:?} was not found");
    let finding = if is_default { Finding::error("agent", text) } else { Finding::warning("agent", text) };
    finding.hinted(match install {
        Some(install) => {
            format!("install it ({install}), name it with `exe`, or set `default_agent` in regatta.yaml")
        }
        None => "put it on PATH, or correct `agents:` in regatta.yaml".to_owned(),
    })
}

/// Where an agent keeps its login, and what lets it in without one.
struct Login {
    /// What a person does.
    how: &'static str,
    /// Variables that let it in, the usual one first.
    variables: &'static [&'static str],
    /// The variable that names its directory, and what is in it.
    home: (&'static str, &'static str),
    /// The same below the home directory, where the variable is not set.
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

    fn is_there(&self, agent: &Agent) -> bool {
        let variable = |name: &str| agent.env.get(name).cloned().or_else(|| std::env::var(name).ok());
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let (name, file) = self.home;
        let kept = variable(name).map(|dir| PathBuf::from(dir).join(file));
        let kept = kept.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(self.usual)));
        self.variables.iter().any(|name| variable(name).is_some()) || kept.is_some_and(|file| file.is_file())
    }
}

/// Whether there is a sign that this agent can sign in; `None` where nobody can tell.
pub(crate) fn is_signed_in(agent: &Agent) -> Option<bool> {
    Login::of(agent.kind).map(|login| login.is_there(agent))
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
