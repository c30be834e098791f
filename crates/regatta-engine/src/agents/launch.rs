//! What the engine hands in to start an attempt, and what it gets to start.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use regatta_core::bounds::{Bounds, McpServer};
use regatta_core::config::{Agent, AgentKind};
use regatta_core::id::TaskId;
use serde::{Deserialize, Serialize};

/// Variables by which an agent tells the tools it runs that they are inside it. An agent that Regatta starts is
/// inside none, even where Regatta itself was started by one.
const NESTING_VARS: [&str; 10] = [
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_CODE_CHILD_SESSION",
    "AI_AGENT",
    "CODEX_SANDBOX",
    "CODEX_SANDBOX_NETWORK_DISABLED",
    "GEMINI_CLI",
    "OPENCODE",
];

/// Where an agent without a conversation finds what went wrong the last time.
pub const GUIDANCE_VAR: &str = "REGATTA_GUIDANCE";
/// Where it finds what somebody said after the task was ordered.
pub(super) const FOLLOW_UP_VAR: &str = "REGATTA_FOLLOW_UP";

/// The name under which agents know Regatta's own MCP server.
pub(super) const OWN_SERVER: &str = "regatta";
/// What that server is started with: whose it is, and where the store is.
pub(super) const OWN_SERVER_VARS: [&str; 5] =
    ["REGATTA_STORE", "REGATTA_TASK", "REGATTA_ATTEMPT", "REGATTA_TOKEN", "REGATTA_LANE"];

/// Which program speaks, and therefore how it is started and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
    /// Any program that takes its prompt on stdin and says by its exit code how it went.
    Command,
    /// The simulated agent inside Regatta.
    Sim,
}

/// One entry of `agents:` in `regatta.yaml`, with everything resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentProfile {
    /// The entry's name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Program and leading arguments; empty means the kind's own.
    pub argv: Vec<String>,
    /// Model, unless the task names one.
    pub model: Option<String>,
    /// Arguments added at the end.
    pub args: Vec<String>,
    /// Variables set for the agent.
    pub env: BTreeMap<String, String>,
    /// What it may do in every task.
    pub bounds: Bounds,
}

impl Kind {
    /// Whether it talks to a model in a conversation of its own.
    pub fn has_model(self) -> bool {
        matches!(self, Kind::Claude | Kind::Codex | Kind::Gemini | Kind::Opencode)
    }

    /// The same in the settings.
    pub fn configured(self) -> AgentKind {
        match self {
            Kind::Claude => AgentKind::Claude,
            Kind::Codex => AgentKind::Codex,
            Kind::Gemini => AgentKind::Gemini,
            Kind::Opencode => AgentKind::Opencode,
            Kind::Command => AgentKind::Command,
            Kind::Sim => AgentKind::Sim,
        }
    }
}

impl AgentProfile {
    /// The profile of a configured agent.
    pub fn of(name: &str, agent: &Agent) -> Self {
        let kind = match agent.kind {
            AgentKind::Claude => Kind::Claude,
            AgentKind::Codex => Kind::Codex,
            AgentKind::Gemini => Kind::Gemini,
            AgentKind::Opencode => Kind::Opencode,
            AgentKind::Command => Kind::Command,
            AgentKind::Sim => Kind::Sim,
        };
        let argv = match &agent.exe {
            Some(exe) => vec![exe.clone()],
            None => agent.argv.clone(),
        };
        Self {
            name: name.to_owned(),
            kind,
            argv,
            model: agent.model.clone(),
            args: agent.args.clone(),
            env: agent.env.clone(),
            bounds: agent.bounds.clone(),
        }
    }
}

