//! The configuration as values, with every default filled in.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

use crate::bounds::Bounds;
use crate::budget::{Ceiling, Price, Shares};
use crate::node::Requirement;
use crate::repos::RepoConfig;
use crate::sandbox::SandboxSettings;
use crate::train::Strategy;
use crate::verdict::VerdictAdapter;

use super::duration::format_duration;
use super::node_file::NodeSettings;
use super::notify::Notify;
use super::profiles::Profile;
use super::roles::{Chain, Roles};

/// The settings of one repository: flag over environment over file over default.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Config {
    /// The version of the file's format.
    pub version: u32,
    /// The branch that work lands on; if unset, the first run decides.
    pub target: Option<String>,
    /// Where tasks and events are kept.
    pub store: String,
    /// The repository through which machines share work; `none` for none, unset for the default of the store.
    pub hub: Option<String>,
    /// How often unfinished work is saved at the hub.
    #[serde(serialize_with = "as_text")]
    pub hub_checkpoint: Option<Duration>,
    /// How long finished work waits for the hub.
    #[serde(serialize_with = "as_text")]
    pub hub_patience: Option<Duration>,
    /// Directory of the lanes, with `{repo}` not yet replaced.
    pub lanes_root: String,
    /// Maximum number of attempts that run at once.
    pub max_workers: u32,
    /// The agents, including the built-in ones.
    pub agents: BTreeMap<String, Agent>,
    /// The agent for tasks that name none.
    pub default_agent: String,
    /// Defaults for tasks.
    pub defaults: Defaults,
    /// How a lane is prepared.
    pub lane: Lane,
    /// How work reaches the target branch.
    pub land: Land,
    /// The repositories of the project, if it has several.
    pub repos: Vec<RepoConfig>,
    /// How work that would conflict is found.
    pub radar: Radar,
    /// Signs that a running agent may need a user.
    pub watch: WatchSettings,
    /// Regatta's own MCP server for its agents.
    pub mcp: Mcp,
    /// What agents and commands can reach.
    pub sandbox: SandboxSettings,
    /// What may run at once.
    pub limits: Limits,
    /// What agents may spend.
    pub budget: Budget,
    /// Accounts to rotate through.
    pub profiles: Vec<Profile>,
    /// The profiles of the file, among which a flag or a variable may have chosen.
    #[serde(skip)]
    pub(crate) declared_profiles: Vec<Profile>,
    /// Which models are used for what.
    pub models: Models,
    /// The agents that plan and do each link of a chain.
    pub roles: Roles,
    /// What happens when a link asks for changes.
    pub chain: Chain,
    /// Where notifications go.
    pub notify: Vec<Notify>,
    /// The settings of this machine, from `node.yaml`.
    #[serde(skip)]
    pub node: NodeSettings,
    /// The origin of each value that differs from its default, by dotted path.
    #[serde(skip)]
    pub(crate) origins: BTreeMap<String, Origin>,
}

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The command line.
    Flag,
    /// The environment.
    Env,
    /// `regatta.yaml`.
    File,
    /// `node.yaml`.
    Node,
    /// It was not set.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Origin::Flag => "flag",
            Origin::Env => "env",
            Origin::File => "file",
            Origin::Node => "node",
            Origin::Default => "default",
        })
    }
}

/// An agent: a program that does the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Agent {
    /// How Regatta talks to it.
    pub kind: AgentKind,
    /// Program and arguments of a command agent.
    pub argv: Vec<String>,
    /// The program of a known kind, if it is not the usual one.
    pub exe: Option<String>,
    /// The model, if it has a choice.
    pub model: Option<String>,
    /// Arguments in addition to Regatta's own.
    pub args: Vec<String>,
    /// Its environment variables.
    pub env: BTreeMap<String, String>,
    /// What it may do in every task.
    #[serde(flatten)]
    pub bounds: Bounds,
    /// Models by label, if it has its own names for them.
    pub labels: Option<BTreeMap<String, String>>,
    /// Its own ladder of models.
    pub escalation: Option<Vec<String>>,
    /// Whether follow-ups become the standard input of a command agent; for a shell, that is a script.
    pub follow_ups: bool,
}

