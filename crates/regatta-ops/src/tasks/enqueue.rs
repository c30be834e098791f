//! Adds tasks to the daemon's queue.

mod files;

use std::collections::BTreeSet;
use std::path::PathBuf;

use regatta_core::diagnostic::{Diagnostic, Pos, has_errors};
use regatta_core::id::TaskId;
use regatta_core::spec::TaskSpec;
use regatta_core::state::TaskState;
use regatta_core::taskfile::Loaded;
use regatta_engine::clock;
use regatta_store::{
    IfPresent, MAIN_QUEUE, NewTask, RequestId, Store, StoreError, TaskBrief, TaskQuery, TaskRecord,
};

use super::requeue::clear_lane;
use crate::documents::{ChangedDocument, ChangesDocument};
use crate::operator::Operator;
use crate::project::{Project, shown};
use crate::refusal::Refusal;
use crate::taskfiles::{missing_programs, parse_files};

/// Where the tasks are described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Task files, plans, directories of them, or ids of files in tasks/ or parcels/.
    Files(Vec<String>),
    /// The text of a task file or a plan.
    Text(String),
}

/// A request to add tasks to the daemon's queue: all of them or none.
#[derive(Clone, Debug)]
pub struct EnqueueRequest {
    /// Where they are described.
    pub source: Source,
    /// Tasks that the only task depends on; overrides its file.
    pub deps: Option<Vec<String>>,
    /// Higher numbers start first; overrides the file.
    pub priority: Option<i32>,
    /// How many work failures are allowed in all; overrides the file.
    pub max_attempts: Option<u32>,
    /// Leave out the checks.
    pub no_verify: bool,
    /// Start an existing task over, unless it is being worked on.
    pub replace: bool,
}

impl EnqueueRequest {
    /// Without overrides.
    pub fn new(source: Source) -> Self {
        Self { source, deps: None, priority: None, max_attempts: None, no_verify: false, replace: false }
    }
}

/// Tasks that were added to the daemon's queue.
pub struct Enqueued {
    /// The operator on their store.
    pub operator: Operator,
    pub tasks: Vec<TaskSpec>,
    /// What the daemon will do differently than the files say.
    pub warnings: Vec<Diagnostic>,
}

impl Enqueued {
    /// The tasks as stored.
    pub async fn stored(&self) -> Result<Vec<TaskBrief>, Refusal> {
        let ids = Some(self.tasks.iter().map(|spec| spec.id.clone()).collect());
        Ok(self.operator.store.briefs(&TaskQuery { ids, ..TaskQuery::default() }).await?)
    }

    /// The result as a document.
    pub async fn document(&self) -> Result<ChangesDocument, Refusal> {
        let changed = |task: TaskBrief| ChangedDocument { task: task.into(), salvaged: None };
        Ok(ChangesDocument {
            tasks: self.stored().await?.into_iter().map(changed).collect(),
            refused: Vec::new(),
            daemon: self.operator.takers.daemon_document(),
            warnings: self.warnings.clone(),
        })
    }
}

impl Project {
    /// Adds tasks to the daemon's queue. With one mistake, one id that exists, one cycle or one unknown dependency, it
    /// changes nothing.
    pub async fn enqueue(&self, request: &EnqueueRequest) -> Result<Enqueued, Refusal> {
        let mut loaded = match &request.source {
            Source::Files(what) => parsed(self, what).await?,
            Source::Text(text) => {
                let mut loaded = load(self, &[(PathBuf::from("plan"), text.clone().into_bytes())]).await?;
                // There is no file to refer to later.
                loaded.tasks.iter_mut().for_each(|spec| spec.source = String::new());
                loaded
            }
        };
        self.require_trust().await?;
        let store = self.create_store().await?;
        adjust(&mut loaded.tasks, request, store.as_ref()).await?;
        let mut warnings = warnings(self, &loaded);
        warnings.extend(missing_programs(self, &loaded.tasks));
        let operator = Operator::of(self, store).await?;
        put(&operator, &loaded.tasks, request.replace).await?;
        Ok(Enqueued { operator, tasks: loaded.tasks, warnings })
    }
}

