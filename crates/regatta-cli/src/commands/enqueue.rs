//! `regatta enqueue FILE|ID|DIR…`: puts tasks into the daemon's queue.

mod files;

use std::collections::BTreeSet;
use std::path::PathBuf;

use regatta_core::diagnostic::{Diagnostic, has_errors};
use regatta_core::id::TaskId;
use regatta_core::part::Part;
use regatta_core::spec::TaskSpec;
use regatta_core::state::TaskState;
use regatta_core::taskfile::Loaded;
use regatta_ops::documents::{ChangedDocument, ChangesDocument};
use regatta_store::{IfPresent, MAIN_QUEUE, NewTask, RequestId, Store, StoreError, TaskQuery, TaskRecord};

use super::requeue::clear_lane;
use super::run::missing_programs;
use super::validate::parse_files;
use crate::cli::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::project::{Project, shown};
use crate::queue::Queue;
use crate::ui::Ui;

/// More tasks than this are not named one by one.
const MANY: usize = 20;

/// Put tasks into the daemon's queue: task files, whole plans, directories of them, or ids of files in tasks/.
///
/// All of them or none: with one mistake, one id that is there already, one circle or one dependency on nothing,
/// nothing is changed. Dependencies may be tasks of the same call or tasks that are stored already. What passes is
/// landed where the task says `auto_land: true`, or regatta.yaml says `land: { auto: true }`; else it stays on its
/// branch regatta/ID.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Task files, plans, directories (their *.md, save README.md), or an ID for tasks/ID.md or parcels/ID.md.
    #[arg(required = true, value_name = "FILE|ID|DIR")]
    what: Vec<String>,
    /// What it depends on, instead of what its file says: ids with commas between them, or '' for nothing. For one
    /// task at a time.
    #[arg(long, value_name = "IDS")]
    deps: Option<String>,
    /// Higher starts first, instead of what the file says.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-9999..=9999))]
    priority: Option<i32>,
    /// Work failures allowed in all, instead of what the file says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    max_attempts: Option<u32>,
    /// Leave out the `checks` of the files and of regatta.yaml: the agent's own verdict is believed. What lands is still tested by
    /// `land.test_command`.
    #[arg(long)]
    no_verify: bool,
    /// Where a task is there already and nobody is at it, start it over with what its file says now. Work in its lane
    /// is saved first.
    #[arg(long)]
    replace: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let project = Project::open(&global.options())?;
    let mut loaded = parsed(&project, &args).await?;
    let (queue, warnings) = put_in_queue(&args, &project, &mut loaded).await?;
    tell(&queue, &loaded.tasks, &warnings, ui).await
}

/// Puts what was parsed into the daemon's queue, adjusted as the command line says.
async fn put_in_queue(
    args: &Args,
    project: &Project,
    loaded: &mut Loaded,
) -> Result<(Queue, Vec<Diagnostic>), CliError> {
    project.require_trust().await?;
    let store = project.create_store().await?;
    adjust(&mut loaded.tasks, args, store.as_ref()).await?;
    let mut warnings = warnings(project, loaded);
    warnings.extend(missing_programs(project, &loaded.tasks));
    let queue = Queue::of(project, store).await?;
    enqueue(&queue, &loaded.tasks, args.replace).await?;
    Ok((queue, warnings))
}

/// What a program orders: files by their names, or the text of one.
pub(crate) enum Ordered {
    Files(Vec<String>),
    Text(String),
}

/// Puts work into the daemon's queue, and says what is there then.
pub(crate) async fn put(
    project: &Project,
    ordered: Ordered,
    replace: bool,
) -> Result<ChangesDocument, CliError> {
    let mut args = Args { replace, ..Args::default() };
    let mut loaded = match ordered {
        Ordered::Files(what) => {
            args.what = what;
            parsed(project, &args).await?
        }
        Ordered::Text(text) => {
            let mut loaded = load(project, &[(PathBuf::from("plan"), text.into_bytes())]).await?;
            // There is no file to be looked at later.
            loaded.tasks.iter_mut().for_each(|spec| spec.source = String::new());
            loaded
        }
    };
    let (queue, warnings) = put_in_queue(&args, project, &mut loaded).await?;
    document(&queue, &loaded.tasks, &warnings).await
}

/// Finds and parses what the command line names.
async fn parsed(project: &Project, args: &Args) -> Result<Loaded, CliError> {
    let found = files::find(project, &args.what).await?;
    let loaded = load(project, &found.files).await?;
    for (id, path) in &found.ids {
        if !loaded.tasks.iter().any(|spec| spec.id.folded() == id.folded()) {
            return Err(CliError::usage(format!("{} holds no task {id}; nothing was changed", shown(path)))
                .hinted(format!("correct its `id`, or give the path: regatta enqueue {}", shown(path))));
        }
    }
    Ok(loaded)
}

