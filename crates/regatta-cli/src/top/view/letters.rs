//! The messages of members and agents, newest at the bottom.

use ratatui::layout::Rect;
use regatta_core::time::counted;
use regatta_store::MessageKind;

use super::{Pen, row, rule};
use crate::render::text::wrap;
use crate::top::crew::Letter;
use crate::top::model::Model;
use crate::top::screen::Screen;
use crate::ui::Style;

pub(super) fn draw(pen: &mut Pen<'_>, area: Rect, model: &Model, screen: &mut Screen) {
    let up = screen.letters.0;
    let title = match up {
        0 => "messages".to_owned(),
        up => format!("messages · {} below", counted(up, "line")),
    };
    rule(pen, row(area, 0), &title, screen.in_transcript);
    let area = Rect { y: area.y + area.height.min(1), height: area.height.saturating_sub(1), ..area };
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let lines: Vec<(Style, String)> =
        model.crew.letters.iter().flat_map(|letter| shown(letter, width)).collect();
    let most = lines.len().saturating_sub(height);
    screen.letters = (up.min(most), most);
    for (n, (style, text)) in lines.iter().skip(most - screen.letters.0).take(height).enumerate() {
        pen.text(row(area, n), &[(*style, text)]);
    }
}

fn shown(letter: &Letter, width: usize) -> Vec<(Style, String)> {
    let kind = match letter.kind {
        MessageKind::Direct => "",
        MessageKind::Broadcast => " to everybody:",
        MessageKind::Help => " asks everybody:",
    };
    let to: Vec<&str> = letter.to.iter().map(|(name, _)| name.as_str()).collect();
    let mut head = format!("{} {} {}{kind} → {}", letter.id, letter.clock, letter.from, to.join(", "));
    if let Some(id) = letter.reply_to {
        head.push_str(&format!(", in answer to {id}"));
    }
    let unread: Vec<&str> =
        letter.to.iter().filter(|(_, is_read)| !is_read).map(|(name, _)| name.as_str()).collect();
    match (unread.as_slice(), letter.to.len()) {
        ([], _) => {}
        (_, 1) => head.push_str(" · not read yet"),
        (unread, n) => head.push_str(&format!(" · not read yet by {} of {n}", unread.len())),
    }
    let style = if unread.is_empty() { Style::Dim } else { Style::Wait };
    let mut lines: Vec<(Style, String)> = wrap(&head, width).into_iter().map(|line| (style, line)).collect();
    for line in &letter.lines {
        let parts = wrap(line, width.saturating_sub(2).max(2));
        lines.extend(parts.into_iter().map(|part| (Style::Plain, format!("  {part}"))));
    }
    lines
}
