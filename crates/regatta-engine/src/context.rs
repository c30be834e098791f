//! What every part of a running engine needs at hand. Made once, shared, never changed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use regatta_core::attempt::Attempt;
use regatta_core::config::{Config, Profile, Sink};
use regatta_core::failure::Backoff;
use regatta_core::id::TaskId;
use regatta_core::spec::TaskSpec;
use regatta_core::state::TaskState;
use regatta_store::{Claim, SessionId, Store, StoreError};

use crate::agents::{self, AgentProfile, Kind};
use crate::engine::EngineError;
use crate::environment::Environment;
use crate::git::{GitError, Repo, TrustSnapshot, Work, replace_link};
use crate::landing::train::Memory as TrainMemory;
use crate::lanes::{Includes, Lane, Lanes, PoolOptions, RetireMode, Retired};
use crate::notice::{Notice, Notices};
use crate::persist::until_answered;
use crate::process::Supervisor;
use crate::profiles::{self, last_begun};
use crate::redact::Redactor;
use crate::trust::{self, Purpose, TrustError};
use crate::worker::WorkerError;

/// Where agents keep their definitions, beside the checkout's root and a task's own directory.
const PERSONAS: [&str; 5] =
    [".claude/agents", ".claude/skills", ".claude/commands", ".claude/docs", ".claude/settings.local.json"];

/// What the person who started this run wanted.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Start nothing more after the first failure.
    pub fail_fast: bool,
    /// Goes on with what an earlier run left.
    pub resume: bool,
    /// Whether it starts something new, or goes on with agents that may have changed git's settings.
    pub trust: Purpose,
    /// Does over what an earlier run has done, and ends what one has left at work.
    pub again: bool,
    /// Keep lanes of settled tasks.
    pub keep_lanes: bool,
    /// Where logs go instead of the state directory.
    pub log_dir: Option<PathBuf>,
    /// Throw the log of a good attempt away.
    pub no_log: bool,
    /// The program to run for agents of kind claude.
    pub claude_exe: Option<PathBuf>,
    /// How long an agent may take to end by itself after it was asked to.
    pub grace: Duration,
}

/// What outlives the settings: a daemon that reads them again goes on with it.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Of its landings.
    train: Arc<TrainMemory>,
    /// Held while an account is chosen.
    choosing: Arc<tokio::sync::Mutex<()>>,
    /// Lanes of settled tasks that could not be taken away when it was time.
    lanes_to_retire: Arc<Mutex<BTreeSet<TaskId>>>,
}

/// What a context is put together from.
pub struct Assembly {
    /// The repository.
    pub repo: Repo,
    /// Where lanes go.
    pub lanes_root: PathBuf,
    /// The store.
    pub store: Arc<dyn Store>,
    /// Its address.
    pub store_url: String,
    /// The session to be opened in it.
    pub session: SessionId,
    /// The settings.
    pub config: Config,
    /// What was asked on the command line.
    pub options: RunOptions,
    /// The branch work lands on.
    pub target: String,
    /// This program.
    pub regatta_exe: PathBuf,
    /// The environment of this process.
    pub inherited: Vec<(OsString, OsString)>,
    /// Who watches.
    pub notices: Notices,
    /// What went before, where the settings are read again.
    pub memory: Memory,
}

/// A setup that has to run.
pub(crate) struct DueSetup {
    /// The command.
    pub(crate) command: String,
    /// What stands for it and all it depends on; `None` where nobody can tell.
    key: Option<String>,
}

