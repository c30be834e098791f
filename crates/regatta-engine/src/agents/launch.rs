//! What the engine passes in to start an attempt, and the process to start.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use regatta_core::bounds::{Bounds, McpServer, Sandbox};
use regatta_core::config::{Agent, AgentKind};
use regatta_core::id::TaskId;

/// Variables with which an agent marks the tools it runs as nested. An agent started by Regatta is not nested, even if
/// Regatta itself was started by one.
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

/// The variable in which an agent without a conversation finds what went wrong last time.
pub const GUIDANCE_VAR: &str = "REGATTA_GUIDANCE";
/// The variable in which it finds its follow-up.
pub(super) const FOLLOW_UP_VAR: &str = "REGATTA_FOLLOW_UP";

/// The name of Regatta's own MCP server for agents.
pub(super) const OWN_SERVER: &str = "regatta";
/// The variables that server is started with: the agent's task and the store's location.
const OWN_SERVER_VARS: [&str; 5] =
    ["REGATTA_STORE", "REGATTA_TASK", "REGATTA_ATTEMPT", "REGATTA_TOKEN", "REGATTA_LANE"];
/// The same in a sandbox, where the door leads to the store.
const OWN_SERVER_VARS_INSIDE: [&str; 4] = ["REGATTA_DOOR", "REGATTA_TASK", "REGATTA_ATTEMPT", "REGATTA_LANE"];

/// One entry of `agents:` in `regatta.yaml`, with everything resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentProfile {
    /// The entry's name.
    pub name: String,
    /// Its kind.
    pub kind: AgentKind,
    /// Program and leading arguments; empty means the kind's own.
    pub argv: Vec<String>,
    /// The model, unless the task names one.
    pub model: Option<String>,
    /// Arguments appended at the end.
    pub args: Vec<String>,
    /// Variables set for the agent.
    pub env: BTreeMap<String, String>,
    /// What it may do in every task.
    pub bounds: Bounds,
}

impl AgentProfile {
    /// The profile of a configured agent.
    pub fn of(name: &str, agent: &Agent) -> Self {
        let argv = match &agent.exe {
            Some(exe) => vec![exe.clone()],
            None => agent.argv.clone(),
        };
        Self {
            name: name.to_owned(),
            kind: agent.kind,
            argv,
            model: agent.model.clone(),
            args: agent.args.clone(),
            env: agent.env.clone(),
            bounds: agent.bounds.clone(),
        }
    }
}

/// The executable that `program` refers to: itself if it is a path, else the first match on `PATH`.
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

/// Everything about one attempt that is needed to start its agent.
#[derive(Clone, Copy, Debug)]
pub struct Brief<'a> {
    /// The task.
    pub task: &'a TaskId,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// The prompt that the user wrote.
    pub prompt: &'a str,
    /// What went wrong before, with the evidence; `None` for the first attempt.
    pub guidance: Option<&'a str>,
    /// The follow-up that this attempt is for, if any.
    pub follow_up: Option<&'a str>,
    /// The task's model; overrides the profile's.
    pub model: Option<&'a str>,
    /// Maximum cost in dollars, for an agent that can enforce it itself.
    pub max_usd: Option<f64>,
    /// The agent's own sub-persona (`claude --agent`, `codex --profile`, `opencode run --agent`).
    pub persona: Option<&'a str>,
    /// The agent must not change anything.
    pub read_only: bool,
    /// What it may do, and its MCP servers.
    pub bounds: &'a Bounds,
    /// A directory for this attempt alone, for files that the agent reads.
    pub run_dir: &'a Path,
    /// Whether to start or resume a conversation.
    pub session: SessionPlan<'a>,
    /// Whether the agent is asked to report with `regatta done`.
    pub reports: bool,
    /// Whether it gets Regatta's own MCP server, if it supports that and reports.
    pub attach: bool,
    /// Whether a verdict in its last message counts too.
    pub answers: bool,
    /// Whether it runs in Regatta's sandbox and reports through its door; its own sandbox is then off.
    pub door: bool,
    /// Whether only some hosts can be reached.
    pub limited_network: bool,
    /// Whether its work does not land: it may then push its branch and open a pull request.
    pub pull_request: bool,
    /// Whether Regatta, and so the agent, runs as root.
    pub is_root: bool,
    /// Replaces the profile's program (`--claude-exe`).
    pub exe: Option<&'a Path>,
    /// This Regatta's own binary.
    pub regatta: &'a Path,
}

