//! What every part of a running engine needs, in four parts.
//!
//! Of the project: `Settings`, which a reload replaces; `Services` and `Memory`, which it keeps. Of one repository:
//! `Repository`, whose identity a reload keeps, and whose parts that depend on settings it opens again. A context
//! itself never changes: a reload makes another one, and work that has started ends under its own.

mod lane;
mod logins;
mod memory;
mod repository;
mod services;
mod settings;
mod yards;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use regatta_core::causes::with_causes;
use regatta_core::config::Sink;
use regatta_core::id::TaskId;
use regatta_core::repos::RepoName;
use regatta_core::train::guarded;
use regatta_store::{SessionId, Store};
use tokio::sync::watch;

use crate::engine::EngineError;
use crate::fleet::AtHub;
use crate::git::{GitError, Oid, Repo, named_files};
use crate::lease::Lease;
use crate::notice::{Notice, Notices};
use crate::process::Supervisor;
use crate::session::{lease_as_in, work_in};
pub use memory::Memory;
pub use repository::{Repository, train_of};
pub use services::Services;
pub(crate) use services::run_id;
pub use settings::{RunOptions, Settings, SettingsFile, SettingsInput, config_secrets};
use yards::Yard;
pub use yards::{OtherPlace, OtherRepository, Yards};

/// What a context is made from.
pub struct Assembly {
    /// The part that a reload gives again.
    pub settings: SettingsInput,
    /// The repository.
    pub repo: Repo,
    /// The branch work lands on.
    pub target: String,
    /// The store.
    pub store: Arc<dyn Store>,
    /// Its address.
    pub store_url: String,
    /// The session to be opened in it.
    pub session: SessionId,
    /// This program.
    pub regatta_exe: PathBuf,
    /// The channel to observers.
    pub notices: Notices,
}

/// The parts.
pub struct Context {
    /// What the user decides.
    pub settings: Arc<Settings>,
    /// What the engine works through.
    pub services: Services,
    /// What the engine remembers.
    pub memory: Memory,
    /// Where it works.
    pub repository: Arc<Repository>,
    /// All repositories of the project.
    pub yards: Arc<Yards>,
}

/// What all repositories of a project are opened with.
struct Common<'a> {
    options: &'a RunOptions,
    inherited: &'a [(OsString, OsString)],
    shared: bool,
    notices: &'a Notices,
}

impl Common<'_> {
    /// Opens the other repositories. What is wrong with one concerns only its own tasks.
    fn open(
        &self,
        others: Vec<OtherRepository>,
        home: &Repository,
        memory: impl Fn(&RepoName) -> Memory,
    ) -> BTreeMap<RepoName, Result<Yard, String>> {
        let open = |name: &RepoName, place: OtherPlace| -> Result<Yard, EngineError> {
            let OtherPlace { repo, target, lanes_root, config } = place;
            let trust = self.options.trust;
            let repository =
                Repository::open(repo, target, &lanes_root, &config, trust, self.shared, self.notices)?;
            let repository = repository.named(name.clone(), &home.project_dir);
            repository.create_holds()?;
            let settings = Settings::new(
                config,
                self.options.clone(),
                self.inherited.to_vec(),
                SettingsFile::default(),
                &repository.bin(),
            );
            let (settings, repository) = (Arc::new(settings), Arc::new(repository));
            Ok(Yard { settings, memory: memory(name), repository })
        };
        let opened = others.into_iter().map(|OtherRepository { name, place }| {
            let opened = place.and_then(|place| open(&name, place).map_err(|error| with_causes(&error)));
            (name, opened)
        });
        opened.collect()
    }
}

/// The settings at the hub's target, while they change.
pub struct SettingsAtHub {
    at_hub: watch::Receiver<Option<AtHub>>,
    differ: watch::Receiver<()>,
}

impl SettingsAtHub {
    /// Resolves when they were read and are not those in force.
    pub async fn differ(&mut self) {
        if self.differ.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether a file is the one at the hub, as far as that is known.
    pub fn is(&self, file: &SettingsFile) -> bool {
        self.at_hub.borrow().as_ref().is_some_and(|at_hub| at_hub.digest == file.digest)
    }
}

impl Context {
    /// Puts the parts together. Refuses what the user does not trust.
    pub fn assemble(assembly: Assembly) -> Result<Self, EngineError> {
        let Assembly { settings, repo, target, store, store_url, session, regatta_exe, notices } = assembly;
        let SettingsInput { config, options, inherited, lanes_root, others, graph, file } = settings;
        let shared = services::is_shared(&store_url);
        let repository =
            Repository::open(repo, target, &lanes_root, &config, options.trust, shared, &notices)?;
        repository.link_program(&regatta_exe)?;
        let common = Common { options: &options, inherited: &inherited, shared, notices: &notices };
        let memory = Memory::default();
        let home_name = config.home_repo().map(|row| row.name.clone());
        let others = common.open(others, &repository, |_| memory.for_repository());
        let settings = Settings::new(config, options.clone(), inherited.clone(), file, &repository.bin());
        if store.is_shared() {
            work_in(&repository.repo.common_dir);
            lease_as_in(&settings.config.node);
        }
        let lease = store.is_shared().then(|| Lease::of(&repository.state_dir, &session));
        let supervisor = Supervisor::new(&regatta_exe).under(lease);
        let services = Services { store, store_url, session, supervisor, regatta_exe, notices };
        let (settings, repository) = (Arc::new(settings), Arc::new(repository));
        let home = Yard { settings, memory, repository };
        Ok(Self::at_home(services, Yards { home, others, home_name, graph }))
    }