/// Parses the files. Stored tasks are looked up only where the files alone do not explain themselves.
async fn load(project: &Project, files: &[(PathBuf, Vec<u8>)]) -> Result<Loaded, CliError> {
    let known = BTreeSet::new();
    let loaded = parse_for_daemon(project, files, &known);
    if !has_errors(&loaded.diagnostics) {
        return Ok(loaded);
    }
    let known = match project.has_store() {
        true => project.store().await?.briefs(&TaskQuery::default()).await?,
        false => Vec::new(),
    };
    let known: BTreeSet<TaskId> = known.into_iter().map(|task| task.id).collect();
    let loaded = parse_for_daemon(project, files, &known);
    match has_errors(&loaded.diagnostics) {
        true => Err(CliError::diagnosed(loaded.diagnostics)),
        false => Ok(loaded),
    }
}

/// As the daemon takes tasks: they land only where that was said.
pub(crate) fn parse_for_daemon<'a>(
    project: &'a Project,
    files: &'a [(PathBuf, Vec<u8>)],
    known: &'a BTreeSet<TaskId>,
) -> Loaded {
    parse_files(project, files, |settings| {
        settings.land_by_default = false;
        settings.known_ids = known;
    })
}

async fn adjust(tasks: &mut [TaskSpec], args: &Args, store: &dyn Store) -> Result<(), CliError> {
    if let Some(text) = &args.deps {
        let n_tasks = tasks.len();
        let [task] = tasks else {
            return Err(CliError::usage(format!("--deps is for one task, and these are {n_tasks}"))
                .hinted("write `deps` into their files, or enqueue them one by one"));
        };
        task.deps = dependencies(text, store, Some(&task.id)).await?;
    }
    for task in tasks {
        task.priority = args.priority.unwrap_or(task.priority);
        task.max_attempts = args.max_attempts.unwrap_or(task.max_attempts);
        if args.no_verify {
            task.checks.clear();
        }
    }
    Ok(())
}

