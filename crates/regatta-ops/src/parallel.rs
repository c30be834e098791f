//! A project with tasks in several repositories, as in parallel-agents: one operation works on all of them. They are the
//! `repos` of the project's `regatta.yaml`, which share its store and its daemon; without those, they are registered in
//! files as parallel-agents has them, and each has its own store and daemon.

mod create;
mod destroy;
mod pull_request;
pub mod registry;
mod repositories;
mod send;
mod start;
mod status;
mod wait;

use std::path::PathBuf;
use std::sync::Arc;

use regatta_core::exit::Exit as Ended;
use regatta_core::id::TaskId;
use regatta_core::prompt::PromptState;
use regatta_core::repos::RepoName;
use regatta_core::spec::TaskSpec;
use regatta_engine::daemon::{Presence, settled_presence};
use regatta_store::{MAIN_QUEUE, Store, StoreError, TaskQuery, TaskRecord};

pub use create::CreateRequest;
pub use destroy::{CleanupRequest, DestroyRequest};
pub use repositories::{AddRepositoryRequest, siblings};
pub use send::ParallelSendRequest;
pub use start::StartRequest;
pub use wait::{ParallelWaitRequest, ParallelWaited};

use crate::assemble::CLAUDE_BIN;
use crate::daemon::StartDaemonRequest;
use crate::documents::{
    DaemonStarted, ParallelKind, ParallelStatus, ParallelTaskDocument, ProcessDocument, UNSTARTED_QUEUE,
};
use crate::look::events::started_pid;
use crate::operator::Operator;
use crate::project::{Project, ProjectOptions};
use crate::refusal::Refusal;
use crate::secrets::redactor;
use crate::tasks::plain_order;
use registry::Registry;

/// Where the registry of a project is, and the caller's options for its repositories.
#[derive(Clone, Debug, Default)]
pub struct ParallelOptions {
    /// The options of every repository.
    pub project: ProjectOptions,
    /// The directory with the registry's files; by default found from the current directory.
    pub root: Option<PathBuf>,
}

/// An opened repository of the project.
pub struct Repository {
    /// Its registered name.
    pub name: String,
    pub project: Project,
    /// `None` if nothing was ever stored.
    pub store: Option<Arc<dyn Store>>,
    options: ProjectOptions,
    /// The branch it was registered with, if its own settings name none.
    target: Option<String>,
    /// How it belongs to a project with `repos`.
    member: Option<Member>,
}

/// A repository of a project with `repos`.
struct Member {
    /// The project as seen from its own repository.
    home: Project,
    /// Its name in tasks; `None` for the project's own.
    repo: Option<RepoName>,
}

/// All repositories of the project.
pub struct Repositories {
    all: Vec<Repository>,
    /// Those that could not be opened.
    pub unreadable: Vec<(String, Refusal)>,
}

/// One task in its repository.
pub struct FoundTask<'a> {
    pub repository: &'a Repository,
    /// The store of its repository.
    pub store: Arc<dyn Store>,
    pub task: TaskRecord,
}

impl Repositories {
    /// Opens the repositories of the project, else the registered ones, or the current one if none is registered.
    pub async fn open(registry: &Registry, options: &ParallelOptions) -> Result<Self, Refusal> {
        if let Some(project) = &registry.home {
            return Self::of_project(project, options).await;
        }
        let (mut all, mut unreadable) = (Vec::new(), Vec::new());
        if registry.entries.is_empty() {
            let project = Project::open(&options.project).map_err(|error| {
                error.hinted("go to a repository, or register one: regatta repo add --name NAME --path DIR")
            })?;
            let name = project.repo.root.file_name().unwrap_or_default().to_string_lossy().into_owned();
            all.push(Repository::of(name, project, options.project.clone(), None).await?);
        }
        for entry in &registry.entries {
            let options = ProjectOptions { project: Some(entry.path.clone()), ..options.project.clone() };
            let opened = match Project::open(&options) {
                Ok(project) => {
                    let branch = Some(entry.default_branch.clone());
                    Repository::of(entry.name.clone(), project, options, branch).await
                }
                Err(error) => Err(error),
            };
            match opened {
                Ok(repository) => all.push(repository),
                Err(error) => unreadable.push((entry.name.clone(), error)),
            }
        }
        Ok(Self { all, unreadable })
    }

    /// Opens the repositories of a project with `repos`.
    async fn of_project(home: &Project, options: &ParallelOptions) -> Result<Self, Refusal> {
        let (mut all, mut unreadable) = (Vec::new(), Vec::new());
        let options = ProjectOptions { project: Some(home.repo.root.clone()), ..options.project.clone() };
        let store = home.store_if_any().await?;
        for row in &home.config.repos {
            let repo = (!row.is_home()).then(|| row.name.clone());
            match home.in_repo(repo.as_ref()) {
                Ok(project) => all.push(Repository {
                    name: row.name.to_string(),
                    project,
                    store: store.clone(),
                    options: options.clone(),
                    target: None,
                    member: Some(Member { home: home.clone(), repo }),
                }),
                Err(error) => unreadable.push((row.name.to_string(), error)),
            }
        }
        Ok(Self { all, unreadable })
    }