/// The shared parts.
pub struct Context {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Its address, as workers are told it.
    pub store_url: String,
    /// This engine's session in it.
    pub session: SessionId,
    /// The settings.
    pub config: Config,
    /// What was asked on the command line.
    pub options: RunOptions,
    /// The branch work lands on.
    pub target: String,
    /// `.regatta`.
    pub state_dir: PathBuf,
    /// The user's checkout, from which files are brought into lanes.
    pub checkout: PathBuf,
    /// The repository.
    pub repo: Repo,
    /// Git on content, safe from what agents plant.
    pub work: Work,
    /// The lanes.
    pub lanes: Lanes,
    /// Starts shims.
    pub supervisor: Supervisor,
    /// This program.
    pub regatta_exe: PathBuf,
    /// What agents, checks and hooks inherit.
    pub environment: Environment,
    /// The agents that can be named.
    pub agents: BTreeMap<String, AgentProfile>,
    /// The accounts to rotate through, in the user's order.
    pub profiles: Vec<Profile>,
    /// Held while one of them is chosen.
    pub(crate) choosing: Arc<tokio::sync::Mutex<()>>,
    /// The waits after failures.
    pub backoff: Backoff,
    /// Takes secrets out of what is shown.
    pub redactor: Redactor,
    /// Variables of the settings, which agents may come to see though they are not in their environment.
    secrets: Vec<(String, String)>,
    /// What this run remembers of its landings.
    pub(crate) train: Arc<TrainMemory>,
    /// Lanes of settled tasks that could not be taken away when it was time.
    lanes_to_retire: Arc<Mutex<BTreeSet<TaskId>>>,
    /// Who watches.
    pub notices: Notices,
}

impl Context {
    /// Puts the parts together. Refuses what the user does not trust.
    pub fn assemble(assembly: Assembly) -> Result<Self, EngineError> {
        let (repo, config) = (&assembly.repo, &assembly.config);
        trust::state_dir::make(repo)?;
        trust::state_dir::check_lanes_root(&assembly.lanes_root)?;
        let trust = trust(repo, assembly.options.trust, &assembly.notices)?;
        let work = Work::new(repo, trust);
        let lanes = Lanes::new(repo, &work, &assembly.lanes_root)?.with_pool(pool_options(config));
        if let Some(told) = lanes.follow_project()? {
            assembly.notices.tell(Notice::Say(told));
        }
        let bin = repo.state_dir.join("bin");
        link_self(&bin, &assembly.regatta_exe)?;
        let environment = Environment::passed_on(assembly.inherited, &bin);
        let agents: BTreeMap<String, AgentProfile> =
            config.agents.iter().map(|(name, agent)| (name.clone(), AgentProfile::of(name, agent))).collect();
        let profiles = profiles::resolved(&config.profiles, &environment);
        let secrets = config_secrets(config);
        let inherited = environment.texts().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let redactor = Redactor::new(inherited.chain(secrets.clone()).collect::<Vec<_>>());
        Ok(Self {
            store: assembly.store,
            store_url: assembly.store_url,
            session: assembly.session,
            options: assembly.options,
            target: assembly.target,
            state_dir: assembly.repo.state_dir.clone(),
            checkout: assembly.repo.toplevel.clone(),
            repo: assembly.repo,
            work,
            lanes,
            supervisor: Supervisor::new(&assembly.regatta_exe),
            regatta_exe: assembly.regatta_exe,
            environment,
            agents,
            profiles,
            choosing: assembly.memory.choosing,
            backoff: Backoff::default(),
            redactor,
            secrets,
            train: assembly.memory.train,
            lanes_to_retire: assembly.memory.lanes_to_retire,
            notices: assembly.notices,
            config: assembly.config,
        })
    }

    /// What outlives these settings.
    pub fn memory(&self) -> Memory {
        let (train, choosing) = (self.train.clone(), self.choosing.clone());
        Memory { train, choosing, lanes_to_retire: self.lanes_to_retire.clone() }
    }

    /// Tells whoever watches; nobody may be watching any more.
    pub fn tell(&self, notice: Notice) {
        self.notices.tell(notice);
    }

    /// A sentence for the person at the terminal.
    pub fn say(&self, text: String) {
        self.tell(Notice::Say(self.redact(&text)));
    }

    /// `text` without secrets.
    pub fn redact(&self, text: &str) -> String {
        self.redactor.redact(text).into_owned()
    }

    /// Variables whose values whoever works in this task's lane may print: those of the settings, and of the `.env`
    /// files that were brought in.
    pub(crate) fn secrets_in_lane(&self, task: &TaskId) -> Vec<(String, String)> {
        let mut secrets = self.secrets.clone();
        secrets.extend(self.lanes.brought_in_variables(task));
        secrets
    }