/// Finds and parses the files that the request names.
async fn parsed(project: &Project, what: &[String]) -> Result<Loaded, Refusal> {
    let found = files::find(project, what).await?;
    let loaded = load(project, &found.files).await?;
    for (id, path) in &found.ids {
        if !loaded.tasks.iter().any(|spec| spec.id.folded() == id.folded()) {
            return Err(Refusal::usage(format!(
                "{} contains no task {id}; nothing was changed",
                shown(path)
            ))
            .hinted(format!("correct its `id`, or give the path: regatta enqueue {}", shown(path))));
        }
    }
    Ok(loaded)
}

/// Parses the files. Stored tasks are read only if the files alone give errors, such as an unknown dependency.
async fn load(project: &Project, files: &[(PathBuf, Vec<u8>)]) -> Result<Loaded, Refusal> {
    let known = BTreeSet::new();
    let loaded = parse_for_daemon(project, files, &known);
    if !has_errors(&loaded.diagnostics) {
        return Ok(loaded);
    }
    let known = match project.store_if_any().await? {
        Some(store) => store.briefs(&TaskQuery::default()).await?,
        None => Vec::new(),
    };
    let known: BTreeSet<TaskId> = known.into_iter().map(|task| task.id).collect();
    let loaded = parse_for_daemon(project, files, &known);
    if has_errors(&loaded.diagnostics) { Err(Refusal::diagnosed(loaded.diagnostics)) } else { Ok(loaded) }
}

/// Parses files for the daemon: tasks land only if a setting says so.
pub fn parse_for_daemon<'a>(
    project: &'a Project,
    files: &'a [(PathBuf, Vec<u8>)],
    known: &'a BTreeSet<TaskId>,
) -> Loaded {
    parse_files(project, files, |settings| {
        settings.land_by_default = false;
        settings.known_ids = known;
    })
}

async fn adjust(tasks: &mut [TaskSpec], request: &EnqueueRequest, store: &dyn Store) -> Result<(), Refusal> {
    if let Some(names) = &request.deps {
        let n_tasks = tasks.len();
        let [task] = tasks else {
            return Err(Refusal::usage(format!("--deps works for one task, but you gave {n_tasks}"))
                .hinted("write `deps` into their files, or enqueue them one by one"));
        };
        task.deps = dependencies(names, store, Some(&task.id)).await?;
    }
    for task in tasks {
        task.priority = request.priority.unwrap_or(task.priority);
        task.max_attempts = request.max_attempts.unwrap_or(task.max_attempts);
        if request.no_verify {
            task.checks.clear();
        }
    }
    Ok(())
}

/// The stored tasks with these names: full ids, because a guess would wait for the wrong task.
pub async fn dependencies(
    names: &[String],
    store: &dyn Store,
    own: Option<&TaskId>,
) -> Result<Vec<TaskId>, Refusal> {
    let mut found: Vec<TaskId> = Vec::new();
    for name in names {
        let id = TaskId::parse(name).map_err(|why| Refusal::usage(format!("--deps {name:?} {why}")))?;
        if own.is_some_and(|own| own.folded() == id.folded()) {
            return Err(Refusal::usage(format!("{id} cannot depend on itself")));
        }
        let dependency = match store.task(&id).await {
            Ok(task) => task.spec.id,
            Err(StoreError::NotFound(_)) => {
                return Err(Refusal::usage(format!(
                    "unknown dependency {id}: there is no such task; nothing was changed"
                ))
                .hinted(format!(
                    "`regatta enqueue {id}` first; `regatta list --status all` shows all tasks"
                )));
            }
            Err(error) => return Err(error.into()),
        };
        if !found.contains(&dependency) {
            found.push(dependency);
        }
    }
    Ok(found)
}

