//! `regatta list`: what there is, and with `-w` how it changes.

use regatta_core::state::TaskState;
use regatta_server::documents::TaskDocument;
use regatta_store::{Store, TaskQuery, TaskRecord};

use crate::cli::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::project::Project;
use crate::render::shown::{ago, clean_line};
use crate::render::state::mark;
use crate::render::text::{fit, table};
use crate::ui::{Style, Ui};

/// List tasks: state, attempts, agent and what each waits for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Only tasks in this state; `active` is every state in which something may still happen, `all` is the default.
    #[arg(long, value_name = "STATE", default_value = "all", value_parser = words())]
    status: String,
    /// Keep watching: draw it again on every change, or with --json print one array per line.
    #[arg(long, short = 'w')]
    watch: bool,
}

fn words() -> clap::builder::PossibleValuesParser {
    ["all", "active"].into_iter().chain(TaskState::NAMES).collect::<Vec<_>>().into()
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let project = Project::open(global)?;
    let query = TaskQuery { states: states(&args.status), ..TaskQuery::default() };
    if args.watch {
        let store = project.create_store().await?;
        return watch(store.as_ref(), &query, ui).await;
    }
    // Before the first run there is no store, and no task either.
    let tasks = match project.has_store() {
        true => project.store().await?.tasks(&query).await?,
        false => Vec::new(),
    };
    if ui.json {
        ui.document(&documents(&tasks));
        return Ok(Exit::Ok);
    }
    ui.out(&draw(&tasks, ui));
    if tasks.is_empty() && !ui.quiet {
        ui.note(match args.status.as_str() {
            "all" => "no tasks yet: `regatta run PLAN` brings some in, `regatta new ID` makes a task file"
                .to_owned(),
            word => format!("no {word} tasks; `regatta list` shows all"),
        });
    }
    Ok(Exit::Ok)
}

fn states(word: &str) -> Vec<String> {
    match word {
        "all" => Vec::new(),
        "active" => {
            let settled = ["done", "landed", "failed", "cancelled", "skipped"];
            TaskState::NAMES
                .iter()
                .filter(|name| !settled.contains(name))
                .map(|name| (*name).into())
                .collect()
        }
        name => vec![name.to_owned()],
    }
}

/// Shows the list once, and again whenever it is another one. Ends when it is interrupted.
async fn watch(store: &dyn Store, query: &TaskQuery, ui: &Ui) -> Result<Exit, CliError> {
    let mut changes = store.subscribe().await?;
    let mut last: Option<Vec<TaskDocument>> = None;
    loop {
        // Marked as seen before reading: what comes in between wakes us again.
        changes.borrow_and_update();
        let tasks = store.tasks(query).await?;
        let now = documents(&tasks);
        if last.as_ref() != Some(&now) {
            match (ui.json, ui.terminal) {
                (true, _) => ui.object(&now),
                (false, true) => ui.out(&format!("\x1b[H\x1b[2J{}", draw(&tasks, ui))),
                (false, false) => ui.out(&format!("{}\n", draw(&tasks, ui))),
            }
            last = Some(now);
        }
        if changes.changed().await.is_err() {
            return Err(CliError::new(Exit::CannotWork, "the store stopped telling of changes"));
        }
    }
}

fn documents(tasks: &[TaskRecord]) -> Vec<TaskDocument> {
    tasks.iter().map(TaskDocument::from).collect()
}

/// What a task waits for, or why it is where it is.
pub(crate) fn why(task: &TaskRecord) -> String {
    if let Some(reason) = task.state.reason() {
        return clean_line(&reason);
    }
    if let TaskState::Pending { not_before: Some(at) } = &task.state {
        return format!("to be tried again at {at}");
    }
    match task.waiting_on.as_slice() {
        [] => String::new(),
        on => format!("waits for {}", on.iter().map(|id| id.as_str()).collect::<Vec<_>>().join(", ")),
    }
}

fn draw(tasks: &[TaskRecord], ui: &Ui) -> String {
    if tasks.is_empty() {
        return String::new();
    }
    let now = regatta_engine::clock::now();
    let rows: Vec<Vec<String>> = tasks
        .iter()
        .map(|task| {
            let (glyph, _) = mark(task.state.name());
            vec![
                format!("{glyph} {}", task.spec.id),
                task.state.name().to_owned(),
                task.attempts.to_string(),
                task.spec.agent.clone(),
                ago(task.updated_at, now),
                fit(&why(task), 70),
            ]
        })
        .collect();
    let text = table(&["  TASK", "STATE", "ATTEMPTS", "AGENT", "UPDATED", "WHY"], &rows);
    if !ui.color {
        return text;
    }
    // Painted by line, so that the columns are counted without colours.
    let styles = std::iter::once(Style::Strong).chain(tasks.iter().map(|task| mark(task.state.name()).1));
    text.lines().zip(styles).map(|(line, style)| ui.paint(style, line) + "\n").collect()
}
