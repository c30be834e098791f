//! The list as a table that fits the terminal. Columns that are empty for all tasks are left out.

use regatta_core::state::TaskState;
use regatta_core::time::{Timestamp, human};
use regatta_ops::look::tasks::Listed;
use regatta_store::TaskBrief;
use unicode_width::UnicodeWidthStr as _;

use crate::render::shown::ago;
use crate::render::state::mark;
use crate::render::text::{fit, table};
use crate::ui::{Style, Ui};

/// From this width on, the agent is shown.
const WIDE: usize = 100;
/// Maximum width of title and reason without a terminal to fit.
const WIDEST: (usize, usize) = (50, 90);
/// Minimum width worth showing.
const NARROWEST: usize = 8;
/// Spaces between two columns.
const GAP: usize = 2;

/// One column: its heading, and its text for a task.
struct Column {
    heading: &'static str,
    cells: Vec<String>,
}

impl Column {
    fn new(heading: &'static str, tasks: &[&TaskBrief], cell: impl Fn(&TaskBrief) -> String) -> Self {
        Self { heading, cells: tasks.iter().map(|task| cell(task)).collect() }
    }

    fn width(&self) -> usize {
        self.cells.iter().map(|cell| cell.width()).max().unwrap_or(0).max(self.heading.width())
    }

    fn fit(&mut self, width: usize) {
        for cell in &mut self.cells {
            *cell = fit(cell, width);
        }
    }
}

/// Draws the table, with at most `lines` tasks if given; a last line says how many more there are.
pub(super) fn draw(seen: &Listed, ui: &Ui, now: Timestamp, lines: Option<usize>) -> String {
    draw_tasks(seen, &seen.tasks.iter().collect::<Vec<_>>(), ui, now, lines)
}

/// The same with some of the tasks only.
pub(super) fn draw_tasks(
    seen: &Listed,
    all: &[&TaskBrief],
    ui: &Ui,
    now: Timestamp,
    lines: Option<usize>,
) -> String {
    if all.is_empty() {
        return String::new();
    }
    let room = lines.map_or(all.len(), |lines| lines.saturating_sub(2).max(1));
    let tasks = &all[..all.len().min(room)];
    let columns = ui.columns();
    let mut shown = vec![
        Column::new("  TASK", tasks, |task| format!("{} {}", mark(task.state.kind()).0, task.id)),
        Column::new("STATE", tasks, |task| task.state.name().to_owned()),
        Column::new("TRY", tasks, |task| task.attempts.to_string()),
    ];
    if tasks.iter().any(|task| seen.repo(task).is_some()) {
        shown.insert(1, Column::new("REPO", tasks, |task| seen.repo(task).unwrap_or_default().to_owned()));
    }
    if columns.is_none_or(|columns| columns >= WIDE) {
        shown.push(Column::new("AGENT", tasks, |task| task.agent.clone()));
    }
    shown.push(Column::new("TIME", tasks, |task| time(task, now)));
    let cost = Column::new("COST", tasks, |task| {
        seen.cost(task).map_or_else(String::new, |usd| format!("${usd:.2}"))
    });
    if cost.cells.iter().any(|cell| !cell.is_empty()) {
        shown.push(cost);
    }
    let mut title = Column::new("TITLE", tasks, |task| task.title.clone());
    let mut why = Column::new("NOW", tasks, |task| seen.why(task, now));
    if let Some(columns) = columns {
        // Ids are shortened last, and never completely.
        shown[0].fit((columns / 3).max(NARROWEST));
    }
    let (for_title, for_why) = match columns {
        None => WIDEST,
        Some(columns) => {
            let used: usize = shown.iter().map(|column| column.width() + GAP).sum();
            let left = columns.saturating_sub(used + GAP);
            // The reason matters more than the title; space that one does not use goes to the other.
            let for_title = (left * 2 / 5).max(left.saturating_sub(why.width())).max(NARROWEST);
            let for_title = for_title.min(title.width());
            (for_title, left.saturating_sub(for_title).max(NARROWEST))
        }
    };
    title.fit(for_title);
    why.fit(for_why);
    shown.extend([title, why]);
    let headings: Vec<&str> = shown.iter().map(|column| column.heading).collect();
    let rows: Vec<Vec<String>> =
        (0..tasks.len()).map(|n| shown.iter().map(|column| column.cells[n].clone()).collect()).collect();
    let mut text = table(&headings, &rows);
    if ui.color {
        // Coloured line by line, so that column widths are computed without colour codes.
        let styles = std::iter::once(Style::Strong).chain(tasks.iter().map(|task| mark(task.state.kind()).1));
        text = text.lines().zip(styles).map(|(line, style)| ui.paint(style, line) + "\n").collect();
    }
    if all.len() > tasks.len() {
        text.push_str(&format!("  … and {} more\n", all.len() - tasks.len()));
    }
    text
}

/// How long the task has been in its state, or how long ago it ended.
fn time(task: &TaskBrief, now: Timestamp) -> String {
    match task.state {
        TaskState::Claimed { .. }
        | TaskState::Running { .. }
        | TaskState::Judging { .. }
        | TaskState::Landing { .. } => human(now.since(task.updated_at)),
        _ => ago(task.updated_at, now),
    }
}
