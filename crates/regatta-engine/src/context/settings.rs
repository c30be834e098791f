//! What the user decides: the configuration, the options of the command line, and what follows from both.
//! A reload replaces it as a whole.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use regatta_core::attempt::Attempt;
use regatta_core::config::{AgentKind, Config, Sink};
use regatta_core::failure::Backoff;
use regatta_core::repos::Graph;
use sha2::{Digest, Sha256};

use super::yards::OtherRepository;
use crate::agents::{self, AgentProfile};
use crate::environment::Environment;
use crate::lanes::PoolOptions;
use crate::profiles::{self, last_begun};
use crate::redact::Redactor;
use crate::tokens::fresh_uuid;
use crate::trust::Purpose;
use crate::worker::WorkerError;

/// The options of the user who started this run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Start nothing more after the first failure.
    pub fail_fast: bool,
    /// Continue what an earlier run left.
    pub resume: bool,
    /// Whether it starts something new, or continues with agents that may have changed git's settings.
    pub trust: Purpose,
    /// Repeat what an earlier run has done, and end what one has left running.
    pub again: bool,
    /// Keep lanes of settled tasks.
    pub keep_lanes: bool,
    /// The directory for logs, instead of the state directory.
    pub log_dir: Option<PathBuf>,
    /// Delete the log of a good attempt.
    pub no_log: bool,
    /// The program to run for agents of kind claude.
    pub claude_exe: Option<PathBuf>,
    /// How long an agent may take to end by itself after it was asked to.
    pub grace: Duration,
}

/// The source of settings: at the start, and again for each reload.
pub struct SettingsInput {
    /// The configuration of the project.
    pub config: Config,
    /// The options of the command line.
    pub options: RunOptions,
    /// The environment of this process.
    pub inherited: Vec<(OsString, OsString)>,
    /// The directory for lanes.
    pub lanes_root: PathBuf,
    /// The other repositories of the project.
    pub others: Vec<OtherRepository>,
    /// Which repository builds on which.
    pub graph: Graph,
    /// The configuration file.
    pub file: SettingsFile,
}

/// A configuration file, as far as it is compared with the one at the hub's target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsFile {
    /// Its name at the root of the repository.
    pub name: String,
    /// The digest of what it says; `None` if there is none.
    pub digest: Option<String>,
}

impl SettingsFile {
    /// The digest of a text, whatever ends its lines: a short one, for people to compare.
    pub fn digest(text: &[u8]) -> String {
        let text: Vec<u8> = text.iter().copied().filter(|byte| *byte != b'\r').collect();
        let mut digest = regatta_core::hex::hex(&Sha256::digest(&text));
        digest.truncate(12);
        digest
    }
}

/// The settings in force.
pub struct Settings {
    /// The configuration of the project.
    pub config: Config,
    /// The options of the command line.
    pub options: RunOptions,
    /// The file that the configuration came from.
    pub file: SettingsFile,
    /// What agents, checks and hooks inherit.
    pub environment: Environment,
    /// The agents that can be named.
    pub agents: BTreeMap<String, AgentProfile>,
    /// The accounts to rotate through, in the user's order.
    pub profiles: Vec<regatta_core::config::Profile>,
    /// The waits after failures.
    pub backoff: Backoff,
    /// Masks secrets in what is shown.
    pub redactor: Redactor,
    /// Variables of the settings that agents may see although they are not in their environment.
    pub(super) secrets: Vec<(String, String)>,
}

impl Settings {
    /// Agents find `regatta` in the directory `bin`.
    pub(super) fn new(
        config: Config,
        options: RunOptions,
        inherited: Vec<(OsString, OsString)>,
        file: SettingsFile,
        bin: &Path,
    ) -> Self {
        let environment = Environment::passed_on(inherited, bin);
        let agents =
            config.agents.iter().map(|(name, agent)| (name.clone(), AgentProfile::of(name, agent))).collect();
        let profiles = profiles::resolved(&config.profiles, &environment);
        let secrets = config_secrets(&config);
        let inherited = environment.texts().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let redactor = Redactor::new(inherited.chain(secrets.clone()).collect::<Vec<_>>());
        Self {
            config,
            options,
            file,
            environment,
            agents,
            profiles,
            backoff: Backoff::default(),
            redactor,
            secrets,
        }
    }

