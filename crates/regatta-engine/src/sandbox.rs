//! What agents and commands may reach on this machine: the rules of `core::sandbox`, filled with facts from the disk.
//!
//! Everything that an agent causes to run gets a box: a directory of its own for temporary files, the door and a copy of
//! the home directory. It is removed at the end.
//!
//! Invariant: if the settings ask for a sandbox, nothing starts without one. What cannot be confined as asked is
//! refused with the reason.

mod boxes;
mod disk;
mod inside;
mod network;
mod protected;
mod trial;
mod view;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use regatta_core::bounds::Sandbox;
use regatta_core::config::AgentKind;
use regatta_core::sandbox::hosts::{ProxyRules, proxy_variables};
use regatta_core::sandbox::settings::{Caches, Mode, Network};
use regatta_core::sandbox::{
    AgentState, BoxDirs, Choice, Confinement, Facts, Level, Machine, Policy, Refusal, SandboxSettings,
    choose, policy, state,
};
use regatta_core::spec::TaskSpec;

use crate::agents::AgentProfile;
use crate::confine::{self, Confined, Weaker};
use crate::context::Context;
use crate::environment::Environment;
use crate::files;
use crate::lanes::Lane;
use disk::RealDisk;

pub(crate) use boxes::{
    CommandBox, agent_box, agent_box_path, boxed_tasks, private_dir, remove_box, remove_boxes_of,
    remove_dead_commands,
};
pub(crate) use inside::prepare_state;
use inside::{credentials, variables};
pub(crate) use protected::{compare, survey};
pub use trial::{NotWorking, Tried, trial};
pub use view::View;

/// A place to work in, and what is writable beside it.
pub(crate) struct Place<'a> {
    /// The lane or checkout.
    pub(crate) path: &'a Path,
    /// Its own git directories.
    pub(crate) git: Vec<PathBuf>,
    /// Whether it must not be changed.
    pub(crate) read_only: bool,
    /// More directories of programs that stay visible.
    pub(crate) programs: Vec<PathBuf>,
}

impl<'a> Place<'a> {
    /// A lane, with its own git directory.
    pub(crate) fn lane(lane: &'a Lane, read_only: bool) -> Self {
        Self { path: &lane.path, git: vec![lane.git_dir().to_owned()], read_only, programs: Vec::new() }
    }
}

/// What an attempt or a command runs in.
#[derive(Clone, Debug)]
pub(crate) struct Inside {
    /// The document for `regatta confine`.
    pub(crate) confinement: Arc<Confinement>,
    /// Its box.
    pub(crate) boxed: BoxDirs,
    /// The level that is applied.
    pub(crate) level: Level,
    /// The hosts that it reaches if the network is limited.
    pub(crate) proxy: Option<Arc<ProxyRules>>,
}

/// The directory that a test opens to agents, by a variable that only builds with debug assertions read: test agents
/// leave signs there for the test.
fn opened_by_tests() -> Vec<PathBuf> {
    let named = std::env::var_os("REGATTA_TEST_SANDBOX_WRITE").filter(|_| cfg!(debug_assertions));
    named.and_then(|dir| std::fs::canonicalize(dir).ok()).into_iter().collect()
}

/// What a task's agent is kept in: the nearest setting counts, and a task that only reads cannot write.
pub(crate) fn wanted(spec: &TaskSpec, profile: &AgentProfile) -> Sandbox {
    match spec.bounds.on_top_of(&profile.bounds).sandbox {
        Some(Sandbox::Off) => Sandbox::Off,
        Some(Sandbox::ReadOnly) => Sandbox::ReadOnly,
        _ if spec.read_only => Sandbox::ReadOnly,
        Some(Sandbox::Workspace) | None => Sandbox::Workspace,
    }
}

/// What this machine can do, as the decision needs it.
pub fn machine(exe: &Path) -> Machine {
    let found = confine::probe(exe);
    Machine {
        namespaces: found.namespaces,
        landlock: found.landlock.ok_or_else(|| "the kernel does not have it".to_owned()),
        seccomp: if found.seccomp { Ok(()) } else { Err("the kernel does not have it".to_owned()) },
        overlay: found.overlay,
    }
}

fn described(refusal: &Refusal) -> String {
    let at = if refusal.line > 0 { format!("regatta.yaml:{}: ", refusal.line) } else { String::new() };
    format!("{at}`sandbox.{}`: {}", refusal.key, refusal.why)
}

impl Context {
    /// The level that agents and commands get here, or why none is started.
    pub fn sandbox_choice(&self) -> Result<Choice, String> {
        let machine = machine(&self.services.regatta_exe);
        choose(&self.settings.config.sandbox, &machine).map_err(|refused| refused.to_string())
    }