    /// The same in another session.
    pub(crate) fn in_session(&self, session: SessionId) -> Self {
        let (settings, repository, yards) =
            (self.settings.clone(), self.repository.clone(), self.yards.clone());
        let lease = self.services.store.is_shared().then(|| Lease::of(&repository.state_dir, &session));
        let supervisor = self.services.supervisor.under(lease);
        let services = Services { session, supervisor, ..self.services.clone() };
        Self { settings, services, memory: self.memory.clone(), repository, yards }
    }

    /// The context under other settings: the store, the session, the memory, the repository and the target stay.
    pub fn reload(&self, settings: SettingsInput) -> Result<Self, EngineError> {
        let SettingsInput { config, options, inherited, lanes_root, others, graph, file } = settings;
        let services = self.services.clone();
        let shared = services::is_shared(&services.store_url);
        let repository =
            self.repository.reopen(&lanes_root, &config, options.trust, shared, &services.notices)?;
        let common = Common { options: &options, inherited: &inherited, shared, notices: &services.notices };
        let home_name = config.home_repo().map(|row| row.name.clone());
        let others = common.open(others, &repository, |name| match self.yards.others.get(name) {
            Some(Ok(known)) => known.memory.clone(),
            _ => self.memory.for_repository(),
        });
        let settings = Settings::new(config, options.clone(), inherited.clone(), file, &repository.bin());
        let (settings, repository) = (Arc::new(settings), Arc::new(repository));
        let home = Yard { settings, memory: self.memory.clone(), repository };
        Ok(Self::at_home(services, Yards { home, others, home_name, graph }))
    }

    /// The context of the project's own repository.
    fn at_home(services: Services, yards: Yards) -> Self {
        let yards = yards.with_bays();
        let Yard { settings, memory, repository } = yards.home.clone();
        Self { settings, services, memory, repository, yards: Arc::new(yards) }
    }

    /// Follows the settings at the hub's target.
    pub fn settings_at_hub(&self) -> SettingsAtHub {
        let fleet = &self.memory.fleet;
        SettingsAtHub { at_hub: fleet.at_hub.subscribe(), differ: fleet.differ.subscribe() }
    }

    /// Sends a sentence to the user at the terminal.
    pub fn say(&self, text: String) {
        self.services.tell(Notice::Say(self.settings.redact(&text)));
    }

    /// Variables whose values an agent in this task's lane may print: those of the settings, and of the `.env` files
    /// that were brought in.
    pub(crate) fn secrets_in_lane(&self, task: &TaskId) -> Vec<(String, String)> {
        let mut secrets = self.settings.secrets.clone();
        secrets.extend(self.repository.lanes.brought_in_variables(task));
        secrets
    }

    /// The first file between two commits that only a person may land.
    pub(crate) fn guarded(&self, base: &Oid, head: &Oid) -> Result<Option<String>, GitError> {
        let changed = self.repository.work.paths_between(base, head)?;
        let changed: Vec<String> = changed.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        let hooks = self.repository.work.trust().hooks_in_repository(&self.repository.checkout);
        let config = &self.settings.config;
        let commands = config.notify.iter().filter_map(|row| match &row.sink {
            Sink::Command(argv) => Some(argv),
            _ => None,
        });
        let commands = commands.chain([&config.github.token_command]).map(|argv| argv.join(" "));
        let checkout = &self.repository.checkout;
        let mut more = self.repository.work.trust().files_run(checkout);
        more.extend(commands.flat_map(|command| named_files(checkout, &command)));
        more.extend(config.land.guard.iter().cloned());
        Ok(guarded(&changed, hooks.as_deref(), &more).map(str::to_owned))
    }

    /// Where the output of an attempt goes.
    pub fn log_file(&self, task: &TaskId, attempt: u32) -> PathBuf {
        let own = || self.repository.project_dir.join("logs");
        let base = self.settings.options.log_dir.clone().unwrap_or_else(own);
        base.join(task.as_str()).join(format!("{attempt}.jsonl"))
    }

    /// Runs git work off the runtime's own threads.
    pub(crate) async fn blocking<T, F>(self: &Arc<Self>, work: F) -> Result<T, GitError>
    where
        T: Send + 'static,
        F: FnOnce(&Context) -> Result<T, GitError> + Send + 'static,
    {
        let ctx = self.clone();
        tokio::task::spawn_blocking(move || work(&ctx)).await.expect("git work does not panic")
    }
}
