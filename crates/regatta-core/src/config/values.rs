//! The configuration as values, with every default filled in.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::bounds::Bounds;
use crate::budget::{Ceiling, Price, Shares};
use crate::verdict::VerdictAdapter;

use super::duration::format_duration;
use super::notify::Notify;
use super::profiles::Profile;
use super::roles::{Chain, Roles};

/// What holds for one repository: flag over environment over file over default.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Config {
    /// The version of the file's format.
    pub version: u32,
    /// Branch that work lands on; unset, the first run decides.
    pub target: Option<String>,
    /// Where tasks and events are kept.
    pub store: String,
    /// Directory of the lanes, with `{repo}` still in it.
    pub lanes_root: String,
    /// Attempts that run at once.
    pub max_workers: u32,
    /// The programs that do the work, those built in among them.
    pub agents: BTreeMap<String, Agent>,
    /// The agent of tasks that name none.
    pub default_agent: String,
    /// What holds for tasks that do not say otherwise.
    pub defaults: Defaults,
    /// How a lane is prepared.
    pub lane: Lane,
    /// How work reaches the target branch.
    pub land: Land,
    /// How work that would conflict is found.
    pub radar: Radar,
    /// What makes an agent that runs look as if it needed a person.
    pub watch: Watch,
    /// Regatta's own MCP server for its agents.
    pub mcp: Mcp,
    /// What may happen at once.
    pub limits: Limits,
    /// What agents may use.
    pub budget: Budget,
    /// Accounts to rotate through.
    pub profiles: Vec<Profile>,
    /// Those of the file, among which a flag or a variable may have chosen.
    #[serde(skip)]
    pub(crate) declared_profiles: Vec<Profile>,
    /// Which model does what.
    pub models: Models,
    /// Who plans, and who does which link of a chain.
    pub roles: Roles,
    /// How a chain goes on where a link is not content.
    pub chain: Chain,
    /// Who is told about what.
    pub notify: Vec<Notify>,
    /// Where each value that is no default came from, by dotted path.
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
    /// Nobody said anything.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Origin::Flag => "flag",
            Origin::Env => "env",
            Origin::File => "file",
            Origin::Default => "default",
        })
    }
}

/// A program that does the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Agent {
    /// How it is spoken to.
    pub kind: AgentKind,
    /// Program and arguments of a command.
    pub argv: Vec<String>,
    /// The program of an agent that Regatta knows, where it is not the usual one.
    pub exe: Option<String>,
    /// The model, where it has a choice.
    pub model: Option<String>,
    /// Arguments added to Regatta's own.
    pub args: Vec<String>,
    /// Variables for it.
    pub env: BTreeMap<String, String>,
    /// What it may do in every task.
    #[serde(flatten)]
    pub bounds: Bounds,
    /// The model for tasks with a label, where it has names of its own for them.
    pub labels: Option<BTreeMap<String, String>>,
    /// Its own ladder of models.
    pub escalation: Option<Vec<String>>,
    /// What people send to its tasks becomes the standard input of a command; for a shell that is a script.
    pub follow_ups: bool,
}

/// How an agent is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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
    /// All of them, as `regatta.yaml` may name them.
    pub const ALL: [AgentKind; 6] = [
        AgentKind::Claude,
        AgentKind::Codex,
        AgentKind::Gemini,
        AgentKind::Opencode,
        AgentKind::Command,
        AgentKind::Sim,
    ];

    /// The program of a kind that has one of its own.
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

    /// Where its verdict is read from when nobody says.
    pub fn verdict_adapter(self) -> VerdictAdapter {
        match self {
            AgentKind::Claude | AgentKind::Codex | AgentKind::Gemini | AgentKind::Opencode => {
                VerdictAdapter::Chain
            }
            AgentKind::Command | AgentKind::Sim => VerdictAdapter::ExitCode,
        }
    }

    /// The word for it in `regatta.yaml`.
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
    /// The program it is; `None` for the simulated one, which is Regatta itself.
    pub fn program(&self) -> Option<&str> {
        let named = self.exe.as_deref().or(self.argv.first().map(String::as_str)).or(self.kind.program());
        match self.kind {
            AgentKind::Sim => None,
            _ => Some(named.unwrap_or_default()),
        }
    }

    /// One of `kind` with nothing else said.
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

    /// The agents that are there without any configuration.
    pub fn built_in() -> BTreeMap<String, Agent> {
        let sh = Agent { argv: vec!["sh".into()], ..Agent::of_kind(AgentKind::Command) };
        let known = AgentKind::ALL.into_iter().filter(|kind| *kind != AgentKind::Command);
        let named = known.map(|kind| (kind.as_str().to_owned(), Agent::of_kind(kind)));
        named.chain([("sh".to_owned(), sh)]).collect()
    }
}

/// What holds for tasks that do not say otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Defaults {
    /// Work failures allowed in all.
    pub max_attempts: u32,
    /// From start to end of one attempt.
    #[serde(serialize_with = "as_text")]
    pub timeout: Option<Duration>,
    /// From start to the first output.
    #[serde(serialize_with = "as_text")]
    pub first_output_timeout: Option<Duration>,
    /// Silence while no tool is at work.
    #[serde(serialize_with = "as_text")]
    pub idle_timeout: Option<Duration>,
    /// Whether Regatta commits what the agent left uncommitted.
    pub auto_commit: bool,
    /// Where the verdict is read from; by the agent's kind where nothing is said.
    pub verdict_adapter: Option<VerdictAdapter>,
    /// Commands run on the committed work.
    pub checks: Vec<String>,
    /// Variables for the agent.
    pub env: BTreeMap<String, String>,
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
    /// How long it may take.
    #[serde(serialize_with = "as_text")]
    pub setup_timeout: Option<Duration>,
    /// What the outcome of that command depends on.
    pub setup_inputs: Vec<String>,
    /// Ignored directories that stay when a lane is used again.
    pub build_dirs: Vec<String>,
    /// How many lanes are kept to be used again; as many as there may be workers where nothing is said.
    pub pool: Option<u32>,
    /// How many lanes of settled tasks may stay.
    pub max_kept: Option<u32>,
    /// Which lanes stay when their task is settled.
    pub keep: Keep,
}