/// The conversation of an attempt, by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionPlan<'a> {
    /// Start it, under this id if the agent accepts one.
    New(&'a str),
    /// Resume it.
    Resume(&'a str),
}

/// Why an agent cannot do the task as ordered, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

impl<'a> Brief<'a> {
    /// The servers to give it. A read-only agent gets none: what they do is unknown.
    pub(super) fn servers(&self) -> impl Iterator<Item = (&'a str, &'a McpServer)> + use<'a> {
        let servers = (!self.read_only).then_some(&self.bounds.mcp);
        servers.into_iter().flatten().map(|(name, server)| (name.as_str(), server))
    }
}

impl Brief<'_> {
    /// The variables that Regatta's own server needs.
    pub(super) fn own_server_vars(&self) -> &'static [&'static str] {
        if self.door { &OWN_SERVER_VARS_INSIDE } else { &OWN_SERVER_VARS }
    }

    /// Whether its sandbox keeps it from changing its lane.
    pub(super) fn cannot_write(&self) -> bool {
        self.read_only || self.bounds.sandbox == Some(Sandbox::ReadOnly)
    }

    /// Whether Regatta's own server is among its servers. A user's server with that name replaces it.
    pub(super) fn is_attached(&self) -> bool {
        self.attach && self.reports && !self.bounds.mcp.contains_key(OWN_SERVER)
    }
}

impl Refusal {
    /// The refusal of an agent that cannot run `regatta done` because of its sandbox.
    pub(super) fn sandbox_cannot_report(agent: &str) -> Self {
        Self(format!(
            "{agent} cannot run `regatta done` in its sandbox; set `verdict_adapter: json-result` or `chain`"
        ))
    }

    /// The refusal of a read-only agent that may run no command, and so not `regatta done`.
    pub(super) fn cannot_report(agent: &str) -> Self {
        Self(format!(
            "{agent} cannot run `regatta done` in a read-only task; set `verdict_adapter: json-result` or `chain`"
        ))
    }
}

/// Arguments with one meaning, in all spellings.
pub(super) struct Flags {
    /// Arguments without a value.
    pub(super) alone: &'static [&'static str],
    /// Arguments with a value: `--flag value`, `--flag=value`, and `-fvalue` for short ones.
    pub(super) valued: &'static [&'static str],
}

impl Flags {
    pub(super) fn any_in(&self, args: &[String]) -> bool {
        args.iter().any(|arg| self.alone.contains(&arg.as_str()) || self.is_valued(arg).is_some())
    }

    /// `args` without these arguments.
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

/// The position of a flag's value.
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
    /// Written before the start, readable only by the owner.
    pub files: Vec<(PathBuf, String)>,
    /// Set after `env_remove` was applied.
    pub env_set: Vec<(String, String)>,
    /// Removed from the inherited environment.
    pub env_remove: Vec<String>,
}

impl Invocation {
    /// Builds the environment: `defaults`, then the profile's variables.
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

/// The prompt, followed by the follow-up and by what the last attempt ran into.
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

/// What the last attempt ran into, under a heading unless it has its own.
pub(super) fn headed(guidance: &str) -> String {
    let guidance = guidance.trim();
    let heading = if guidance.starts_with("## ") { "" } else { "## The attempt before this one\n\n" };
    format!("\n\n{heading}{guidance}")
}

/// For programs that execute the prompt: the follow-up is appended, since it comes from the same author.
pub(super) fn prompt_as_code(brief: &Brief<'_>) -> String {
    match brief.follow_up {
        None => brief.prompt.to_owned(),
        Some(follow_up) => format!("{}\n{follow_up}\n", brief.prompt.trim_end()),
    }
}
