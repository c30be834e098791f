//! What an agent said and did, newest at the bottom.

use ratatui::layout::Rect;

use super::lanes::head;
use super::{Pen, row};
use crate::render::text::wrap;
use crate::top::model::Model;
use crate::top::screen::Screen;
use crate::ui::Style;

pub(super) fn draw(pen: &mut Pen<'_>, area: Rect, model: &Model, screen: &mut Screen) {
    head(pen, area, model, screen);
    let area = Rect { y: area.y + area.height.min(1), height: area.height.saturating_sub(1), ..area };
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    screen.reel.width = width;
    let wanted = height + screen.reel.up;
    // From the end backwards, so that a long transcript costs no more than its visible part.
    let mut lines: Vec<(Style, String)> = Vec::new();
    let mut read = 0;
    for (style, text) in screen.reel.lines.iter().rev() {
        if lines.len() >= wanted {
            break;
        }
        lines.extend(wrap(text, width).into_iter().rev().map(|part| (*style, part)));
        read += 1;
    }
    let all_read = read == screen.reel.lines.len();
    screen.reel.most_up = if all_read { lines.len().saturating_sub(height) } else { usize::MAX };
    screen.reel.up = screen.reel.up.min(screen.reel.most_up);
    let seen: Vec<&(Style, String)> = lines.iter().skip(screen.reel.up).take(height).collect();
    for (n, (style, text)) in seen.into_iter().rev().enumerate() {
        pen.text(row(area, n), &[(*style, text)]);
    }
}
