//! `regatta list`: the tasks, and with `-w` how they change.

mod table;

use std::time::Duration;

use regatta_core::state::StateName;
use regatta_ops::documents::TaskDocument;
use regatta_ops::look::tasks::{Listed, states};
use regatta_store::{Store, TaskQuery};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;
use regatta_ops::{Refusal, StoreChanges};

/// The most tasks shown on a terminal.
const ON_A_TERMINAL: usize = 200;
/// How often a watched list is redrawn without a change, because its times move on.
const TICK: Duration = Duration::from_secs(1);

/// List tasks: state, attempts, time, cost, title, and what each does or waits for.
///
/// On a terminal it shows at most 200 tasks, those that changed last, and counts the others. Into a pipe or a file,
/// with --json and with --all it shows every task.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Only tasks in this state; `active` is every state in which something may still happen, `all` is the default.
    #[arg(long, value_name = "STATE", default_value = "all", value_parser = words())]
    status: String,
    /// Show every task, even on a terminal.
    #[arg(long)]
    all: bool,
    /// Keep watching: redraw on every change, or with --json print one array per line.
    #[arg(long, short = 'w')]
    watch: bool,
}

fn words() -> clap::builder::PossibleValuesParser {
    ["all", "active"].into_iter().chain(StateName::ALL.map(StateName::as_str)).collect::<Vec<_>>().into()
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::look(&global.options())?;
    let limit = if args.all || ui.json || !ui.terminal { 0 } else { ON_A_TERMINAL };
    let query = TaskQuery { states: states(&args.status)?, limit, latest: true, ..TaskQuery::default() };
    if args.watch {
        let store = project.create_store().await?;
        return watch(store.as_ref(), &project, &query, args.all, ui).await;
    }
    // Before the first run there is no store and no task.
    let store = if project.has_store() { Some(project.store().await?) } else { None };
    if ui.json {
        return print_documents(store.as_deref(), &project, &query, ui).await;
    }
    let seen = match &store {
        Some(store) => Listed::load(store.as_ref(), &project, &query).await?,
        None => Listed::default(),
    };
    ui.out(&draw(&seen, ui));
    if let Some(store) = &store {
        ui.out(&others(store.as_ref(), &query, seen.tasks.len()).await?);
    }
    if seen.tasks.is_empty() && !ui.quiet {
        ui.note(match args.status.as_str() {
            "all" => {
                "no tasks yet; `regatta run PLAN` adds some, `regatta new ID` creates a task file".to_owned()
            }
            word => format!("no {word} tasks; `regatta list` shows all"),
        });
    }
    Ok(Exit::Ok)
}

/// Prints every task as one array, page by page: the first is printed while the rest is read.
async fn print_documents(
    store: Option<&dyn Store>,
    project: &Project,
    query: &TaskQuery,
    ui: &Ui,
) -> Result<Exit, Refusal> {
    let mut array = ui.array();
    if let Some(store) = store {
        let mut pages = store.brief_pages(query).await?;
        let mut seen = Listed::beside(store, project, query).await?;
        while let Some(page) = pages.recv().await {
            let documents: Vec<TaskDocument> = page?.into_iter().map(|task| seen.document(task)).collect();
            array.push(&documents);
        }
    }
    array.end();
    Ok(Exit::Ok)
}

/// A line about the tasks that are not shown; empty if all are.
async fn others(store: &dyn Store, query: &TaskQuery, n_shown: usize) -> Result<String, Refusal> {
    if query.limit == 0 || n_shown < query.limit {
        return Ok(String::new());
    }
    let mut counts = store.counts(None).await?;
    counts.retain(|(name, _)| query.states.is_empty() || query.states.contains(name));
    let total: u64 = counts.iter().map(|(_, n)| n).sum();
    let left = total.saturating_sub(n_shown as u64);
    if left == 0 {
        return Ok(String::new());
    }
    let counts: Vec<String> = counts.iter().map(|(name, n)| format!("{n} {name}")).collect();
    Ok(format!(
        "… and {left} more that changed earlier; {} in total. `regatta list --all` shows all\n",
        counts.join(", ")
    ))
}

/// Shows the list once, and again whenever it changes; on a terminal also every second, for its times. Ends when
/// interrupted.
async fn watch(
    store: &dyn Store,
    project: &Project,
    query: &TaskQuery,
    all: bool,
    ui: &Ui,
) -> Result<Exit, Refusal> {
    let mut changes = StoreChanges::of(store).await?;
    let mut last: Option<Vec<TaskDocument>> = None;
    let mut drawn = String::new();
    loop {
        let seen = Listed::load(store, project, query).await?;
        if ui.terminal && !ui.json {
            let others = others(store, query, seen.tasks.len()).await?;
            let rows = if all { None } else { ui.rows().map(|rows| rows.saturating_sub(2)) };
            let text = table::draw(&seen, ui, regatta_engine::clock::now(), rows) + &others;
            if text != drawn {
                // Drawn over the old lines: a cleared screen would go into the terminal's history.
                ui.page(&text, drawn.is_empty());
                drawn = text;
            }
        } else {
            let text = if ui.json { String::new() } else { draw(&seen, ui) };
            let now = seen.into_documents();
            if last.as_ref() != Some(&now) {
                if ui.json {
                    ui.object(&now);
                } else {
                    ui.out(&format!("{text}\n"));
                }
                last = Some(now);
            }
        }
        if ui.terminal && !ui.json {
            changes.next_within(TICK).await?;
        } else {
            changes.next().await?;
        }
    }
}

fn draw(seen: &Listed, ui: &Ui) -> String {
    table::draw(seen, ui, regatta_engine::clock::now(), None)
}
