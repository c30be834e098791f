//! Writes text into the buffer: cut by columns, in a few styles, with or without colours.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style as Look};
use unicode_width::UnicodeWidthStr;

use crate::render::text::fit;
use crate::ui::Style;

/// Writes styled text into a buffer.
pub(crate) struct Pen<'a> {
    pub(super) buffer: &'a mut Buffer,
    pub(super) color: bool,
}

impl Pen<'_> {
    /// Writes the spans one after another on the first line of the area; text that does not fit is cut with a mark.
    pub(super) fn text(&mut self, area: Rect, spans: &[(Style, &str)]) {
        let area = area.intersection(self.buffer.area);
        if area.is_empty() {
            return;
        }
        let mut left = usize::from(area.width);
        let mut x = area.x;
        for (style, text) in spans {
            if left == 0 {
                return;
            }
            let text = fit(text, left);
            let wide = text.width().min(left);
            self.buffer.set_stringn(x, area.y, &text, left, self.look(*style));
            x += u16::try_from(wide).unwrap_or(0);
            left -= wide;
        }
    }

    /// The selected line, or the open tab: visible without colours too.
    pub(super) fn chosen(&mut self, area: Rect, text: &str) {
        let area = area.intersection(self.buffer.area);
        if !area.is_empty() {
            self.buffer.set_stringn(
                area.x,
                area.y,
                fit(text, usize::from(area.width)),
                usize::from(area.width),
                Look::new().add_modifier(Modifier::REVERSED),
            );
        }
    }

    /// Marks a written line as the selected one.
    pub(super) fn choose(&mut self, area: Rect) {
        let area = area.intersection(self.buffer.area);
        self.buffer.set_style(area, Look::new().add_modifier(Modifier::REVERSED));
    }

    fn look(&self, style: Style) -> Look {
        let plain = Look::new();
        match (style, self.color) {
            (Style::Strong, _) => plain.add_modifier(Modifier::BOLD),
            (Style::Plain, _) | (_, false) => plain,
            (Style::Good, true) => plain.fg(Color::Green),
            (Style::Bad, true) => plain.fg(Color::Red),
            (Style::Wait, true) => plain.fg(Color::Yellow),
            (Style::Busy, true) => plain.fg(Color::Cyan),
            (Style::Dim, true) => plain.add_modifier(Modifier::DIM),
        }
    }
}
