//! Who works: the processes that take tasks.

use ratatui::layout::Rect;

use super::{Pen, row};
use crate::render::text::pad;
use crate::top::model::Model;
use crate::top::screen::Screen;
use crate::ui::Style;

pub(super) fn draw(pen: &mut Pen<'_>, area: Rect, model: &Model, screen: &mut Screen) {
    screen.height = usize::from(area.height);
    screen.scroll = screen.scroll.min((model.workers.len() + 1).saturating_sub(screen.height));
    if model.workers.is_empty() {
        let text =
            "nobody works: `regatta daemon` takes what is in the queue, `regatta run PLAN` a plan of its own";
        pen.text(area, &[(Style::Dim, text)]);
        return;
    }
    let head = format!("  {} {} {}", pad("WHAT", 40), pad("PROCESS", 9), "NODE");
    pen.text(area, &[(Style::Strong, &head)]);
    for (n, worker) in model.workers.iter().skip(screen.scroll).enumerate() {
        let (glyph, style) = if worker.dead { ("✕", Style::Bad) } else { ("●", Style::Busy) };
        let left = format!("{glyph} {} {} ", pad(&worker.what, 40), pad(&worker.pid.to_string(), 9));
        let rest = if worker.dead { format!("{}: gone", worker.node) } else { worker.node.clone() };
        pen.text(row(area, n + 1), &[(style, &left), (Style::Dim, &rest)]);
    }
}
