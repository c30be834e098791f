//! All keys, with what each does.

use ratatui::layout::Rect;

use super::{Pen, row};
use crate::render::text::pad;
use crate::top::keys::KEYS;
use crate::top::screen::Screen;
use crate::ui::Style;

pub(super) fn draw(pen: &mut Pen<'_>, area: Rect, screen: &mut Screen) {
    let keys: Vec<_> = KEYS.iter().filter(|key| !(key.changes && screen.read_only)).collect();
    let height = usize::from(area.height);
    screen.height = height;
    screen.help_top = screen.help_top.min(keys.len().saturating_sub(height));
    for (n, key) in keys.iter().skip(screen.help_top).take(height).enumerate() {
        let left = format!(" {} ", pad(key.keys, 16));
        let style = if key.changes { Style::Wait } else { Style::Dim };
        pen.text(row(area, n), &[(Style::Strong, &left), (style, key.what)]);
    }
}