/// How Regatta talks to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentKind {
    /// Claude Code, by its JSON stream.
    Claude,
    /// Codex, by its JSON events.
    Codex,
    /// Gemini CLI, by its JSON stream.
    Gemini,
    /// opencode, by its JSON events.
    Opencode,
    /// Any program; the prompt arrives on its standard input.
    Command,
    /// The simulated agent, for demonstrations and tests.
    Sim,
}

impl AgentKind {
    /// All kinds that `regatta.yaml` may name.
    pub const ALL: [AgentKind; 6] = [
        AgentKind::Claude,
        AgentKind::Codex,
        AgentKind::Gemini,
        AgentKind::Opencode,
        AgentKind::Command,
        AgentKind::Sim,
    ];

    /// Whether it talks to a model in a conversation of its own.
    pub fn has_model(self) -> bool {
        matches!(self, AgentKind::Claude | AgentKind::Codex | AgentKind::Gemini | AgentKind::Opencode)
    }

    /// The program of a kind that has its own.
    pub fn program(self) -> Option<&'static str> {
        match self {
            AgentKind::Claude => Some("claude"),
            AgentKind::Codex => Some("codex"),
            AgentKind::Gemini => Some("gemini"),
            AgentKind::Opencode => Some("opencode"),
            AgentKind::Command | AgentKind::Sim => None,
        }
    }

    /// How to get that program.
    pub fn install(self) -> Option<&'static str> {
        match self {
            AgentKind::Claude => Some("npm install -g @anthropic-ai/claude-code"),
            AgentKind::Codex => Some("npm install -g @openai/codex"),
            AgentKind::Gemini => Some("npm install -g @google/gemini-cli"),
            AgentKind::Opencode => Some("npm install -g opencode-ai"),
            AgentKind::Command | AgentKind::Sim => None,
        }
    }

    /// Where its verdict is read from by default.
    pub fn verdict_adapter(self) -> VerdictAdapter {
        match self {
            AgentKind::Claude | AgentKind::Codex | AgentKind::Gemini | AgentKind::Opencode => {
                VerdictAdapter::Chain
            }
            AgentKind::Command | AgentKind::Sim => VerdictAdapter::ExitCode,
        }
    }

    /// Its name in `regatta.yaml`.
    pub fn as_str(self) -> &'static str {
        match self {
            AgentKind::Claude => "claude",
            AgentKind::Codex => "codex",
            AgentKind::Gemini => "gemini",
            AgentKind::Opencode => "opencode",
            AgentKind::Command => "command",
            AgentKind::Sim => "sim",
        }
    }
}

impl Agent {
    /// The program to start; `None` for the simulated agent, which is Regatta itself.
    pub fn program(&self) -> Option<&str> {
        let named = self.exe.as_deref().or(self.argv.first().map(String::as_str)).or(self.kind.program());
        match self.kind {
            AgentKind::Sim => None,
            _ => Some(named.unwrap_or_default()),
        }
    }

    /// An agent of `kind` with default settings.
    pub fn of_kind(kind: AgentKind) -> Self {
        Self {
            kind,
            argv: Vec::new(),
            exe: None,
            model: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            bounds: Bounds::default(),
            labels: None,
            escalation: None,
            follow_ups: false,
        }
    }

    /// The agents that exist without any configuration.
    pub fn built_in() -> BTreeMap<String, Agent> {
        let sh = Agent { argv: vec!["sh".into()], ..Agent::of_kind(AgentKind::Command) };
        let known = AgentKind::ALL.into_iter().filter(|kind| *kind != AgentKind::Command);
        let named = known.map(|kind| (kind.as_str().to_owned(), Agent::of_kind(kind)));
        named.chain([("sh".to_owned(), sh)]).collect()
    }
}

/// Defaults for tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Defaults {
    /// Maximum number of work failures.
    pub max_attempts: u32,
    /// From start to end of one attempt.
    #[serde(serialize_with = "as_text")]
    pub timeout: Option<Duration>,
    /// From start to the first output.
    #[serde(serialize_with = "as_text")]
    pub first_output_timeout: Option<Duration>,
    /// Silence while no tool is running.
    #[serde(serialize_with = "as_text")]
    pub idle_timeout: Option<Duration>,
    /// Whether Regatta commits the changes that the agent left uncommitted.
    pub auto_commit: bool,
    /// Where the verdict is read from; unset, by the agent's kind.
    pub verdict_adapter: Option<VerdictAdapter>,
    /// Commands run on the committed work.
    pub checks: Vec<String>,
    /// Environment variables for the agent.
    pub env: BTreeMap<String, String>,
    /// What tasks require of a node.
    pub requires: Vec<Requirement>,
    /// What the agent may do.
    #[serde(flatten)]
    pub bounds: Bounds,
}