    /// The agent of that name.
    pub fn agent(&self, name: &str) -> Result<&AgentProfile, WorkerError> {
        self.agents
            .get(name)
            .ok_or_else(|| WorkerError::Impossible(format!("there is no agent {name:?} in regatta.yaml")))
    }

    /// Where the shim of an attempt keeps its records.
    pub fn run_dir(&self, task: &TaskId, attempt: u32) -> PathBuf {
        self.state_dir.join("runs").join(task.as_str()).join(attempt.to_string())
    }

    /// Where the output of an attempt goes.
    pub fn log_file(&self, task: &TaskId, attempt: u32) -> PathBuf {
        let base = self.options.log_dir.clone().unwrap_or_else(|| self.state_dir.join("logs"));
        base.join(task.as_str()).join(format!("{attempt}.jsonl"))
    }

    /// The marker in the environment of everything an attempt starts.
    pub fn run_id(&self, claim: &Claim) -> String {
        format!("{}.{}.{}", claim.task, claim.attempt, claim.session)
    }

    /// The lock of a task's lane: held by whatever tree works for it. In the git directory, which nobody deletes.
    pub fn hold_of(&self, task: &TaskId) -> PathBuf {
        self.repo.common_dir.join("regatta").join("lanes").join(format!("{}.hold", task.folded()))
    }

    /// The variables by which a worker finds its way back, and those that rookery's tasks expect.
    pub fn worker_variables(&self, environment: &mut Environment, claim: &Claim, lane: &Path, token: &str) {
        let attempt = claim.attempt.to_string();
        let database = self.store_url.strip_prefix("sqlite:").unwrap_or(&self.store_url);
        let pairs: [(&str, &OsStr); 9] = [
            ("REGATTA_STORE", OsStr::new(&self.store_url)),
            ("REGATTA_TASK", OsStr::new(claim.task.as_str())),
            ("REGATTA_ATTEMPT", OsStr::new(&attempt)),
            ("REGATTA_TOKEN", OsStr::new(token)),
            ("REGATTA_LANE", lane.as_os_str()),
            ("ROOKERY_DB", OsStr::new(database)),
            ("ROOKERY_PARCEL_ID", OsStr::new(claim.task.as_str())),
            ("ROOKERY_PARCEL_ATTEMPT", OsStr::new(&attempt)),
            ("ROOKERY_WORKTREE", lane.as_os_str()),
        ];
        // An address with a password in it is not for agents; they report by files then.
        let has_password = self
            .store_url
            .split_once("://")
            .is_some_and(|(_, rest)| rest.split('/').next().unwrap_or(rest).contains('@'));
        let is_address = |name: &str| matches!(name, "REGATTA_STORE" | "ROOKERY_DB");
        for (name, value) in pairs.into_iter().filter(|(name, _)| !(has_password && is_address(name))) {
            environment.set(name, value);
        }
        // The guard among parallel-orchestra's own hooks asks for it.
        if claim.spec.assets.is_some() && !claim.spec.read_only {
            environment.set("PO_WORKTREE_GUARD", OsStr::new("1"));
        }
    }

    /// The conversation for the next attempt, and whether it exists: the last one of this agent, where it can be gone
    /// on with. Being wrong costs nothing: an agent that does not find it says so, and the next attempt begins anew.
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
            Kind::Claude => {
                let config_dir = self.claude_config_dir(profile, task_env);
                agents::claude::session_file_exists(&config_dir, workdir, session)
            }
            Kind::Codex | Kind::Gemini => true,
            // Gone on with from another directory it hangs.
            Kind::Opencode => attempt.lane.as_deref().is_some_and(|lane| workdir.starts_with(lane)),
            Kind::Command | Kind::Sim => false,
        };
        if goes_on { (session.clone(), true) } else { (fresh_uuid(), false) }
    }

    fn claude_config_dir(&self, profile: &AgentProfile, task_env: &BTreeMap<String, String>) -> PathBuf {
        self.agent_dir(profile, task_env, "CLAUDE_CONFIG_DIR", ".claude")
    }

    /// The directory that an agent keeps its things in: what the variable names, else below the home directory.
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

