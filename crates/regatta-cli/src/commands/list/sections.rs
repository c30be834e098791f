//! The list by review: one section for each column, with its number of tasks.

use regatta_core::forge::pull::Column;
use regatta_core::time::Timestamp;
use regatta_ops::look::tasks::Listed;
use regatta_store::TaskBrief;

use super::table::draw_tasks;
use crate::ui::{Style, Ui};

/// Draws the sections, each with at most its part of `lines` if given.
pub(super) fn draw(seen: &Listed, ui: &Ui, now: Timestamp, lines: Option<usize>) -> String {
    // Between two sections there is an empty line.
    let part = lines.map(|lines| (lines / Column::ALL.len()).saturating_sub(2).max(3));
    let section = |column: Column| {
        let tasks: Vec<&TaskBrief> =
            seen.tasks.iter().filter(|task| seen.column(task) == Some(column)).collect();
        let heading = ui.paint(Style::Strong, &format!("{} ({})", column.title(), tasks.len()));
        format!("{heading}\n{}", draw_tasks(seen, &tasks, ui, now, part))
    };
    Column::ALL.map(section).join("\n")
}