/// Adds all of them, or none.
pub(crate) async fn put(operator: &Operator, tasks: &[TaskSpec], replace: bool) -> Result<(), Refusal> {
    let if_present = if replace { IfPresent::Restart } else { IfPresent::Refuse };
    let new = |spec: &TaskSpec| NewTask { spec: spec.clone(), queue: MAIN_QUEUE.to_owned(), if_present };
    let new: Vec<NewTask> = tasks.iter().map(new).collect();
    let mut guards = Vec::new();
    if replace {
        // One after another in the order of their ids, so that two calls cannot deadlock.
        let mut ids: Vec<TaskId> =
            present(operator.store.as_ref(), tasks).await?.into_iter().map(|task| task.spec.id).collect();
        ids.sort();
        for id in &ids {
            guards.push(operator.alone(id).await?);
        }
        let present = present(operator.store.as_ref(), tasks).await?;
        let busy = |task: &&TaskRecord| task.state.is_busy();
        if let Some(task) = present.iter().find(busy) {
            return Err(there_already(std::slice::from_ref(task)));
        }
        for task in &present {
            // A waiting task may be started at any moment, so its lane is left alone.
            if task.state.is_settled() {
                // Its lane may be in another clone.
                regatta_engine::travel::start_over(operator.store.as_ref(), &task.spec.id, task.attempts)
                    .await?;
                clear_lane(operator, &task.spec.id).await?;
            }
        }
    }
    match operator.store.enqueue(&new, &RequestId::fresh(), clock::now()).await {
        Ok(()) => {
            regatta_engine::failpoint::reach("enqueued");
            Ok(())
        }
        Err(StoreError::Conflict(why)) => {
            let present = present(operator.store.as_ref(), tasks).await?;
            if present.is_empty() {
                Err(StoreError::Conflict(why).into())
            } else {
                Err(there_already(&present))
            }
        }
        Err(StoreError::Invalid(why)) => Err(Refusal::usage(format!("{why}; nothing was changed"))),
        Err(error) => Err(error.into()),
    }
}

/// Those of the tasks that exist.
pub(crate) async fn present(store: &dyn Store, tasks: &[TaskSpec]) -> Result<Vec<TaskRecord>, Refusal> {
    let ids = Some(tasks.iter().map(|spec| spec.id.clone()).collect());
    Ok(store.tasks(&TaskQuery { ids, ..TaskQuery::default() }).await?)
}

/// The error for tasks that already exist and cannot be replaced.
pub fn there_already(tasks: &[TaskRecord]) -> Refusal {
    let shown = |task: &TaskRecord| format!("{} ({})", task.spec.id, task.state.name());
    let mut names: Vec<String> = tasks.iter().take(5).map(shown).collect();
    if tasks.len() > 5 {
        names.push(format!("{} more", tasks.len() - 5));
    }
    let exist = if tasks.len() == 1 { "exists" } else { "exist" };
    let error = Refusal::refused(format!("{} already {exist}; nothing was changed", names.join(", ")));
    let Some(TaskRecord { spec, state, .. }) = tasks.first() else { return error };
    let id = &spec.id;
    error.hinted(match state {
        TaskState::Pending { .. } | TaskState::Parked { .. } => format!(
            "it has not ended: `regatta enqueue --replace {id}` replaces it with the new text of its file"
        ),
        state if state.is_busy() => {
            format!("`regatta wait {id}` waits until it ends; `regatta requeue {id}` then runs it again")
        }
        _ => format!(
            "`regatta requeue {id}` runs it again unchanged, `regatta enqueue --replace {id}` with the new text of its file"
        ),
    })
}

/// The limits of groups that the daemon does not take from the files.
pub(crate) fn group_warnings(project: &Project, loaded: &Loaded) -> Vec<Diagnostic> {
    let mut all = Vec::new();
    for (group, limit) in &loaded.concurrency_limits {
        let kept = project.config.limits.groups.get(group).copied().unwrap_or(1);
        if kept != *limit {
            let message = format!(
                "the file allows {limit} of the group {group} at the same time, but the daemon allows {kept}"
            );
            let warning = Diagnostic::warning("limits.groups", Pos::NOWHERE, message);
            all.push(
                warning.hinted(format!(
                    "write `limits: {{ groups: {{ {group}: {limit} }} }}` into regatta.yaml"
                )),
            );
        }
    }
    all
}

/// What the daemon will do differently than the files say.
fn warnings(project: &Project, loaded: &Loaded) -> Vec<Diagnostic> {
    let mut all: Vec<Diagnostic> =
        project.new_warnings().iter().chain(&loaded.diagnostics).cloned().collect();
    all.extend(group_warnings(project, loaded));
    for hook in &loaded.hooks {
        let message = format!("`{}` is called by `regatta run` only, not by the daemon", hook.key());
        let warning = Diagnostic::warning(hook.key(), Pos::NOWHERE, message);
        all.push(
            warning.hinted(
                "for the daemon, regatta.yaml has `notify: [{ on: [failed], webhook: \"https://…\" }]`",
            ),
        );
    }
    all
}