/// As many trees are kept as may be in use at once, unless the user says otherwise.
fn pool_options(config: &Config) -> PoolOptions {
    let lane = &config.lane;
    let size = usize::try_from(lane.pool.unwrap_or(config.max_workers)).unwrap_or(usize::MAX);
    let mut options = PoolOptions::new(size, &lane.build_dirs, &lane.setup_inputs);
    options.min_free_disk_gb = config.limits.min_free_disk_gb;
    options
}

/// All variables that the settings have a value for.
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

/// The paths of webhooks, which are passwords; a short one is a word that may stand anywhere.
fn webhook_secrets(config: &Config) -> impl Iterator<Item = (String, String)> {
    let paths = config.notify.iter().filter_map(|row| match &row.sink {
        Sink::Webhook { url, .. } if url.secret().len() >= 16 => Some(url.secret().to_owned()),
        _ => None,
    });
    paths.map(|path| ("WEBHOOK_SECRET".to_owned(), path))
}

/// The git settings to work with. A run that adopts agents goes on with what is trusted, whatever they changed.
fn trust(repo: &Repo, purpose: Purpose, notices: &Notices) -> Result<TrustSnapshot, TrustError> {
    let in_force = trust::git(repo, purpose)?;
    if !in_force.ignored.is_empty() {
        notices.say(format!(
            "warning: git settings or hooks changed since you last trusted them, and are not used: {}; `regatta trust` \
             shows them",
            trust::names(&in_force.ignored)
        ));
    }
    Ok(in_force.snapshot)
}

/// Puts a link named `regatta` into `bin`, so that workers find the program that started them: a worker that looks
/// it up right now finds the old one or the new one. Parcels tell their workers to call `rookery`: that must be this
/// program too, and not one which would take Regatta's store for its own.
fn link_self(bin: &Path, exe: &Path) -> Result<(), EngineError> {
    for name in ["regatta", "rookery"] {
        let link = bin.join(name);
        if std::fs::read_link(&link).is_ok_and(|target| target == exe) {
            continue;
        }
        std::fs::create_dir_all(bin).map_err(|source| EngineError::Io {
            doing: "making",
            path: bin.to_owned(),
            source,
        })?;
        replace_link(&link, exe)?;
    }
    Ok(())
}

