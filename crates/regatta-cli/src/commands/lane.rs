//! `regatta lane`: the worktrees that tasks work in.

pub(crate) mod retire;
mod sweep;

use regatta_engine::lanes::LanePurpose;
use regatta_ops::Refusal;
use regatta_ops::documents::LaneDocument;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::render::text::table;
use crate::ui::Ui;

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
        LaneCommand::List { pooled } => list(&project, pooled, ui),
        LaneCommand::Path { task } => path(&project, &task, ui).await,
        LaneCommand::Retire(args) => retire::run(&project, args, ui).await,
        LaneCommand::Sweep(args) => sweep::run(&project, args, ui).await,
    }
}

fn list(project: &Project, pooled: bool, ui: &Ui) -> Result<Exit, Refusal> {
    let found = project.list_lanes(pooled)?;
    if ui.json {
        ui.document(&found);
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<String>> = found.iter().map(row).collect();
    if rows.is_empty() && !ui.quiet {
        ui.note("no lanes");
    } else if !rows.is_empty() {
        ui.out(&table(&["TASK", "BASE", "HEAD", "WHERE"], &rows));
    }
    Ok(Exit::Ok)
}

fn row(lane: &LaneDocument) -> Vec<String> {
    match lane {
        LaneDocument::Used(lane) => {
            let head = lane.head.as_ref().map_or("-", |head| head.short());
            let state = lane.broken.map_or_else(String::new, |why| format!("⚠ {why}"));
            let whose = match lane.purpose {
                LanePurpose::Task => lane.task.to_string(),
                other => format!("({})", other.as_str()),
            };
            vec![
                whose,
                lane.base.short().to_owned(),
                head.to_owned(),
                format!("{}  {state}", lane.path.display()).trim_end().to_owned(),
            ]
        }
        LaneDocument::Pooled(lane) => {
            let path = lane.path.display().to_string();
            vec!["(pool)".to_owned(), lane.base.short().to_owned(), "-".to_owned(), path]
        }
    }
}

async fn path(project: &Project, task: &str, ui: &Ui) -> Result<Exit, Refusal> {
    let document = project.lane_path(task).await?;
    if ui.json {
        ui.document(&document);
    } else {
        ui.line(document.path.display().to_string());
    }
    Ok(Exit::Ok)
}
