//! `regatta lane`: the worktrees that tasks work in.

pub(crate) mod retire;
mod sweep;

use std::sync::Arc;

use regatta_core::id::TaskId;
use regatta_engine::lanes::LanePurpose;
use regatta_store::Store;
use serde_json::json;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::{Project, find_task};
use crate::render::text::table;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// List and remove lanes, the git worktrees that tasks work in.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum LaneCommand {
    /// List every lane: its task, its path, and whether it is intact.
    List {
        /// Include lanes in the pool, which are free for the next tasks.
        #[arg(long)]
        pooled: bool,
    },
    /// Print the path of a task's lane, as for `cd "$(regatta lane path ID)"`.
    Path {
        /// The task, or the beginning of its id.
        #[arg(value_name = "ID")]
        task: String,
    },
    /// Remove a task's lane. Refused while an agent works in it, and while it holds work that is saved nowhere else.
    Retire(retire::Args),
    /// Remove the lanes of ended tasks that hold no unsaved work, the lanes in the pool, and leftovers of removals.
    Sweep(sweep::Args),
}

pub(crate) async fn run(command: LaneCommand, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::open(&global.options())?;
    match command {
        LaneCommand::List { pooled } => list(&project, pooled, ui).await,
        LaneCommand::Path { task } => path(&project, &task, ui).await,
        LaneCommand::Retire(args) => retire::run(&project, args, ui).await,
        LaneCommand::Sweep(args) => sweep::run(&project, args, ui).await,
    }
}

async fn list(project: &Project, pooled: bool, ui: &Ui) -> Result<Exit, Refusal> {
    let (found, pooled) = match project.lanes()? {
        Some(lanes) => (lanes.list()?, if pooled { lanes.pooled() } else { Vec::new() }),
        None => (Vec::new(), Vec::new()),
    };
    if ui.json {
        let object = |lane: &regatta_engine::lanes::LaneInfo| json!({ "task": lane.task, "path": lane.path, "base": lane.base, "head": lane.head, "broken": lane.broken, "for": word(lane.purpose) });
        let in_pool = |lane: &regatta_engine::lanes::PooledLane| json!({ "task": null, "path": lane.path, "base": lane.base, "head": null, "broken": null, "pooled": lane.number, "held_by": lane.held_by });
        ui.document(&found.iter().map(object).chain(pooled.iter().map(in_pool)).collect::<Vec<_>>());
        return Ok(Exit::Ok);
    }
    let mut rows: Vec<Vec<String>> = found
        .iter()
        .map(|lane| {
            let head = lane.head.as_ref().map_or("-", |head| head.short());
            let state = lane.broken.map_or_else(String::new, |why| format!("⚠ {why}"));
            let whose = match lane.purpose {
                LanePurpose::Task => lane.task.to_string(),
                other => format!("({})", word(other)),
            };
            vec![
                whose,
                lane.base.short().to_owned(),
                head.to_owned(),
                format!("{}  {state}", lane.path.display()).trim_end().to_owned(),
            ]
        })
        .collect();
    rows.extend(pooled.iter().map(|lane| {
        let where_it_is = lane.path.display().to_string();
        vec!["(pool)".to_owned(), lane.base.short().to_owned(), "-".to_owned(), where_it_is]
    }));
    if rows.is_empty() && !ui.quiet {
        ui.note("no lanes");
    } else if !rows.is_empty() {
        ui.out(&table(&["TASK", "BASE", "HEAD", "WHERE"], &rows));
    }
    Ok(Exit::Ok)
}

/// `task`, `reader` or `gate`.
fn word(purpose: LanePurpose) -> &'static str {
    match purpose {
        LanePurpose::Task => "task",
        LanePurpose::Reader => "reader",
        LanePurpose::Gate => "gate",
    }
}

/// Removes a task's lane, as `regatta lane retire` does.
pub(crate) async fn retire_one(
    project: &Project,
    store: &Arc<dyn Store>,
    id: &TaskId,
) -> Result<Option<String>, Refusal> {
    regatta_ops::tasks::retire::retire_lane(project, Some(store), id, false).await
}

async fn path(project: &Project, text: &str, ui: &Ui) -> Result<Exit, Refusal> {
    let store = project.store().await?;
    let id = find_task(store.as_ref(), text).await?.spec.id;
    let lane = match project.lanes()? {
        Some(lanes) => lanes.find(&id)?,
        None => None,
    };
    let Some(lane) = lane.filter(|lane| lane.path.is_dir()) else {
        return Err(Refusal::not_found(format!("{id} has no lane"))
            .hinted(format!("`regatta status {id}` shows what happened to it")));
    };
    match ui.json {
        true => ui.document(&json!({ "task": id, "path": lane.path, "base": lane.base })),
        false => ui.line(lane.path.display().to_string()),
    }
    Ok(Exit::Ok)
}