/// The file that `program` means: itself where it names a place, else the first on `PATH` that can be executed.
pub fn find_program(program: &str, from: &Path) -> Option<PathBuf> {
    let executable = |path: &Path| {
        use std::os::unix::fs::PermissionsExt;
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if program.is_empty() {
        return None;
    }
    if program.contains('/') {
        let path = from.join(program);
        return executable(&path).then_some(path);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| executable(file))
}

/// Everything about one attempt that the agent must be told.
#[derive(Clone, Copy, Debug)]
pub struct Brief<'a> {
    /// The task.
    pub task: &'a TaskId,
    /// Its attempt, from 1.
    pub attempt: u32,
    /// What the user wrote.
    pub prompt: &'a str,
    /// What went wrong before, with the evidence; `None` at first.
    pub guidance: Option<&'a str>,
    /// What somebody said after the task was ordered, where this attempt is for that.
    pub follow_up: Option<&'a str>,
    /// The task's model; wins over the profile's.
    pub model: Option<&'a str>,
    /// Dollars it may cost, for an agent that can keep to that by itself.
    pub max_usd: Option<f64>,
    /// The agent's own sub-persona (`claude --agent`, `codex --profile`, `opencode run --agent`).
    pub persona: Option<&'a str>,
    /// The agent must not change anything.
    pub read_only: bool,
    /// What it may do, and the servers it is given.
    pub bounds: &'a Bounds,
    /// A directory for this attempt alone, for files that the agent is to read.
    pub run_dir: &'a Path,
    /// Begin a conversation or go on with one.
    pub session: SessionPlan<'a>,
    /// The agent is asked to report with `regatta done`.
    pub reports: bool,
    /// It is given Regatta's own MCP server, where it can take one and reports.
    pub attach: bool,
    /// A verdict in its last words counts too.
    pub answers: bool,
    /// Its work does not land: it may push its branch and open a pull request for it.
    pub pull_request: bool,
    /// Regatta runs as root, and so will the agent.
    pub is_root: bool,
    /// Takes the place of the profile's program (`--claude-exe`).
    pub exe: Option<&'a Path>,
    /// This Regatta's own binary.
    pub regatta: &'a Path,
}

/// Which conversation an attempt belongs to, by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionPlan<'a> {
    /// Begin it, under this id where the agent lets us choose.
    New(&'a str),
    /// Go on with it.
    Resume(&'a str),
}

/// Why an agent cannot do what was ordered in the way it was ordered, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

impl<'a> Brief<'a> {
    /// The servers to give it. One that must change nothing gets none: nobody knows what they do.
    pub(super) fn servers(&self) -> impl Iterator<Item = (&'a str, &'a McpServer)> + use<'a> {
        let servers = (!self.read_only).then_some(&self.bounds.mcp);
        servers.into_iter().flatten().map(|(name, server)| (name.as_str(), server))
    }
}

impl Brief<'_> {
    /// Whether Regatta's own server is among its servers. A server of the user's by that name takes its place.
    pub(super) fn is_attached(&self) -> bool {
        self.attach && self.reports && !self.bounds.mcp.contains_key(OWN_SERVER)
    }
}

impl Refusal {
    /// Nobody but its sandbox is in the way of `regatta done`.
    pub(super) fn sandbox_cannot_report(agent: &str) -> Self {
        Self(format!(
            "{agent} cannot run `regatta done` in its sandbox; set `verdict_adapter: json-result` or `chain`"
        ))
    }

    /// A read-only agent that may run nothing cannot run `regatta done` either.
    pub(super) fn cannot_report(agent: &str) -> Self {
        Self(format!(
            "{agent} cannot run `regatta done` in a read-only task; set `verdict_adapter: json-result` or `chain`"
        ))
    }
}

/// Arguments of one meaning, in all their spellings.
pub(super) struct Flags {
    /// Those that stand alone.
    pub(super) alone: &'static [&'static str],
    /// Those that take a value: `--flag value`, `--flag=value`, and `-fvalue` for short ones.
    pub(super) valued: &'static [&'static str],
}

impl Flags {
    pub(super) fn any_in(&self, args: &[String]) -> bool {
        args.iter().any(|arg| self.alone.contains(&arg.as_str()) || self.is_valued(arg).is_some())
    }