    /// The repository with this name.
    pub fn named(&self, name: &str) -> Result<&Repository, Refusal> {
        if let Some(found) = self.all.iter().find(|repository| repository.name == name) {
            return Ok(found);
        }
        if let Some((_, error)) = self.unreadable.iter().find(|(unreadable, _)| unreadable == name) {
            return Err(Refusal { message: format!("{name}: {}", error.message), ..error.clone() });
        }
        let names: Vec<&str> = self.all.iter().map(|repository| repository.name.as_str()).collect();
        Err(Refusal::not_found(format!("Unknown repository: {name}"))
            .hinted(format!("known repositories: {}; `regatta repo add` adds another", names.join(", "))))
    }

    /// The task with this id, in any repository.
    pub async fn find(&self, registry: &Registry, text: &str) -> Result<FoundTask<'_>, Refusal> {
        let id = TaskId::parse(text).map_err(|why| Refusal::usage(format!("the task id {text:?} {why}")))?;
        match self.look(registry, &id).await? {
            Some(found) => Ok(found),
            None => {
                let missing: Vec<&str> = self.unreadable.iter().map(|(name, _)| name.as_str()).collect();
                let hint = if missing.is_empty() {
                    "`regatta task list` shows all tasks".to_owned()
                } else {
                    format!("could not read: {}", missing.join(", "))
                };
                Err(Refusal::not_found(format!("No task: {id}")).hinted(hint))
            }
        }
    }

    /// The same for a task that may be missing. An id destroyed in one repository may still exist in another.
    pub async fn look(&self, registry: &Registry, id: &TaskId) -> Result<Option<FoundTask<'_>>, Refusal> {
        let mut gone = None;
        for repository in &self.all {
            let Some(store) = repository.store.clone() else { continue };
            match store.task(id).await {
                Ok(task) if !repository.has(&task) => {}
                Ok(task) => {
                    let found = FoundTask { repository, store, task };
                    match found.status(registry) {
                        ParallelStatus::Destroyed => gone = gone.or(Some(found)),
                        _ => return Ok(Some(found)),
                    }
                }
                Err(StoreError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(gone)
    }

    /// Every task that parallel-agents would have made, in order of arrival.
    pub async fn tasks(&self) -> Result<Vec<FoundTask<'_>>, Refusal> {
        let mut all = Vec::new();
        for repository in &self.all {
            let Some(store) = &repository.store else { continue };
            let mut tasks = Vec::new();
            for prefix in ["PRD-", "GEN-"] {
                let query = TaskQuery { prefix: Some(prefix.to_owned()), ..TaskQuery::default() };
                tasks.extend(store.tasks(&query).await?);
            }
            tasks.retain(|task| ParallelKind::of(&task.spec.id).is_some() && repository.has(task));
            tasks.sort_by_key(|task| task.seq);
            all.extend(tasks.into_iter().map(|task| FoundTask { repository, store: store.clone(), task }));
        }
        Ok(all)
    }
}

impl Repository {
    async fn of(
        name: String,
        mut project: Project,
        options: ProjectOptions,
        branch: Option<String>,
    ) -> Result<Self, Refusal> {
        let target = branch.filter(|_| project.config.target.is_none());
        if let Some(branch) = &target {
            project.config.target = Some(branch.clone());
        }
        let store = project.store_if_any().await?;
        Ok(Self { name, project, store, options, target, member: None })
    }

    /// The project whose store and daemon it uses: its own, unless it is one of several.
    pub fn home(&self) -> &Project {
        self.member.as_ref().map_or(&self.project, |member| &member.home)
    }

    /// Whether a task of its store is a task of this repository.
    fn has(&self, task: &TaskRecord) -> bool {
        self.member.as_ref().is_none_or(|member| task.spec.repo == member.repo)
    }

    /// A task for it from these texts.
    pub fn order(&self, id: &TaskId, title: &str, prompt: &str) -> Result<TaskSpec, Refusal> {
        let repo = self.member.as_ref().and_then(|member| member.repo.as_ref());
        plain_order(self.home(), repo, id, title, prompt)
    }

    /// Its store, created if missing.
    pub async fn create_store(&self) -> Result<Arc<dyn Store>, Refusal> {
        match &self.store {
            Some(store) => Ok(store.clone()),
            None => self.home().create_store().await,
        }
    }

