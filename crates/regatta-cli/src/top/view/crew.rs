//! The engines, the crew's members, and their messages.

use ratatui::layout::Rect;

use super::{Pen, letters, row, scrolled};
use crate::render::text::pad;
use crate::top::model::Model;
use crate::top::screen::Screen;
use crate::ui::Style;

pub(super) fn draw(pen: &mut Pen<'_>, area: Rect, model: &Model, screen: &mut Screen) {
    let (lines, marked) = lines(model, screen);
    let (who, below) = split(area, lines.len(), model.crew.letters.is_empty());
    let height = usize::from(who.height);
    screen.scroll = match marked {
        Some(line) => scrolled(screen.scroll, line, lines.len(), height),
        None => screen.scroll.min(lines.len().saturating_sub(height)),
    };
    for (n, line) in lines.iter().skip(screen.scroll).take(height).enumerate() {
        let spans: Vec<(Style, &str)> = line.iter().map(|(style, text)| (*style, text.as_str())).collect();
        pen.text(row(who, n), &spans);
        if marked == Some(screen.scroll + n) {
            pen.choose(row(who, n));
        }
    }
    screen.height = height;
    if below.height > 0 {
        letters::draw(pen, below, model, screen);
        if screen.in_transcript {
            screen.height = usize::from(below.height);
        }
    }
}

/// The engines and members get at most half of the area, the messages the rest; without messages they get all of it.
fn split(area: Rect, n_lines: usize, silent: bool) -> (Rect, Rect) {
    if silent {
        return (area, Rect { height: 0, ..area });
    }
    let wanted = u16::try_from(n_lines + 1).unwrap_or(u16::MAX);
    let height = wanted.min(area.height / 2);
    (Rect { height, ..area }, Rect { y: area.y + height, height: area.height - height, ..area })
}

/// The lines, and which of them is the selected member's.
fn lines(model: &Model, screen: &Screen) -> (Vec<Vec<(Style, String)>>, Option<usize>) {
    let mut lines = Vec::new();
    if model.workers.is_empty() {
        let text =
            "no engine is running: `regatta daemon start` serves the queue, `regatta run PLAN` runs a plan";
        lines.push(vec![(Style::Dim, text.to_owned())]);
    } else {
        lines.push(vec![(Style::Strong, format!("   {} {} NODE", pad("WHAT", 40), pad("PROCESS", 9)))]);
    }
    for worker in &model.workers {
        let (glyph, style) = if worker.dead { ("✕", Style::Bad) } else { ("●", Style::Busy) };
        let left = format!(" {glyph} {} {} ", pad(&worker.what, 40), pad(&worker.pid.to_string(), 9));
        let rest = if worker.dead { format!("{}: gone", worker.node) } else { worker.node.clone() };
        lines.push(vec![(style, left), (Style::Dim, rest)]);
    }
    if !model.crew.members.is_empty() {
        lines.push(Vec::new());
        lines.push(vec![(Style::Strong, format!("   {} {} HOLDS", pad("MEMBER", 24), pad("ROLE", 15)))]);
    }
    let chosen = screen.member(model).map(|seat| &seat.name);
    let mut marked = None;
    for seat in &model.crew.members {
        let cursor = if chosen == Some(&seat.name) { "▸" } else { " " };
        if chosen == Some(&seat.name) {
            marked = Some(lines.len());
        }
        let (glyph, style) = if seat.is_there { ("●", Style::Busy) } else { ("○", Style::Dim) };
        let left = format!("{cursor}{glyph} {} {} ", pad(seat.name.as_str(), 24), pad(&seat.role, 15));
        let tasks: Vec<&str> = seat.tasks.iter().map(|task| task.as_str()).collect();
        let rest = if seat.is_there {
            tasks.join(", ")
        } else if tasks.is_empty() {
            "has left".to_owned()
        } else {
            format!("has left; {}", tasks.join(", "))
        };
        lines.push(vec![(style, left), (Style::Dim, rest)]);
    }
    (lines, marked)
}
