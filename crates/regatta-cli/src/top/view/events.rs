//! The events, newest at the bottom.

use ratatui::layout::Rect;

use super::{Pen, row, scrolled};
use crate::render::text::pad;
use crate::top::model::{Model, ShownEvent, Weight};
use crate::top::screen::Screen;
use crate::ui::Style;

/// The events that pass the filter, oldest first.
pub(in crate::top) fn shown<'a>(screen: &Screen, model: &'a Model) -> Vec<&'a ShownEvent> {
    let folded = screen.filter.to_lowercase();
    let wanted = |told: &&ShownEvent| {
        folded.is_empty()
            || told
                .task
                .as_ref()
                .and_then(|task| model.rows.get(task))
                .is_some_and(|found| found.matches(&folded))
            || told.text.to_lowercase().contains(&folded)
    };
    model.events.iter().filter(wanted).collect()
}

/// The selected event: the newest, unless the user went back.
pub(in crate::top) fn marked<'a>(screen: &Screen, model: &'a Model) -> Option<&'a ShownEvent> {
    let events = shown(screen, model);
    let back = screen.event.and_then(|seq| events.iter().find(|told| told.seq >= seq));
    back.or(events.last()).copied()
}

pub(super) fn draw(pen: &mut Pen<'_>, area: Rect, model: &Model, screen: &mut Screen) {
    let events = shown(screen, model);
    let height = usize::from(area.height);
    screen.height = height;
    if events.is_empty() {
        pen.text(area, &[(Style::Dim, "no events yet")]);
        return;
    }
    let last = events.len() - 1;
    let place = screen.event.and_then(|seq| events.iter().position(|told| told.seq >= seq)).unwrap_or(last);
    let follows = screen.event.is_none();
    let top = if follows {
        events.len().saturating_sub(height)
    } else {
        scrolled(place.saturating_sub(height / 2), place, events.len(), height)
    };
    let seen = &events[top..(top + height).min(events.len())];
    let name = |told: &ShownEvent| told.task.as_ref().map_or(1, |task| task.as_str().len()) + 3;
    let name = seen.iter().map(|told| name(told)).max().unwrap_or(8).clamp(8, usize::from(area.width) / 3);
    for (n, told) in seen.iter().enumerate() {
        let task = told.task.as_ref().map_or("-", |task| task.as_str());
        let attempt = told.attempt.filter(|n| *n > 1).map_or_else(String::new, |n| format!(" #{n}"));
        let style = match told.weight {
            Weight::Good => Style::Good,
            Weight::Bad => Style::Bad,
            Weight::Wait => Style::Wait,
            Weight::Plain => Style::Dim,
        };
        let cursor = if top + n == place { "▸" } else { " " };
        let left = format!("{} ", pad(&format!("{task}{attempt}"), name));
        let at = row(area, n);
        pen.text(
            at,
            &[
                (Style::Dim, &format!("{cursor}{}  ", told.clock)),
                (Style::Strong, &left),
                (style, &told.text),
            ],
        );
        if top + n == place {
            pen.choose(at);
        }
    }
}