/// 64 random hexadecimal digits: an attempt's secret.
pub fn fresh_token() -> String {
    random_bytes::<32>().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The form in which the store keeps a token.
pub fn token_hash(token: &str) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(token.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A random UUID, version 4.
fn fresh_uuid() -> String {
    let mut bytes = random_bytes::<16>();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has random bytes");
    bytes
}

impl Context {
    /// Runs git work off the runtime's own threads.
    pub(crate) async fn blocking<T, F>(self: &Arc<Self>, work: F) -> Result<T, GitError>
    where
        T: Send + 'static,
        F: FnOnce(&Context) -> Result<T, GitError> + Send + 'static,
    {
        let ctx = self.clone();
        tokio::task::spawn_blocking(move || work(&ctx)).await.expect("git work does not panic")
    }

    /// Takes a settled task's lane away, if nothing in it would be lost. A lane that stays is no failure.
    pub(crate) async fn retire(self: Arc<Self>, task: &TaskId, mode: RetireMode) {
        if self.options.keep_lanes {
            return;
        }
        let retired = self.retire_idle(task, mode).await;
        let mut left = self.lanes_to_retire();
        match retired {
            Ok(retired) => {
                left.remove(task);
                if let Retired::Kept(why) = retired {
                    self.say(format!("{task}: its lane stays: {why}"));
                }
            }
            // Said once: it is tried again and again.
            Err(error) if left.insert(task.clone()) => {
                self.say(format!("{task}: its lane stays for now: could not {error}"));
            }
            Err(_) => {}
        }
    }

    /// Lanes that could not be taken away when it was time.
    pub(crate) fn lanes_to_retire(&self) -> MutexGuard<'_, BTreeSet<TaskId>> {
        self.lanes_to_retire.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a task's lane away unless somebody works on the task by now, or is about to. That counts as no lane.
    pub(crate) async fn retire_idle(
        self: &Arc<Self>,
        task: &TaskId,
        mode: RetireMode,
    ) -> Result<Retired, GitError> {
        let id = task.clone();
        let _alone = self.blocking(move |ctx| ctx.lanes.alone(&id)).await?;
        // Since it was settled somebody may have given it back to the queue, and somebody may have taken it.
        let idle = match until_answered(|| self.store.task(task)).await.map(|record| record.state) {
            Ok(TaskState::Landed { .. }) => true,
            Ok(state) => state.is_settled() && mode != RetireMode::Landed,
            Err(StoreError::NotFound(_)) => true,
            Err(_) => false,
        };
        if !idle {
            return Ok(Retired::NoLane);
        }
        let id = task.clone();
        self.blocking(move |ctx| ctx.lanes.retire(&id, mode, crate::clock::now())).await
    }

    /// Brings the user's own files into a lane: `.worktreeinclude`, `lane.include`, `lane.link` and personas.
    /// What the user named and could not be brought is told.
    pub(crate) async fn furnish(
        self: &Arc<Self>,
        lane: &Lane,
        workdir: &Path,
    ) -> Result<Vec<String>, GitError> {
        // Looking for them costs a walk over all that is untracked, so only what is there is looked for.
        let places =
            [Path::new(""), workdir].into_iter().flat_map(|dir| PERSONAS.map(|persona| dir.join(persona)));
        let present = places.filter(|place| self.checkout.join(place).exists());
        let personas: BTreeSet<String> = present.map(|place| place.to_string_lossy().into_owned()).collect();
        let personas: Vec<String> = personas.into_iter().collect();
        let (include, link) = (self.config.lane.include.clone(), self.config.lane.link.clone());
        let lane = lane.clone();
        let brought = self.blocking(move |ctx| {
            let patterns = ctx.lanes.worktree_include()?;
            ctx.lanes.bring_in(&lane, &Includes { patterns, include, link, personas })
        });
        let skipped = brought.await?.skipped;
        Ok(skipped
            .iter()
            .map(|(path, why)| format!("{} was not brought in: {why}", path.display()))
            .collect())
    }

    /// Brings the `.claude` of a project of parallel-orchestra into a lane: the project's own, else the repository's.
    pub(crate) async fn bring_assets(self: &Arc<Self>, lane: &Lane, spec: &TaskSpec) -> Result<(), GitError> {
        let Some(own) = spec.assets.as_ref().map(|own| self.checkout.join(own)) else { return Ok(()) };
        let from = if own.is_dir() { own } else { self.checkout.join(".claude") };
        let lane = lane.clone();
        self.blocking(move |ctx| ctx.lanes.bring_assets(&lane, &from)).await?;
        Ok(())
    }

    /// The lane's setup, where it has to run, and what it would be remembered by.
    pub(crate) async fn setup_due(self: &Arc<Self>, lane: &Lane) -> Result<Option<DueSetup>, GitError> {
        let Some(command) = self.config.lane.setup.clone() else { return Ok(None) };
        let lane = lane.clone();
        self.blocking(move |ctx| {
            let key = ctx.lanes.setup_key(&lane, &command);
            let is_done = key.as_deref().is_some_and(|key| lane.is_set_up(key));
            if let (true, Some(key)) = (is_done, &key) {
                // For the next one who gets this tree.
                ctx.lanes.mark_set_up(&lane, key.clone())?;
            }
            Ok((!is_done).then_some(DueSetup { command, key }))
        })
        .await
    }

    /// Remembers a setup that went well.
    pub(crate) async fn setup_done(self: &Arc<Self>, lane: &Lane, setup: &DueSetup) -> Result<(), GitError> {
        let Some(key) = setup.key.clone() else { return Ok(()) };
        let lane = lane.clone();
        self.blocking(move |ctx| ctx.lanes.mark_set_up(&lane, key)).await
    }

    /// How cars become commits of the target.
    pub(crate) fn strategy(&self) -> regatta_core::train::Strategy {
        strategy(&self.config)
    }
}

/// How cars become commits of the target.
pub fn strategy(config: &Config) -> regatta_core::train::Strategy {
    use regatta_core::config::Strategy as Configured;
    use regatta_core::train::Strategy;
    match config.land.strategy {
        Configured::Rebase => Strategy::Rebase,
        Configured::Squash => Strategy::Squash,
        Configured::Merge => Strategy::Merge,
    }
}