/// How a lane is prepared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lane {
    /// Untracked files to copy in.
    pub include: Vec<String>,
    /// Untracked paths to link in.
    pub link: Vec<String>,
    /// Command to run in a new lane.
    pub setup: Option<String>,
    /// The time limit of that command.
    #[serde(serialize_with = "as_text")]
    pub setup_timeout: Option<Duration>,
    /// Files that the result of that command depends on.
    pub setup_inputs: Vec<String>,
    /// Ignored directories that are kept when a lane is reused.
    pub build_dirs: Vec<String>,
    /// Maximum number of lanes kept for reuse; unset, as many as `max_workers`.
    pub pool: Option<u32>,
    /// Maximum number of kept lanes of settled tasks.
    pub max_kept: Option<u32>,
    /// Which lanes are kept when their task is settled.
    pub keep: Keep,
}

/// Which lanes are kept when their task is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// No lanes.
    Never,
    /// Lanes of tasks that neither landed nor are done.
    Failed,
    /// All lanes.
    Always,
}

/// How a landing at the hub is protected from a lander that was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LandFence {
    /// One push moves the target and the fence.
    Atomic,
    /// Two pushes do where the hub has no atomic ones.
    BestEffort,
}

/// How work reaches the target branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Land {
    /// Whether passing work lands if its task does not decide. Unset: `run` lands, the daemon does not.
    pub auto: Option<bool>,
    /// How commits reach the target branch.
    pub strategy: Strategy,
    /// Command that must succeed on exactly the commit that lands.
    pub test_command: Option<String>,
    /// The time limit of that command.
    #[serde(serialize_with = "as_text")]
    pub test_timeout: Option<Duration>,
    /// Maximum number of candidates tested at once.
    pub parallel: u32,
    /// Whether the target moves at the remote first, then here.
    pub push: bool,
    /// What a landing at the hub requires.
    pub fence: LandFence,
    /// How often a failing gate is run again before the failure counts.
    pub retries: u32,
    /// How often conflicting work goes back to its agent. Unset: once, if the agent can resume its session.
    pub bounces: Option<u32>,
    /// More files that only a person lands, as paths or globs.
    pub guard: Vec<String>,
}

/// How conflicting work is found while agents are still running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Radar {
    /// Whether runs and the daemon scan.
    pub enabled: bool,
    /// How often lanes are scanned while two or more agents are running.
    #[serde(serialize_with = "as_text")]
    pub interval: Option<Duration>,
    /// Whether agents are informed of conflicts with their work.
    pub tell: bool,
}

/// Regatta's own MCP server for its agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mcp {
    /// Whether agents that support it get the server.
    pub attach: bool,
}

impl Default for Mcp {
    fn default() -> Self {
        Self { attach: true }
    }
}

/// Signs that a running agent may need a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WatchSettings {
    /// Whether running agents are watched.
    pub enabled: bool,
    /// Warn after this many identical calls in a row with the same answer; 0 turns the warning off.
    pub same_command: u32,
    /// Warn after this much silence while no tool is running.
    #[serde(serialize_with = "as_text")]
    pub silence: Option<Duration>,
    /// Warn after a tool has been running for this long.
    #[serde(serialize_with = "as_text")]
    pub tool: Option<Duration>,
    /// Warn after this many turns in a row without a changed file; 0 turns the warning off.
    pub turns_without_change: u32,
    /// Warn after this many refused calls; 0 turns the warning off.
    pub denials: u32,
}