    /// Whether the settings ask for a sandbox.
    pub fn is_sandboxed(&self) -> bool {
        self.settings.config.sandbox.mode != Mode::Off
    }

    /// Says once what is weaker here than it could be.
    pub(crate) fn tell_weaker(&self, choice: &Choice) {
        if !choice.weaker.is_empty() && self.memory.first_word_about_sandbox() {
            self.say(format!("sandbox: {}; `regatta doctor` says more", choice.weaker_in_words()));
        }
    }

    /// Says once which limits of the settings do not hold here.
    pub(crate) fn tell_limits(&self, confined: &Confined) {
        let is_limit = |it: &&Weaker| matches!(it, Weaker::Memory | Weaker::Processes { .. });
        let limits: Vec<String> = confined.weaker.iter().filter(is_limit).map(ToString::to_string).collect();
        if !limits.is_empty() && self.memory.first_word_about_limits() {
            self.say(format!("sandbox: {}", limits.join("; ")));
        }
    }

    /// What an agent of this profile may reach; `None` if there is no sandbox.
    pub(crate) fn agent_policy(
        &self,
        profile: &AgentProfile,
        task_env: &BTreeMap<String, String>,
        wanted: Sandbox,
        place: &Place<'_>,
        boxed: BoxDirs,
    ) -> Result<Option<(Policy, Level)>, String> {
        let settings = &self.settings.config.sandbox;
        if settings.network == Network::Off && profile.kind.has_model() && wanted != Sandbox::Off {
            return Err(format!(
                "`sandbox.network: off` leaves {} without its model; set `trusted` or `list`",
                profile.name
            ));
        }
        let state = self.state_of(profile, task_env);
        self.policy_in(wanted, place, boxed, state, self.reach_of(profile, task_env).local)
    }

    /// What a command may reach; `None` if there is no sandbox.
    pub(crate) fn command_policy(
        &self,
        wanted: Sandbox,
        place: &Place<'_>,
        boxed: BoxDirs,
    ) -> Result<Option<(Policy, Level)>, String> {
        self.policy_in(wanted, place, boxed, AgentState::default(), Vec::new())
    }

    /// Where the agent keeps its state: by its own variables, its task's, then the inherited ones.
    pub(crate) fn state_of(&self, profile: &AgentProfile, task_env: &BTreeMap<String, String>) -> AgentState {
        let variable = |name: &str| {
            let named = task_env.get(name).or_else(|| profile.env.get(name)).map(PathBuf::from);
            named.or_else(|| self.settings.environment.value(name).map(PathBuf::from))
        };
        state::state_of(profile.kind, &self.home(), &variable)
    }