    /// `text` without secrets.
    pub fn redact(&self, text: &str) -> String {
        self.redactor.redact(text).into_owned()
    }

    /// The agent with this name.
    pub fn agent(&self, name: &str) -> Result<&AgentProfile, WorkerError> {
        self.agents
            .get(name)
            .ok_or_else(|| WorkerError::Impossible(format!("agent {name:?} is not in regatta.yaml")))
    }

    /// The conversation for the next attempt, and whether it exists: the last one of this agent, if the agent can
    /// continue it. A wrong answer is harmless: an agent that does not find the conversation reports it, and the next
    /// attempt starts a new one.
    pub fn conversation(
        &self,
        profile: &AgentProfile,
        workdir: &Path,
        history: &[Attempt],
        task_env: &BTreeMap<String, String>,
    ) -> (String, bool) {
        let last = last_begun(history, &profile.name).filter(|attempt| !attempt.conversation_over);
        let session = last.and_then(|attempt| attempt.session.as_ref().map(|session| (attempt, session)));
        let Some((attempt, session)) = session.filter(|(_, session)| agents::is_session_id(session)) else {
            return (fresh_uuid(), false);
        };
        let goes_on = match profile.kind {
            AgentKind::Claude => {
                let config_dir = self.agent_dir(profile, task_env, "CLAUDE_CONFIG_DIR", ".claude");
                agents::claude::session_file_exists(&config_dir, workdir, session)
            }
            AgentKind::Codex | AgentKind::Gemini => true,
            // Resumed from another directory it hangs.
            AgentKind::Opencode => attempt.lane.as_deref().is_some_and(|lane| workdir.starts_with(lane)),
            AgentKind::Command | AgentKind::Sim => false,
        };
        if goes_on { (session.clone(), true) } else { (fresh_uuid(), false) }
    }

    /// The directory in which an agent keeps its data: from the variable, else below the home directory.
    pub(crate) fn agent_dir(
        &self,
        profile: &AgentProfile,
        task_env: &BTreeMap<String, String>,
        variable: &str,
        usual: &str,
    ) -> PathBuf {
        let named = task_env.get(variable).or_else(|| profile.env.get(variable));
        let named = named.map(PathBuf::from).or_else(|| self.environment.value(variable).map(PathBuf::from));
        named.unwrap_or_else(|| {
            Path::new(self.environment.value("HOME").unwrap_or(OsStr::new("/"))).join(usual)
        })
    }
}

/// By default the pool keeps as many trees as may be in use at once.
pub(super) fn pool_options(config: &Config) -> PoolOptions {
    let lane = &config.lane;
    let size = usize::try_from(lane.pool.unwrap_or(config.max_workers)).unwrap_or(usize::MAX);
    let mut options = PoolOptions::new(size, &lane.build_dirs, &lane.setup_inputs);
    options.min_free_disk_gb = config.limits.min_free_disk_gb;
    options
}

/// All variables with a value in the settings.
pub fn config_secrets(config: &Config) -> Vec<(String, String)> {
    let agents = config.agents.values().flat_map(|agent| agent.env.clone());
    let profiles = config.profiles.iter().flat_map(|profile| profile.env.clone());
    let bounds = config.agents.values().map(|agent| &agent.bounds).chain([&config.defaults.bounds]);
    let servers = bounds.flat_map(|bounds| bounds.mcp.values()).flat_map(|server| server.variables().clone());
    agents
        .chain(profiles)
        .chain(servers)
        .chain(config.defaults.env.clone())
        .chain(webhook_secrets(config))
        .collect()
}

/// The paths of webhooks, which act as passwords; a short one is left out, since it may occur anywhere.
fn webhook_secrets(config: &Config) -> impl Iterator<Item = (String, String)> {
    let paths = config.notify.iter().filter_map(|row| match &row.sink {
        Sink::Webhook { url, .. } if url.secret().len() >= 16 => Some(url.secret().to_owned()),
        _ => None,
    });
    paths.map(|path| ("WEBHOOK_SECRET".to_owned(), path))
}