/// What may run at once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// Maximum number of running tasks of each group.
    pub groups: BTreeMap<String, u32>,
    /// Maximum number of running attempts on all nodes together.
    pub workers_total: Option<u32>,
    /// Minimum pause between two starts.
    #[serde(serialize_with = "as_text")]
    pub stagger: Option<Duration>,
    /// Start nothing while less memory than this is available.
    pub min_free_memory_gb: Option<f64>,
    /// Start nothing while the load of the last minute is above this.
    pub max_load: Option<f64>,
    /// Start nothing while less disk than this is free where lanes are created.
    pub min_free_disk_gb: Option<f64>,
    /// Maximum size of each log of an attempt.
    pub max_log_mb: u32,
    /// The ceiling for all attempts together: of a run, or of the daemon in one day.
    pub budget_usd: Option<f64>,
}

impl Limits {
    /// Maximum size of each log of an attempt, in bytes.
    pub fn log_bytes(&self) -> u64 {
        u64::from(self.max_log_mb) << 20
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            groups: BTreeMap::new(),
            workers_total: None,
            stagger: None,
            min_free_memory_gb: None,
            max_load: None,
            min_free_disk_gb: None,
            max_log_mb: 256,
            budget_usd: None,
        }
    }
}

/// What agents may spend.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Budget {
    /// All attempts of one task.
    pub task: Ceiling,
    /// All tasks of one plan.
    pub plan: Ceiling,
    /// Everything in one day.
    pub day: Ceiling,
    /// The shares of a ceiling at which Regatta acts.
    #[serde(flatten)]
    pub shares: Shares,
}

/// Which models are used for what.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Models {
    /// The model of agents whose entry names none.
    pub default: Option<String>,
    /// The model for tasks with a label.
    pub labels: BTreeMap<String, String>,
    /// The ladder of models, from the cheapest to the best.
    pub escalation: Vec<String>,
    /// Token prices, for agents that do not report dollars.
    pub prices: BTreeMap<String, Price>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            version: 1,
            target: None,
            store: "sqlite".into(),
            hub: None,
            hub_checkpoint: Some(Duration::from_secs(5 * 60)),
            hub_patience: None,
            lanes_root: "../{repo}.lanes".into(),
            max_workers: 4,
            agents: Agent::built_in(),
            default_agent: "claude".into(),
            defaults: Defaults::default(),
            lane: Lane::default(),
            land: Land::default(),
            repos: Vec::new(),
            radar: Radar::default(),
            watch: WatchSettings::default(),
            mcp: Mcp::default(),
            sandbox: SandboxSettings::default(),
            limits: Limits::default(),
            budget: Budget::default(),
            profiles: Vec::new(),
            declared_profiles: Vec::new(),
            models: Models::default(),
            roles: Roles::default(),
            chain: Chain::default(),
            notify: Vec::new(),
            node: NodeSettings::default(),
            origins: BTreeMap::new(),
        }
    }
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            timeout: Some(Duration::from_secs(90 * 60)),
            first_output_timeout: None,
            idle_timeout: Some(Duration::from_secs(15 * 60)),
            auto_commit: true,
            verdict_adapter: None,
            checks: Vec::new(),
            env: BTreeMap::new(),
            requires: Vec::new(),
            bounds: Bounds::default(),
        }
    }
}

impl Default for Lane {
    fn default() -> Self {
        let setup_timeout = Some(Duration::from_secs(10 * 60));
        Self {
            include: Vec::new(),
            link: Vec::new(),
            setup: None,
            setup_timeout,
            setup_inputs: Vec::new(),
            build_dirs: Vec::new(),
            pool: None,
            max_kept: None,
            keep: Keep::Failed,
        }
    }
}

impl Default for Radar {
    fn default() -> Self {
        Self { enabled: true, interval: Some(Duration::from_secs(30)), tell: false }
    }
}

impl Default for WatchSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            same_command: 3,
            silence: Some(Duration::from_secs(5 * 60)),
            tool: Some(Duration::from_secs(30 * 60)),
            turns_without_change: 30,
            denials: 3,
        }
    }
}

impl Default for Land {
    fn default() -> Self {
        Self {
            auto: None,
            strategy: Strategy::Rebase,
            test_command: None,
            test_timeout: Some(Duration::from_secs(30 * 60)),
            parallel: 4,
            push: false,
            fence: LandFence::Atomic,
            retries: 0,
            bounces: None,
            guard: Vec::new(),
        }
    }
}

fn as_text<S: Serializer>(span: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format_duration(*span))
}
