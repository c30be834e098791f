//! `regatta list`: the tasks, and with `-w` how they change.

mod sections;
mod table;

use std::time::Duration;

use regatta_core::state::StateName;
use regatta_ops::look::listing::{LeftOut, ListWatch, each_page, left_out};
use regatta_ops::look::review::states_with_a_column;
use regatta_ops::look::tasks::{Listed, states};
use regatta_ops::nodes::tasks_on;
use regatta_store::{Store, TaskQuery};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;
use regatta_ops::Refusal;

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
    /// Show who acts next, in four sections: Working, Needs you, In review, Ready to merge. Tasks that are over are
    /// left out.
    #[arg(long, value_name = "WHAT", value_parser = ["review"])]
    by: Option<String>,
    /// Only tasks that this node works on, worked on last, or is to work on: its name, or the beginning of its id.
    #[arg(long, value_name = "NODE", conflicts_with = "watch")]
    node: Option<String>,
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
    let by_review = args.by.is_some();
    let is_whole = args.all || args.node.is_some() || ui.json || !ui.terminal || by_review;
    let limit = if is_whole { 0 } else { ON_A_TERMINAL };
    let mut states = states(&args.status)?;
    if by_review && states.is_empty() {
        states = states_with_a_column();
    }
    let mut query = TaskQuery { states, limit, latest: true, ..TaskQuery::default() };
    if args.watch {
        let store = project.store_to_follow().await?;
        return watch(store.as_ref(), &project, (&query, by_review), args.all, ui).await;
    }
    // Before the first run there is no store and no task.
    let store = if project.has_store() { Some(project.store().await?) } else { None };
    if let (Some(store), Some(node)) = (&store, &args.node) {
        query.ids = Some(tasks_on(store.as_ref(), &query, node).await?);
    }
    if ui.json {
        let mut array = ui.array();
        if let Some(store) = &store {
            each_page(&project, store.as_ref(), (&query, by_review), |documents| array.push(documents))
                .await?;
        }
        array.end();
        return Ok(Exit::Ok);
    }
    let mut seen = match &store {
        Some(store) => Listed::load(store.as_ref(), &project, &query).await?,
        None => Listed::default(),
    };
    if let Some(store) = store.as_ref().filter(|_| by_review) {
        seen = seen.by_review(store.as_ref(), &project).await?;
    }
    let lines = (by_review && ui.terminal && !args.all).then_some(ON_A_TERMINAL);
    ui.out(&draw(&seen, by_review, ui, lines));
    if let Some(store) = &store {
        ui.out(&others(left_out(store.as_ref(), &query, seen.tasks.len()).await?.as_ref()));
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

/// A line about the tasks that are not shown; empty if all are.
fn others(left: Option<&LeftOut>) -> String {
    let Some(LeftOut { n, counts }) = left else { return String::new() };
    let counts: Vec<String> = counts.iter().map(|(name, n)| format!("{n} {name}")).collect();
    format!(
        "… and {n} more that changed earlier; {} in total. `regatta list --all` shows all\n",
        counts.join(", ")
    )
}

/// Shows the list once, and again whenever it changes; on a terminal also every second, for its times. Ends when
/// interrupted.
async fn watch(
    store: &dyn Store,
    project: &Project,
    (query, by_review): (&TaskQuery, bool),
    all: bool,
    ui: &Ui,
) -> Result<Exit, Refusal> {
    let mut watch = ListWatch::new(project, store, (query, by_review)).await?;
    if ui.json || !ui.terminal {
        loop {
            let (seen, documents) = watch.next().await?;
            if ui.json {
                ui.object(&documents);
            } else {
                ui.out(&format!("{}\n", draw(&seen, by_review, ui, None)));
            }
        }
    }
    let mut drawn = String::new();
    loop {
        let seen = watch.next_within(TICK).await?;
        let left = left_out(store, query, seen.tasks.len()).await?;
        let rows = if all { None } else { ui.rows().map(|rows| rows.saturating_sub(2)) };
        let text = draw(&seen, by_review, ui, rows) + &others(left.as_ref());
        if text != drawn {
            // Drawn over the old lines: a cleared screen would go into the terminal's history.
            ui.page(&text, drawn.is_empty());
            drawn = text;
        }
    }
}

/// The list in at most `lines` lines if given, as one table or as one for each column of the review.
fn draw(seen: &Listed, by_review: bool, ui: &Ui, lines: Option<usize>) -> String {
    let now = regatta_engine::clock::now();
    if by_review { sections::draw(seen, ui, now, lines) } else { table::draw(seen, ui, now, lines) }
}