    /// The user's home directory, without links.
    pub(crate) fn home(&self) -> PathBuf {
        let named = self.settings.environment.value("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
        std::fs::canonicalize(&named).unwrap_or(named)
    }

    fn policy_in(
        &self,
        wanted: Sandbox,
        place: &Place<'_>,
        boxed: BoxDirs,
        state: AgentState,
        local: Vec<u16>,
    ) -> Result<Option<(Policy, Level)>, String> {
        if wanted == Sandbox::Off {
            return Ok(None);
        }
        let choice = self.sandbox_choice()?;
        if choice.level == Level::Off {
            return Ok(None);
        }
        let settings = &self.settings.config.sandbox;
        let facts = Facts { local, ..self.facts(&choice, place, boxed, state) };
        if settings.caches == Caches::Project {
            boxes::make_cache(&facts.lanes_root, &facts.home).map_err(|error| {
                format!("the project's cache in {} cannot be made: {error}", facts.lanes_root.display())
            })?;
        }
        match policy(settings, &facts, &RealDisk) {
            Ok(policy) => Ok(Some((policy, choice.level))),
            Err(refused) => Err(refused.iter().map(described).collect::<Vec<_>>().join("; ")),
        }
    }

    /// What in the settings cannot be honoured for any task, each with its line. Empty where nothing can be confined:
    /// that is said of each task.
    pub fn sandbox_mistakes(&self) -> Vec<String> {
        let Ok(choice) = self.sandbox_choice() else { return Vec::new() };
        if choice.level == Level::Off {
            return Vec::new();
        }
        let root = self.repository.lanes.root();
        let lane = root.join("ID");
        let place = Place { path: &lane, git: Vec::new(), read_only: false, programs: Vec::new() };
        let boxed = BoxDirs { root: boxes::example(root, "ID") };
        let facts = self.facts(&choice, &place, boxed, AgentState::default());
        let found = policy(self.sandbox_settings(), &facts, &RealDisk);
        found.err().into_iter().flatten().map(|refusal| described(&refusal)).collect()
    }

    fn facts(&self, choice: &Choice, place: &Place<'_>, boxed: BoxDirs, state: AgentState) -> Facts {
        let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let repository = &self.repository;
        let home = self.home();
        Facts {
            level: choice.level,
            copies_home: choice.copies_home,
            config_dir: real(self.project_checkout()),
            project: real(&repository.checkout),
            git_dir: real(&repository.repo.common_dir),
            state_dir: real(&repository.state_dir),
            records: self.records(&home).iter().map(|path| real(path)).collect(),
            lanes_root: real(repository.lanes.root()),
            lane: real(place.path),
            lane_git: place.git.iter().map(|dir| real(dir)).collect(),
            siblings: self.siblings_of(place.path).iter().map(|(_, dir)| real(dir)).collect(),
            read_only: place.read_only,
            boxed: BoxDirs { root: real(&boxed.root) },
            others: self.states_of_all(&home),
            more_write: opened_by_tests(),
            programs: self.programs().into_iter().chain(place.programs.clone()).collect(),
            local: Vec::new(),
            state,
            home,
        }
    }

    /// The directory for this user's state that belongs to no repository.
    pub(crate) fn user_state(&self, home: &Path) -> PathBuf {
        let state = || self.settings.environment.value("XDG_STATE_HOME").map(PathBuf::from);
        files::user_state(|name| if name == "HOME" { Some(home.to_owned()) } else { state() })
            .unwrap_or_else(|| home.join(".local/state/regatta"))
    }

    /// Regatta's own files outside of `.regatta`.
    fn records(&self, home: &Path) -> Vec<PathBuf> {
        let mut records = vec![self.user_state(home)];
        if let Some(path) = self.services.store_url.strip_prefix("sqlite:") {
            records.extend(["", "-wal", "-shm"].map(|end| PathBuf::from(format!("{path}{end}"))));
        }
        let variable = |name: &str| std::env::var_os(name);
        records.extend(regatta_store::credential_files(&self.services.store_url, variable));
        records.extend(self.settings.options.log_dir.clone());
        // A lock can be taken by anybody who can read its file.
        records.push(self.repository.holds());
        // Of the project and its other repositories.
        let others = if self.has_several() { self.all() } else { Vec::new() };
        records.push(self.repository.project_dir.clone());
        for yard in others {
            records.extend([yard.repository.state_dir.clone(), yard.repository.holds()]);
            records.push(yard.repository.lanes.root().to_owned());
        }
        records.retain(|path| path != self.repository.lanes.root());
        let own = &self.repository.state_dir;
        records.retain(|path| path.is_absolute() && path.exists() && !path.starts_with(own));
        records
    }

    /// The state directories of all agents and accounts.
    fn states_of_all(&self, home: &Path) -> Vec<PathBuf> {
        let mut dirs = state::usual_dirs(home);
        let accounts = self.settings.profiles.iter().map(|profile| &profile.env);
        let agents = self.settings.agents.values().map(|agent| &agent.env);
        for env in accounts.chain(agents) {
            for kind in AgentKind::ALL {
                dirs.extend(state::state_of(kind, home, &|name| env.get(name).map(PathBuf::from)).write);
            }
        }
        dirs.sort();
        dirs.dedup();
        dirs
    }

    /// The directories on the path, and this program.
    fn programs(&self) -> Vec<PathBuf> {
        let path = self.settings.environment.value("PATH").unwrap_or_default();
        let own = std::iter::once(self.services.regatta_exe.clone());
        std::env::split_paths(path).chain(own).filter(|dir| dir.is_absolute()).collect()
    }

    /// Changes an environment to that of a process inside.
    pub(crate) fn go_inside(&self, environment: &mut Environment, boxed: &BoxDirs, level: Level) {
        let caches = self.settings.config.sandbox.caches;
        let cache = (caches == Caches::Project).then(|| self.repository.lanes.root().join(".cache"));
        variables(environment, boxed, level, cache.as_deref(), &self.home(), &self.settings.config);
        if self.sandbox_settings().network.needs_full() {
            let java = environment.value("JAVA_TOOL_OPTIONS").map(|java| java.to_string_lossy().into_owned());
            for (name, value) in proxy_variables(java.as_deref()) {
                environment.set(name, value);
            }
        }
    }

    /// Variables of the user with credentials that no agent in a sandbox gets.
    pub(super) fn removed_credentials(&self) -> Vec<String> {
        credentials(&self.settings.environment, &self.settings.config)
    }

    /// The settings of the sandbox.
    pub fn sandbox_settings(&self) -> &SandboxSettings {
        &self.settings.config.sandbox
    }
}
