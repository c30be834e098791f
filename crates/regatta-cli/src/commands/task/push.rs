//! `regatta task push`: puts a task on the board.

use regatta_core::crew::{MemberName, Role, Wanted};
use regatta_core::id::TaskId;
use regatta_core::spec::TaskSpec;
use regatta_engine::clock;
use regatta_store::{BOARD_QUEUE, IfPresent, NewTask, RequestId, Store, StoreError, TaskQuery};

use super::held::tell;
use crate::cli::Global;
use crate::commands::crew::register::role;
use crate::commands::enqueue::names;
use crate::crew::{member_name, open};
use crate::error::CliError;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;
use regatta_ops::tasks::{dependencies, there_already};

/// More people than this do not push a task at the same moment.
const TRIES: u64 = 1000;
/// What stands for the agent of a task that members do.
const BY_MEMBERS: &str = "crew";

/// Put a task on the board, for whoever claims it, for a role, or for one member.
///
/// It is named TASK-001, TASK-002 and so on, unless --id says otherwise. No daemon takes it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// What it is, in one line.
    #[arg(value_name = "TITLE")]
    pub(crate) title: String,
    /// What is to be done, at length.
    #[arg(long, short = 'd', value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Its id.
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<TaskId>,
    /// Only members of this role take it, and general ones.
    #[arg(long, value_name = "ROLE", value_parser = role)]
    pub(crate) role: Option<Role>,
    /// Only this member takes it, until it has left the crew.
    #[arg(long, visible_alias = "assignee", value_name = "NAME", value_parser = member_name)]
    pub(crate) assign: Option<MemberName>,
    /// Higher is taken first.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-9999..=9999))]
    pub(crate) priority: i32,
    /// What it depends on: ids with commas between them.
    #[arg(long, value_name = "IDS")]
    pub(crate) deps: Option<String>,
    /// Failures allowed, the last one included.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) max_attempts: Option<u32>,
    /// Commands that Regatta runs on what was made in a lane before it believes that it is done; may be repeated.
    #[arg(long = "check", value_name = "COMMAND")]
    pub(crate) checks: Vec<String>,
    /// Land what was made in a lane, also where regatta.yaml does not say so.
    #[arg(long)]
    pub(crate) land: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    push(args, &NUMBERED, global, ui).await
}

/// TASK-001, TASK-002 and so on.
pub(crate) const NUMBERED: Naming = Naming { prefix: "TASK-", width: 3, first: 1 };

/// How a task is named whose id is not given.
pub(crate) struct Naming {
    pub(crate) prefix: &'static str,
    pub(crate) width: usize,
    pub(crate) first: u64,
}

pub(crate) async fn push(args: Args, naming: &Naming, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    if args.title.trim().is_empty() {
        return Err(
            CliError::usage("the title is empty").hinted("say what is to be done: regatta task push \"…\"")
        );
    }
    let (project, store) = open(global).await?;
    let spec = put_on_board(&args, naming, &project, store.as_ref()).await?;
    if let Some(name) = &args.assign
        && !ui.quiet
        && !store.members().await?.iter().any(|member| member.name.is(name) && member.is_there)
    {
        ui.note(format!("{name} is not there yet: it waits until `regatta crew register {name}`"));
    }
    tell(store.as_ref(), &spec.id, "is on the board", ui).await
}

/// The task as it is on the board then.
pub(crate) async fn put_on_board(
    args: &Args,
    naming: &Naming,
    project: &Project,
    store: &dyn Store,
) -> Result<TaskSpec, CliError> {
    project.require_trust().await?;
    let deps = match &args.deps {
        Some(text) => dependencies(&names(text), store, args.id.as_ref()).await?,
        None => Vec::new(),
    };
    let make = |id: &TaskId| spec(args, project, id, deps.clone());
    match &args.id {
        Some(id) => {
            let spec = make(id);
            if !put(store, &spec).await? {
                return Err(there_already(&[store.task(id).await?]));
            }
            Ok(spec)
        }
        None => put_numbered(project, store, naming, make).await,
    }
}

fn spec(args: &Args, project: &Project, id: &TaskId, deps: Vec<TaskId>) -> TaskSpec {
    let defaults = &project.config.defaults;
    let prompt = args.description.clone().unwrap_or_else(|| args.title.clone());
    TaskSpec {
        title: args.title.trim().to_owned(),
        priority: args.priority,
        deps,
        checks: if args.checks.is_empty() { defaults.checks.clone() } else { args.checks.clone() },
        max_attempts: args.max_attempts.unwrap_or(defaults.max_attempts),
        auto_commit: defaults.auto_commit,
        land: args.land || project.config.land.auto.unwrap_or(false),
        wanted: Wanted { member: args.assign.clone(), role: args.role.clone() },
        ..TaskSpec::plain(id.clone(), BY_MEMBERS, &prompt)
    }
}

/// Puts it in under the next free number. Whoever is faster gets that one, and this one the next.
async fn put_numbered(
    project: &Project,
    store: &dyn Store,
    naming: &Naming,
    make: impl Fn(&TaskId) -> TaskSpec,
) -> Result<TaskSpec, CliError> {
    let Naming { prefix, width, first } = *naming;
    let query = TaskQuery { prefix: Some(prefix.to_owned()), ..TaskQuery::default() };
    let number = |id: &TaskId| id.as_str().get(prefix.len()..)?.parse::<u64>().ok();
    let taken = store.briefs(&query).await?;
    let next = taken.iter().filter_map(|task| number(&task.id)).max().map_or(first, |last| last + 1);
    for n in next..next.saturating_add(TRIES) {
        let id = TaskId::parse(&format!("{prefix}{n:0width$}")).expect("letters and digits make a task id");
        // A branch of that name is somebody's work, though the store has forgotten whose.
        if project.repo.branch_tip(&id.branch())?.is_some() {
            continue;
        }
        let spec = make(&id);
        if put(store, &spec).await? {
            return Ok(spec);
        }
    }
    Err(CliError::refused("no number was free for long enough").hinted("name it yourself: --id ID"))
}

/// False if the id is taken.
async fn put(store: &dyn Store, spec: &TaskSpec) -> Result<bool, CliError> {
    let queue = BOARD_QUEUE.to_owned();
    let new = [NewTask { spec: spec.clone(), queue, if_present: IfPresent::Refuse }];
    match store.enqueue(&new, &RequestId::fresh(), clock::now()).await {
        Ok(()) => Ok(true),
        Err(StoreError::Conflict(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