    /// Starts its daemon if none runs, with the branch it was registered with. Returns what was started.
    pub async fn serve(&self, claude: Option<&str>) -> Result<Option<DaemonStarted>, Refusal> {
        let project = self.home();
        let dir = &project.repo.state_dir;
        let found = settled_presence(&project.repo).map_err(|error| Refusal::io("reading", dir, &error))?;
        if !matches!(found, Presence::None) {
            return Ok(None);
        }
        let target = self.target.as_ref().map(|branch| ("REGATTA_TARGET", branch.clone()));
        let claude = claude.map(|program| (CLAUDE_BIN, program.to_owned()));
        let variables: Vec<_> = [target, claude].into_iter().flatten().collect();
        let request = StartDaemonRequest { options: self.options.clone(), profiles: None, variables };
        let started = project.start_daemon(&request).await?;
        let repo = self.member.is_none().then(|| self.name.clone());
        Ok(Some(DaemonStarted { repo, ..started }))
    }

    /// Its queue, with the processes that serve it now.
    pub async fn queue(&self) -> Result<Operator, Refusal> {
        Operator::of(self.home(), self.create_store().await?).await
    }
}

impl FoundTask<'_> {
    /// Reads the task again.
    pub async fn reload(&mut self) -> Result<(), Refusal> {
        self.task = self.store.task(&self.task.spec.id).await?;
        Ok(())
    }

    /// Its status in the words of parallel-agents.
    pub fn status(&self, registry: &Registry) -> ParallelStatus {
        let id = &self.task.spec.id;
        let note = registry.note(id, &self.repository.name);
        let destroyed = note.is_some_and(|note| note.destroyed_at.is_some());
        ParallelStatus::of(&self.task, destroyed, self.usual_lane().is_dir())
    }

    /// Starts the daemon again if it is gone while this task is in progress.
    pub async fn serve_if_moving(&self, registry: &Registry) -> Result<Option<DaemonStarted>, Refusal> {
        let moving =
            [ParallelStatus::Running, ParallelStatus::AwaitingMerge].contains(&self.status(registry));
        if moving && self.task.queue == MAIN_QUEUE { self.repository.serve(None).await } else { Ok(None) }
    }

    /// Whether it was created and never started.
    pub fn is_unstarted(&self) -> bool {
        self.task.queue == UNSTARTED_QUEUE && !self.task.state.is_terminal()
    }

    fn usual_lane(&self) -> std::path::PathBuf {
        self.repository.project.lanes_root().join(self.task.spec.id.as_str())
    }

    /// Everything that parallel-agents reports about a task.
    pub async fn document(&self, registry: &Registry) -> Result<ParallelTaskDocument, Refusal> {
        let (task, id) = (&self.task, &self.task.spec.id);
        let redactor = redactor(&self.repository.project.config);
        let attempts = self.store.attempts(id).await?;
        let prompts = self.store.prompts(id).await?;
        let queued = prompts.iter().filter(|prompt| prompt.state == PromptState::Queued);
        let last = attempts.last();
        let process = match last {
            Some(attempt) if attempt.started_at.is_some() => Some(ProcessDocument {
                pid: started_pid(self.store.as_ref(), id, attempt.n).await?,
                started_at: attempt.started_at,
                exited_at: attempt.ended_at,
                exit_code: match attempt.exit {
                    Some(Ended::Exited { code }) => Some(code),
                    _ => None,
                },
            }),
            _ => None,
        };
        let session = attempts.iter().rev().find_map(|attempt| attempt.session.clone());
        let note = registry.note(id, &self.repository.name);
        let lane = last.and_then(|attempt| attempt.lane.clone()).unwrap_or_else(|| self.usual_lane());
        Ok(ParallelTaskDocument {
            id: id.clone(),
            kind: ParallelKind::of(id).unwrap_or(ParallelKind::Generic),
            description: redactor.redact(&task.spec.title).into(),
            repo: self.repository.name.clone(),
            branch: id.branch(),
            worktree_path: lane,
            status: self.status(registry),
            state: task.state.kind(),
            reason: task.state.reason(),
            session_name: session.is_some().then(|| session_name(task)),
            session_id: session,
            log_path: last.and_then(|attempt| attempt.log.clone()),
            initial_prompt: (!self.is_unstarted()).then(|| redactor.redact(&task.spec.prompt).into()),
            queued_prompts: queued.map(|prompt| redactor.redact(&prompt.text).into()).collect(),
            blocked_by: note.map(|note| note.blocked_by.clone()).unwrap_or_default(),
            process,
            pr: note.and_then(|note| note.pr.clone()),
            attempts: task.attempts,
            created_at: task.created_at,
            updated_at: task.updated_at,
        })
    }
}

/// The name of its conversation, for people.
pub fn session_name(task: &TaskRecord) -> String {
    format!("{}: {}", task.spec.id, task.spec.title)
}
