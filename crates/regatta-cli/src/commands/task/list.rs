//! `regatta task list`: the board.

use regatta_core::state::StateName;
use regatta_engine::clock;
use regatta_ops::documents::crew::BoardTaskDocument;
pub(crate) use regatta_ops::documents::crew::board;
use regatta_ops::look::tasks::{states, why};
use regatta_store::TaskRecord;

use crate::cli::Global;
use crate::crew::open;
use crate::exit::Exit;
use crate::render::shown::ago;
use crate::render::state::mark;
use crate::render::text::{fit, table};
use crate::ui::Ui;
use regatta_ops::Refusal;

/// List the tasks of the board: state, who each is for, and who holds it. `regatta list` lists all tasks.
///
/// In a directory with registered repositories (`regatta repo`), and in a project with `repos` once it has such tasks,
/// it prints their PRD and GEN tasks as JSON, and the board of the current repository, if there is one.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Only tasks in this state; in_progress is running, completed is done or landed.
    #[arg(long, value_name = "STATE", value_parser = words())]
    pub(crate) status: Option<String>,
    /// With registered repositories: include destroyed tasks.
    #[arg(long)]
    pub(crate) include_history: bool,
}

pub(crate) fn words() -> clap::builder::PossibleValuesParser {
    StateName::ALL
        .into_iter()
        .map(StateName::as_str)
        .chain(["in_progress", "completed"])
        .collect::<Vec<_>>()
        .into()
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let parallel = global.parallel();
    if args.status.is_none() && (args.include_history || parallel.registered()?.is_some()) {
        ui.document(&parallel.list(args.include_history).await?);
        return Ok(Exit::Ok);
    }
    let states = states(args.status.as_deref().unwrap_or("all"))?;
    let board = board(open(global).await?.store.as_ref(), states).await?;
    if ui.json {
        ui.document(&board.iter().map(|(_, task)| task).collect::<Vec<_>>());
        return Ok(Exit::Ok);
    }
    if board.is_empty() {
        if !ui.quiet {
            ui.note("the board is empty; `regatta task push TITLE` adds a task");
        }
        return Ok(Exit::Ok);
    }
    let rows: Vec<[String; 6]> = board.iter().map(|(record, task)| row(record, task)).collect();
    ui.out(&table(&["  TASK", "STATE", "FOR", "HELD BY", "UPDATED", "WHAT"], &rows));
    Ok(Exit::Ok)
}

fn row(record: &TaskRecord, task: &BoardTaskDocument) -> [String; 6] {
    let (glyph, _) = mark(record.state.kind());
    let wanted = match (&task.assignee, &task.task.role) {
        (Some(member), _) => member.to_string(),
        (None, Some(role)) => format!("any {role}"),
        (None, None) => "anybody".to_owned(),
    };
    let why = why(&record.state, &record.waiting_on);
    let what =
        if why.is_empty() { record.spec.title.clone() } else { format!("{}: {why}", record.spec.title) };
    [
        format!("{glyph} {}", record.spec.id),
        record.state.name().to_owned(),
        wanted,
        task.holder.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
        ago(record.updated_at, clock::now()),
        fit(&what, 70),
    ]
}
