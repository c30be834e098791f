//! A page over the view: a task's detail, its diff, or its whole transcript.

use ratatui::layout::Rect;
use regatta_core::time::{Timestamp, counted};

use super::{Pen, row, rule, transcript};
use crate::top::model::Model;
use crate::top::screen::{PageKind, Screen, span};
use crate::ui::Style;

pub(super) fn draw(pen: &mut Pen<'_>, area: Rect, model: &Model, screen: &mut Screen, now: Timestamp) {
    screen.height = usize::from(area.height.saturating_sub(1));
    let height = screen.height;
    let Some(page) = &mut screen.page else { return };
    if page.kind == PageKind::Logs {
        transcript::draw(pen, area, model, screen);
        return;
    }
    let what = if page.kind == PageKind::Diff { "what it changed" } else { "detail" };
    let state = model.rows.get(&page.task).map_or_else(String::new, |found| {
        format!(" · {} {}", found.state.name(), span(found, now)).trim_end().to_owned()
    });
    let loading = page.lines.is_none();
    let (top, width) = (page.top, usize::from(area.width));
    let task = page.task.clone();
    let lines = page.wrapped(width);
    let top = top.min(lines.len().saturating_sub(height));
    let more = lines.len().saturating_sub(top + height);
    let below = if more > 0 { format!(" · {} below", counted(more, "line")) } else { String::new() };
    rule(pen, row(area, 0), &format!("{task}: {what}{state}{below}"), true);
    if loading {
        pen.text(row(area, 1), &[(Style::Dim, "reading…")]);
    }
    for (n, (style, text)) in lines.iter().skip(top).take(height).enumerate() {
        pen.text(row(area, n + 1), &[(*style, text)]);
    }
    page.top = top;
}
