//! Who works: the processes that take tasks.

use ratatui::layout::Rect;

use super::{Pen, row};
use crate::render::text::pad;
use crate::top::model::Model;
use crate::top::screen::Screen;
use crate::ui::Style;

pub(super) fn draw(pen: &mut Pen<'_>, area: Rect, model: &Model, screen: &mut Screen) {
    let lines = lines(model);
    screen.height = usize::from(area.height);
    screen.scroll = screen.scroll.min(lines.len().saturating_sub(screen.height));
    for (n, line) in lines.iter().skip(screen.scroll).take(screen.height).enumerate() {
        let spans: Vec<(Style, &str)> = line.iter().map(|(style, text)| (*style, text.as_str())).collect();
        pen.text(row(area, n), &spans);
    }
}

fn lines(model: &Model) -> Vec<Vec<(Style, String)>> {
    let mut lines = Vec::new();
    if model.workers.is_empty() {
        let text =
            "nobody takes tasks: `regatta daemon` serves the queue, `regatta run PLAN` a plan of its own";
        lines.push(vec![(Style::Dim, text.to_owned())]);
    } else {
        lines.push(vec![(Style::Strong, format!("  {} {} NODE", pad("WHAT", 40), pad("PROCESS", 9)))]);
    }
    for worker in &model.workers {
        let (glyph, style) = if worker.dead { ("✕", Style::Bad) } else { ("●", Style::Busy) };
        let left = format!("{glyph} {} {} ", pad(&worker.what, 40), pad(&worker.pid.to_string(), 9));
        let rest = if worker.dead { format!("{}: gone", worker.node) } else { worker.node.clone() };
        lines.push(vec![(style, left), (Style::Dim, rest)]);
    }
    if !model.members.is_empty() {
        lines.push(Vec::new());
        lines.push(vec![(Style::Strong, format!("  {} {} HOLDS", pad("MEMBER", 24), pad("ROLE", 15)))]);
    }
    for member in &model.members {
        let (glyph, style) = if member.is_there { ("●", Style::Busy) } else { ("○", Style::Dim) };
        let left = format!("{glyph} {} {} ", pad(&member.name, 24), pad(&member.role, 15));
        let gone = if member.is_there { "" } else { "has left; " };
        lines.push(vec![(style, left), (Style::Dim, format!("{gone}{}", member.tasks))]);
    }
    lines
}
