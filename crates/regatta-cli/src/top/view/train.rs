//! The train: cars in order, candidates under test, and the last landed tasks.

use ratatui::layout::Rect;
use regatta_core::oid::Oid;
use regatta_core::state::TaskState;
use regatta_core::time::Timestamp;

use super::{Pen, lasting, row, rule};
use crate::commands::land::what_it_does;
use crate::render::shown::ago;
use crate::render::text::pad;
use crate::top::model::{Model, Row};
use crate::top::screen::Screen;
use crate::ui::Style;

/// How many landed tasks are shown.
const RECENT: usize = 100;

pub(super) fn draw(pen: &mut Pen<'_>, area: Rect, model: &Model, screen: &mut Screen, now: Timestamp) {
    screen.height = usize::from(area.height);
    let mut n = 0;
    let mut line = |pen: &mut Pen<'_>, spans: &[(Style, &str)], chosen: bool| {
        let at = row(area, n);
        pen.text(at, spans);
        if chosen {
            pen.choose(at);
        }
        n += 1;
    };
    let name = model.cars.iter().map(|car| car.task.as_str().len()).max().unwrap_or(4).clamp(4, 30);
    if let Some(stopped) = &model.stopped {
        line(pen, &[(Style::Bad, "stopped: "), (Style::Wait, &stopped.why)], false);
    }
    if model.cars.is_empty() {
        line(pen, &[(Style::Dim, "the train is empty")], false);
    }
    for (place, car) in model.cars.iter().enumerate() {
        let waiting = match model.rows.get(&car.task).map(|found| &found.state) {
            Some(TaskState::Landing { waiting, .. }) => waiting.as_deref(),
            _ => None,
        };
        let (glyph, doing) = what_it_does(car, waiting, &model.tests, now);
        let chosen = screen.selected.as_ref() == Some(&car.task);
        let cursor = if chosen { "▸" } else { " " };
        let repo = model.repo(&car.task, model.cars.iter().map(|car| &car.task));
        let left = format!("{cursor}{:>2} {glyph} {} {repo}", place + 1, pad(car.task.as_str(), name));
        let style = if waiting.is_some() { Style::Wait } else { Style::Busy };
        line(pen, &[(style, &left), (Style::Dim, &doing)], chosen);
    }
    if !model.tests.is_empty() {
        line(pen, &[], false);
        line(pen, &[(Style::Strong, "under test")], false);
    }
    for test in &model.tests {
        let cars: Vec<&str> = test.cars.iter().map(|task| task.as_str()).collect();
        let content = match cars.as_slice() {
            [] => format!("{} itself", model.target),
            cars => format!("{} + {}", model.target, cars.join(" + ")),
        };
        let candidate = test.candidate.short();
        let text = format!("  ◐ {candidate}  {}  {content}", pad(&lasting(now.since(test.since)), 8));
        line(pen, &[(Style::Wait, &text)], false);
    }
    let mut landed: Vec<(&Row, &Oid)> = model
        .rows
        .values()
        .filter_map(|found| match &found.state {
            TaskState::Landed { commit, .. } => Some((found, commit)),
            _ => None,
        })
        .collect();
    landed.sort_by(|(a, _), (b, _)| b.since.cmp(&a.since).then(b.arrival.cmp(&a.arrival)));
    let used = n;
    if landed.is_empty() || used + 2 >= usize::from(area.height) {
        return;
    }
    rule(pen, row(area, used + 1), &format!("landed on {}", model.target), false);
    for (m, (found, commit)) in landed.iter().take(RECENT).enumerate() {
        let text = format!("  ✓ {}  {}  ", commit.short(), pad(&ago(found.since, now), 8));
        let rest = format!("{}: {}", found.id, found.title);
        pen.text(row(area, used + 2 + m), &[(Style::Good, &text), (Style::Dim, &rest)]);
    }
}
