//! The board: a column for each stage of a task's life, or by review for who acts next on it; and below them one line about the selected task.

use ratatui::layout::Rect;
use regatta_core::forge::pull::Column;
use regatta_core::id::TaskId;
use regatta_core::state::StateName;
use regatta_core::time::Timestamp;
use unicode_width::UnicodeWidthStr;

use super::{Pen, row, rule, scrolled};
use crate::render::state::mark;
use crate::render::text::fit;
use crate::top::model::{Model, Row};
use crate::top::screen::{Screen, span};
use crate::ui::Style;

/// The columns with the states in them.
const COLUMNS: [(&str, &[StateName]); 5] = [
    ("waiting", &[StateName::Pending, StateName::Parked]),
    ("at work", &[StateName::Claimed, StateName::Running]),
    ("landing", &[StateName::Judging, StateName::Landing]),
    ("needs you", &[StateName::Blocked, StateName::Failed]),
    ("over", &[StateName::Landed, StateName::Done, StateName::Cancelled, StateName::Skipped]),
];

/// From this width on, a column shows times.
const TIMED: u16 = 30;

fn n_columns(screen: &Screen) -> usize {
    if screen.by_review { Column::ALL.len() } else { COLUMNS.len() }
}

/// The column of a task; by review, tasks that are over have none.
fn column(screen: &Screen, model: &Model, found: &Row) -> Option<usize> {
    if screen.by_review {
        let column = model.column(found)?;
        return Column::ALL.iter().position(|one| *one == column);
    }
    COLUMNS.iter().position(|(_, states)| states.contains(&found.state.kind()))
}

/// The name of a column, and how many tasks are in it.
fn title(screen: &Screen, model: &Model, n: usize) -> String {
    if screen.by_review {
        let column = Column::ALL[n];
        return format!(" {} {}", column.title().to_lowercase(), model.count_in(column));
    }
    let (name, states) = COLUMNS[n];
    format!(" {name} {}", model.count(states))
}

fn tasks_of<'a>(screen: &'a Screen, model: &'a Model, n: usize) -> impl Iterator<Item = &'a Row> {
    let rows = screen.list.iter().filter_map(|task| model.rows.get(task));
    rows.filter(move |found| column(screen, model, found) == Some(n))
}

fn here(screen: &Screen, model: &Model) -> Option<usize> {
    let found = screen.selected.as_ref().and_then(|task| model.rows.get(task))?;
    column(screen, model, found)
}

/// The first task on the board.
pub(in crate::top) fn first(screen: &Screen, model: &Model) -> Option<TaskId> {
    (0..n_columns(screen)).find_map(|n| tasks_of(screen, model, n).next()).map(|found| found.id.clone())
}

/// Whether the selected task is on the board.
pub(in crate::top) fn has_selected(screen: &Screen, model: &Model) -> bool {
    here(screen, model).is_some()
}

/// The tasks in the column of the selected one.
pub(in crate::top) fn column_of(screen: &Screen, model: &Model) -> Vec<TaskId> {
    let n = here(screen, model).unwrap_or(0);
    tasks_of(screen, model, n).map(|found| found.id.clone()).collect()
}

/// The task in the next column that is not empty, as far down as the selected one.
pub(in crate::top) fn beside(screen: &Screen, model: &Model, by: i32) -> Option<TaskId> {
    let from = here(screen, model).unwrap_or(0);
    let depth = column_of(screen, model).iter().position(|task| Some(task) == screen.selected.as_ref());
    let n_columns = n_columns(screen);
    let mut n = from;
    for _ in 1..n_columns {
        n = if by > 0 { (n + 1) % n_columns } else { (n + n_columns - 1) % n_columns };
        let tasks: Vec<&Row> = tasks_of(screen, model, n).collect();
        if let Some(last) = tasks.len().checked_sub(1) {
            return tasks.get(depth.unwrap_or(0).min(last)).map(|found| found.id.clone());
        }
    }
    None
}

pub(super) fn draw(pen: &mut Pen<'_>, area: Rect, model: &Model, screen: &mut Screen, now: Timestamp) {
    let n_columns = n_columns(screen);
    let width = area.width / u16::try_from(n_columns).unwrap_or(1);
    let (area, foot) = (Rect { height: area.height.saturating_sub(1), ..area }, area);
    screen.height = usize::from(area.height.saturating_sub(1));
    for n in 0..n_columns {
        let x = area.x + width * u16::try_from(n).unwrap_or(0);
        let at = Rect { x, width: width.saturating_sub(1), ..area };
        pen.text(at, &[(Style::Strong, &title(screen, model, n))]);
        let below = Rect { y: at.y + 1, height: at.height.saturating_sub(1), ..at };
        let tasks: Vec<&Row> = tasks_of(screen, model, n).collect();
        let place = tasks.iter().position(|found| Some(&found.id) == screen.selected.as_ref());
        let height = usize::from(below.height);
        let top = scrolled(0, place.unwrap_or(0), tasks.len(), height);
        let hidden = tasks.len().saturating_sub(top + height);
        for (line, found) in tasks.iter().skip(top).take(height).enumerate() {
            let at = row(below, line);
            if hidden > 0 && line + 1 == height && place != Some(top + line) {
                pen.text(at, &[(Style::Dim, &format!("  … {} more", hidden + 1))]);
                continue;
            }
            let (glyph, style) = mark(found.state.kind());
            let cursor = if place == Some(top + line) { "▸" } else { " " };
            let time = if width >= TIMED { span(found, now) } else { String::new() };
            let room = usize::from(at.width).saturating_sub(time.width() + 4);
            let (name, whose) = match model.crew.mark(found) {
                Some(whose) => {
                    let name = fit(found.id.as_str(), room.saturating_sub(2));
                    let whose = match room.saturating_sub(name.width() + 1) {
                        // Without room for the name only its sign is left: held by a member, or meant for one.
                        0..=2 => whose.chars().take(1).collect(),
                        rest => fit(&whose, rest),
                    };
                    (name, format!(" {whose}"))
                }
                None => (fit(found.id.as_str(), room), String::new()),
            };
            let gap = " ".repeat((room + 1).saturating_sub(name.width() + whose.width()));
            pen.text(
                at,
                &[
                    (style, &format!("{cursor}{glyph} {name}")),
                    (Style::Dim, &whose),
                    (Style::Dim, &format!("{gap}{time}")),
                ],
            );
            if place == Some(top + line) {
                pen.choose(at);
            }
        }
    }
    if let Some(found) = screen.selected.as_ref().and_then(|task| model.rows.get(task)) {
        let whose = model.crew.whose(&found.id).map(|whose| format!(" · {whose}")).unwrap_or_default();
        let why = if found.why.is_empty() { String::new() } else { format!(" · {}", found.why) };
        let text = format!("{}: {}{whose}{why}", found.id, found.title);
        rule(pen, row(foot, usize::from(area.height)), &text, false);
    }
}