/// The stored tasks that a list with commas names: whole ids, because a guess would wait for the wrong one.
pub(crate) async fn dependencies(
    text: &str,
    store: &dyn Store,
    own: Option<&TaskId>,
) -> Result<Vec<TaskId>, CliError> {
    let mut found: Vec<TaskId> = Vec::new();
    for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let id = TaskId::parse(name).map_err(|why| CliError::usage(format!("--deps {name:?} {why}")))?;
        if own.is_some_and(|own| own.folded() == id.folded()) {
            return Err(CliError::usage(format!("{id} cannot depend on itself")));
        }
        let dependency = match store.task(&id).await {
            Ok(task) => task.spec.id,
            Err(StoreError::NotFound(_)) => {
                return Err(CliError::usage(format!(
                    "unknown dependency {id}: there is no such task; nothing was changed"
                ))
                .hinted(format!(
                    "`regatta enqueue {id}` first; `regatta list --status all` shows what there is"
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

/// All of them, or none.
async fn enqueue(queue: &Queue, tasks: &[TaskSpec], replace: bool) -> Result<(), CliError> {
    let if_present = if replace { IfPresent::Restart } else { IfPresent::Refuse };
    let new = |spec: &TaskSpec| NewTask { spec: spec.clone(), queue: MAIN_QUEUE.to_owned(), if_present };
    let new: Vec<NewTask> = tasks.iter().map(new).collect();
    let mut guards = Vec::new();
    if replace {
        // One after another in the order of their names, so that two calls cannot wait for each other.
        let mut ids: Vec<TaskId> =
            present(queue.store.as_ref(), tasks).await?.into_iter().map(|task| task.spec.id).collect();
        ids.sort();
        for id in &ids {
            guards.push(queue.alone(id).await?);
        }
        let present = present(queue.store.as_ref(), tasks).await?;
        let busy =
            |task: &&TaskRecord| task.state.is_claimed() || matches!(task.state, TaskState::Landing { .. });
        if let Some(task) = present.iter().find(busy) {
            return Err(there_already(std::slice::from_ref(task)));
        }
        for task in &present {
            // What waits may be started at any moment: its lane is its own.
            if task.state.is_terminal() || matches!(task.state, TaskState::Blocked { .. }) {
                clear_lane(queue, &task.spec.id).await?;
            }
        }
    }
    match queue.store.enqueue(&new, &RequestId::fresh(), regatta_engine::clock::now()).await {
        Ok(()) => {
            regatta_engine::failpoint::reach("enqueued");
            Ok(())
        }
        Err(StoreError::Conflict(why)) => {
            let present = present(queue.store.as_ref(), tasks).await?;
            if present.is_empty() {
                Err(StoreError::Conflict(why).into())
            } else {
                Err(there_already(&present))
            }
        }
        Err(StoreError::Invalid(why)) => Err(CliError::usage(format!("{why}; nothing was changed"))),
        Err(error) => Err(error.into()),
    }
}

async fn present(store: &dyn Store, tasks: &[TaskSpec]) -> Result<Vec<TaskRecord>, CliError> {
    let ids = Some(tasks.iter().map(|spec| spec.id.clone()).collect());
    Ok(store.tasks(&TaskQuery { ids, ..TaskQuery::default() }).await?)
}

/// Nothing is put in a task's place unless that was asked for.
pub(crate) fn there_already(tasks: &[TaskRecord]) -> CliError {
    let shown = |task: &TaskRecord| format!("{} ({})", task.spec.id, task.state.name());
    let mut names: Vec<String> = tasks.iter().take(5).map(shown).collect();
    if tasks.len() > 5 {
        names.push(format!("{} more", tasks.len() - 5));
    }
    let are = if tasks.len() == 1 { "is" } else { "are" };
    let error = CliError::refused(format!("{} {are} there already; nothing was changed", names.join(", ")));
    let Some(TaskRecord { spec, state, .. }) = tasks.first() else { return error };
    let id = &spec.id;
    error.hinted(match state {
        TaskState::Pending { .. } | TaskState::Parked { .. } => format!(
            "it has not ended yet: `regatta enqueue --replace {id}` puts its file's new text in its place; `regatta requeue {id}` is for after its end"
        ),
        state if state.is_claimed() || matches!(state, TaskState::Landing { .. }) => {
            format!("`regatta wait {id}` waits for its end; `regatta requeue {id}` has it done over after that")
        }
        _ => format!(
            "`regatta requeue {id}` runs it again as it was ordered, `regatta enqueue --replace {id}` as its file says now"
        ),
    })
}

/// What the daemon will not do as the files say.
fn warnings(project: &Project, loaded: &Loaded) -> Vec<Diagnostic> {
    let mut all: Vec<Diagnostic> =
        project.new_warnings().iter().chain(&loaded.diagnostics).cloned().collect();
    for (group, limit) in &loaded.concurrency_limits {
        let kept = project.config.limits.groups.get(group).copied().unwrap_or(1);
        if kept != *limit {
            let message =
                format!("the group {group} may have {limit} at once here, but the daemon keeps to {kept}");
            let warning =
                Diagnostic::warning("limits.groups", regatta_core::diagnostic::Pos::NOWHERE, message);
            all.push(
                warning.hinted(format!(
                    "write `limits: {{ groups: {{ {group}: {limit} }} }}` into regatta.yaml"
                )),
            );
        }
    }
    for hook in &loaded.hooks {
        let message = format!("`{}` is called by `regatta run` only, not by the daemon", hook.key());
        let warning = Diagnostic::warning(hook.key(), regatta_core::diagnostic::Pos::NOWHERE, message);
        all.push(
            warning.hinted(
                "for the daemon, regatta.yaml has `notify: [{ on: [failed], webhook: \"https://…\" }]`",
            ),
        );
    }
    all
}

/// What is in the queue now, as a document.
pub(crate) async fn document(
    queue: &Queue,
    tasks: &[TaskSpec],
    warnings: &[Diagnostic],
) -> Result<ChangesDocument, CliError> {
    let ids = Some(tasks.iter().map(|spec| spec.id.clone()).collect());
    let stored = queue.store.briefs(&TaskQuery { ids, ..TaskQuery::default() }).await?;
    let tasks =
        stored.into_iter().map(|task| ChangedDocument { task: task.into(), salvaged: None }).collect();
    let daemon = queue.takers.daemon_document();
    Ok(ChangesDocument { tasks, refused: Vec::new(), daemon, warnings: warnings.to_vec() })
}

/// What is in the queue now, and who takes it.
pub(crate) async fn tell(
    queue: &Queue,
    tasks: &[TaskSpec],
    warnings: &[Diagnostic],
    ui: &Ui,
) -> Result<Exit, CliError> {
    if ui.json {
        ui.document(&document(queue, tasks, warnings).await?);
        return Ok(Exit::Ok);
    }
    let ids = Some(tasks.iter().map(|spec| spec.id.clone()).collect());
    let stored = queue.store.briefs(&TaskQuery { ids, ..TaskQuery::default() }).await?;
    for warning in warnings {
        ui.note(warning.to_string());
    }
    let n_shown = if ui.verbose || stored.len() <= MANY { stored.len() } else { MANY };
    let mut text = String::new();
    for task in stored.iter().take(n_shown) {
        let why = super::list::why(&task.state, &task.waiting_on);
        let why = if why.is_empty() { why } else { format!("  {why}") };
        let id = &task.id;
        let lands = tasks.iter().any(|spec| spec.id == *id && spec.land);
        let chained = matches!(task.part, Some(Part::Builder { lands: true, .. }));
        let fate = match (lands, task.read_only) {
            _ if chained => "lands when its chain has passed".to_owned(),
            _ if matches!(task.part, Some(Part::Link { .. })) => "looks at it".to_owned(),
            (true, _) => "lands when it passes".to_owned(),
            (false, true) => "only reads".to_owned(),
            (false, false) => format!("stays on {}", id.branch()),
        };
        text.push_str(&format!("enqueued {id}  {}  {fate}{why}\n", task.state.name()));
    }
    if n_shown < stored.len() {
        let waiting = stored.iter().filter(|task| !task.waiting_on.is_empty()).count();
        text.push_str(&format!(
            "and {} more: {} tasks in all, {waiting} of them wait for others (`regatta list`)\n",
            stored.len() - n_shown,
            stored.len()
        ));
    }
    ui.out(&text);
    if !ui.quiet {
        ui.line(queue.takers.sentence(MAIN_QUEUE));
    }
    Ok(Exit::Ok)
}