/// Which lanes stay when their task is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// None.
    Never,
    /// Those of tasks that neither landed nor are done.
    Failed,
    /// All.
    Always,
}

/// How work reaches the target branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Land {
    /// Whether passing work lands when its task does not say. Unset: `run` lands, the daemon does not.
    pub auto: Option<bool>,
    /// How commits reach the target branch.
    pub strategy: Strategy,
    /// Command that must succeed on exactly the commit that lands.
    pub test_command: Option<String>,
    /// How long it may take.
    #[serde(serialize_with = "as_text")]
    pub test_timeout: Option<Duration>,
    /// Candidates tested side by side.
    pub parallel: u32,
    /// Whether the target moves at the remote first, then here.
    pub push: bool,
    /// How often a gate that fails is run again before it counts.
    pub retries: u32,
    /// How often work that conflicts goes back to its agent. Unset: once, to an agent that can resume its session.
    pub bounces: Option<u32>,
}

/// How commits reach the target branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Each commit on top of the target.
    Rebase,
    /// One commit for the whole task.
    Squash,
    /// A merge commit.
    Merge,
}

/// How work that would conflict is found while agents are still at it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Radar {
    /// Whether runs and the daemon keep looking.
    pub enabled: bool,
    /// How often lanes are looked at while two or more agents are at work.
    #[serde(serialize_with = "as_text")]
    pub interval: Option<Duration>,
    /// Whether agents are told with whose work their own would conflict.
    pub tell: bool,
}

/// Regatta's own MCP server for its agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mcp {
    /// Whether agents that can be given one are.
    pub attach: bool,
}

impl Default for Mcp {
    fn default() -> Self {
        Self { attach: true }
    }
}

/// What makes an agent that runs look as if it needed a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Watch {
    /// Whether agents that run are watched.
    pub enabled: bool,
    /// How often in a row the same call has to get the same answer; 0 is never.
    pub same_command: u32,
    /// For how long nothing has to be heard while no tool is open.
    #[serde(serialize_with = "as_text")]
    pub silence: Option<Duration>,
    /// For how long a tool has to be open.
    #[serde(serialize_with = "as_text")]
    pub tool: Option<Duration>,
    /// How many turns in a row have to change no file; 0 is never.
    pub turns_without_change: u32,
    /// How many calls have to be refused; 0 is never.
    pub denials: u32,
}

/// What may happen at once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// How many tasks of each group may run at once.
    pub groups: BTreeMap<String, u32>,
    /// Pause between two starts. Read, and not yet acted upon.
    #[serde(serialize_with = "as_text")]
    pub stagger: Option<Duration>,
    /// Start nothing while less memory is available.
    pub min_free_memory_gb: Option<f64>,
    /// Start nothing while the load of the last minute is above this.
    pub max_load: Option<f64>,
    /// Start nothing while less disk is free where lanes are made.
    pub min_free_disk_gb: Option<f64>,
    /// How much disk each log of an attempt takes at most.
    pub max_log_mb: u32,
    /// What all attempts together may cost: those of a run, or those of the daemon in one day.
    pub budget_usd: Option<f64>,
}

impl Limits {
    /// How many bytes each log of an attempt takes at most.
    pub fn log_bytes(&self) -> u64 {
        u64::from(self.max_log_mb) << 20
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            groups: BTreeMap::new(),
            stagger: None,
            min_free_memory_gb: None,
            max_load: None,
            min_free_disk_gb: None,
            max_log_mb: 256,
            budget_usd: None,
        }
    }
}

/// What agents may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Budget {
    /// All attempts of one task.
    pub task: Ceiling,
    /// All tasks of one plan.
    pub plan: Ceiling,
    /// Everything in one day.
    pub day: Ceiling,
    /// From which shares on something is done.
    #[serde(flatten)]
    pub shares: Shares,
}

/// Which model does what.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Models {
    /// The model of agents whose entry names none.
    pub default: Option<String>,
    /// The model for tasks with a label.
    pub labels: BTreeMap<String, String>,
    /// From the cheapest to the best.
    pub escalation: Vec<String>,
    /// What tokens cost, for agents that do not count dollars.
    pub prices: BTreeMap<String, Price>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            version: 1,
            target: None,
            store: "sqlite".into(),
            lanes_root: "../{repo}.lanes".into(),
            max_workers: 4,
            agents: Agent::built_in(),
            default_agent: "claude".into(),
            defaults: Defaults::default(),
            lane: Lane::default(),
            land: Land::default(),
            radar: Radar::default(),
            watch: Watch::default(),
            mcp: Mcp::default(),
            limits: Limits::default(),
            budget: Budget::default(),
            profiles: Vec::new(),
            declared_profiles: Vec::new(),
            models: Models::default(),
            roles: Roles::default(),
            chain: Chain::default(),
            notify: Vec::new(),
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

impl Default for Watch {
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
            retries: 0,
            bounces: None,
        }
    }
}

fn as_text<S: Serializer>(span: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format_duration(*span))
}