    /// The others of `args`.
    pub(super) fn left_out_of<'a>(&self, args: Vec<&'a str>) -> Vec<&'a str> {
        let mut kept = Vec::new();
        let mut rest = args.into_iter();
        while let Some(arg) = rest.next() {
            match self.is_valued(arg) {
                Some(Valued::Apart) => drop(rest.next()),
                Some(Valued::Joined) => {}
                None if self.alone.contains(&arg) => {}
                None => kept.push(arg),
            }
        }
        kept
    }

    fn is_valued(&self, arg: &str) -> Option<Valued> {
        self.valued.iter().find_map(|flag| {
            let rest = arg.strip_prefix(flag)?;
            let is_short = !flag.starts_with("--");
            match rest {
                "" => Some(Valued::Apart),
                _ => (is_short || rest.starts_with('=')).then_some(Valued::Joined),
            }
        })
    }
}

/// Where a flag's value stands.
enum Valued {
    Apart,
    Joined,
}

/// A process to start. The prompt is never in `argv`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Program and arguments; no shell in between.
    pub argv: Vec<OsString>,
    /// Written to stdin, which is then closed.
    pub stdin: String,
    /// Written before the start, for nobody else to read.
    pub files: Vec<(PathBuf, String)>,
    /// Set after `env_remove` was applied.
    pub env_set: Vec<(String, String)>,
    /// Taken out of what the agent would inherit.
    pub env_remove: Vec<String>,
}

impl Invocation {
    /// Puts the environment together: `defaults`, then the profile on top.
    pub(super) fn new(
        profile: &AgentProfile,
        argv: Vec<OsString>,
        stdin: String,
        defaults: &[(&str, &str)],
    ) -> Self {
        let mut env: BTreeMap<String, String> =
            defaults.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        env.extend(profile.env.clone());
        let env_remove =
            NESTING_VARS.iter().filter(|name| !env.contains_key(**name)).map(|name| (*name).to_owned());
        Self {
            argv,
            stdin,
            files: Vec::new(),
            env_remove: env_remove.collect(),
            env_set: env.into_iter().collect(),
        }
    }
}

/// The program's argv before any of the kind's own arguments.
pub(super) fn program(profile: &AgentProfile, brief: &Brief<'_>, default: &str) -> Vec<OsString> {
    match (brief.exe, profile.argv.as_slice()) {
        (Some(exe), _) => vec![exe.as_os_str().to_owned()],
        (None, []) => vec![default.into()],
        (None, argv) => argv.iter().map(OsString::from).collect(),
    }
}

/// The prompt, behind it what was said since, and behind that what the last attempt ran into.
pub(super) fn prompt_with_guidance(brief: &Brief<'_>) -> String {
    if brief.follow_up.is_none() && brief.guidance.is_none() {
        return brief.prompt.to_owned();
    }
    let mut text = brief.prompt.trim_end().to_owned();
    if let Some(follow_up) = brief.follow_up {
        text.push_str(&format!("\n\n## Said since then\n\n{}", follow_up.trim()));
    }
    if let Some(guidance) = brief.guidance {
        text.push_str(&headed(guidance));
    }
    text.push('\n');
    text
}

/// What the last attempt ran into, under its heading; news that has a heading of its own stands alone.
pub(super) fn headed(guidance: &str) -> String {
    let guidance = guidance.trim();
    let heading = if guidance.starts_with("## ") { "" } else { "## The attempt before this one\n\n" };
    format!("\n\n{heading}{guidance}")
}

/// For programs to which the prompt is code: the follow-up is more of it, and from the same hand.
pub(super) fn prompt_as_code(brief: &Brief<'_>) -> String {
    match brief.follow_up {
        None => brief.prompt.to_owned(),
        Some(follow_up) => format!("{}\n{follow_up}\n", brief.prompt.trim_end()),
    }
}
