//! The lanes, one line each, and the selected agent's transcript: below, or beside if there is room.

use ratatui::layout::Rect;
use regatta_core::time::{Timestamp, counted};

use super::{Pen, row, rule, scrolled, transcript};
use crate::render::state::mark;
use crate::render::text::pad;
use crate::top::follow::megabytes;
use crate::top::model::{Group, Model, Row};
use crate::top::screen::{Screen, span};
use crate::ui::Style;

/// From this list width on, agents are named.
const ROOMY: u16 = 86;
/// From this width on, the transcript is beside the lanes.
const BESIDE: u16 = 140;

pub(super) fn draw(pen: &mut Pen<'_>, area: Rect, model: &Model, screen: &mut Screen, now: Timestamp) {
    let (list, below) = split(area, screen.list.len());
    screen.height = usize::from(if screen.in_transcript { below.height } else { list.height });
    draw_list(pen, list, model, screen, now);
    if below.x > area.x {
        for y in area.y..area.y + area.height {
            pen.text(Rect { x: below.x - 1, y, width: 1, height: 1 }, &[(Style::Dim, "│")]);
        }
    }
    transcript::draw(pen, below, model, screen);
}

/// The list gets the space it needs, but leaves half to the transcript.
fn split(area: Rect, n_rows: usize) -> (Rect, Rect) {
    if area.width >= BESIDE {
        let left = (area.width * 45 / 100).max(70);
        let list = Rect { width: left, ..area };
        return (list, Rect { x: area.x + left + 1, width: area.width - left - 1, ..area });
    }
    let wanted = u16::try_from(n_rows.max(1)).unwrap_or(u16::MAX);
    let height = wanted.min(area.height / 2).max(area.height.min(3));
    let list = Rect { height, ..area };
    (list, Rect { y: area.y + height, height: area.height - height, ..area })
}

fn draw_list(pen: &mut Pen<'_>, area: Rect, model: &Model, screen: &mut Screen, now: Timestamp) {
    let left_out = model.total().saturating_sub(model.rows.len() as u64);
    if screen.list.is_empty() {
        let text = match (model.total(), screen.filter.as_str()) {
            (0, _) => "no tasks yet; `regatta run PLAN` or `regatta add \"PROMPT\"` adds some".to_owned(),
            (_, filter) => format!("no task matches {filter:?} in its id, title, state or agent"),
        };
        pen.text(area, &[(Style::Dim, &text)]);
        return;
    }
    let n_rows = screen.list.len() + usize::from(left_out > 0 && screen.filter.is_empty());
    let height = usize::from(area.height);
    let place = screen.place();
    screen.top = scrolled(screen.top, place.unwrap_or(0), n_rows, height);
    let width = usize::from(area.width);
    let shown = &screen.list[screen.top.min(screen.list.len())..];
    let name =
        shown.iter().take(height).map(|task| task.as_str().len()).max().unwrap_or(4).clamp(4, width / 3);
    for (n, task) in shown.iter().take(height).enumerate() {
        let Some(found) = model.rows.get(task) else { continue };
        let at = row(area, n);
        let chosen = Some(screen.top + n) == place;
        let repo = model.repo(task, shown.iter().take(height));
        line(pen, at, (found, model), (name, &repo, chosen), now);
        if chosen {
            pen.choose(at);
        }
    }
    if shown.len() < height && left_out > 0 && screen.filter.is_empty() {
        let text = format!("  … and {left_out} more; `regatta list --all` shows all");
        pen.text(row(area, shown.len()), &[(Style::Dim, &text)]);
    }
}

fn line(
    pen: &mut Pen<'_>,
    area: Rect,
    (found, model): (&Row, &Model),
    (name, repo, chosen): (usize, &str, bool),
    now: Timestamp,
) {
    let cursor = if chosen { "▸" } else { " " };
    let agent = if area.width >= ROOMY { format!("{} ", pad(&found.agent, 9)) } else { String::new() };
    let (glyph, style) = mark(found.state.kind());
    let attempt = if found.attempts > 1 { format!("#{}", found.attempts) } else { String::new() };
    let usd = found.usd();
    let cost = if usd > 0.0 { format!("${usd:.2}") } else { String::new() };
    let left = format!(
        "{cursor}{glyph} {} {repo}{agent}{} {} ",
        pad(found.id.as_str(), name),
        pad(found.state.name(), 9),
        pad(&attempt, 3)
    );
    let right = format!("{} {} ", pad(&span(found, now), 7), pad(&cost, 6));
    let doing = doing(found, model);
    let quiet = if found.needs_a_look() { Style::Wait } else { Style::Dim };
    let unconfined = if found.unconfined && found.group() != Group::Over { "unconfined · " } else { "" };
    pen.text(area, &[(style, &left), (Style::Dim, &right), (Style::Wait, unconfined), (quiet, &doing)]);
}

/// Why it needs a look, what it waits for, who holds it, what its agent is doing, or else its title.
fn doing(found: &Row, model: &Model) -> String {
    if let Some(why) = found.suspected.first() {
        return format!("⚠ {why}");
    }
    let held = model.held.get(&found.id).filter(|_| found.group() == Group::Waiting);
    match (held, found.why.as_str()) {
        (Some(held), "") => return format!("held: {held}"),
        (Some(held), why) => return format!("{why}; held: {held}"),
        (None, "") => {}
        (None, why) => return why.to_owned(),
    }
    if let Some(whose) = model.crew.whose(&found.id).filter(|_| found.group() != Group::Over) {
        let what = if found.doing.is_empty() { &found.title } else { &found.doing };
        return format!("{whose}: {what}");
    }
    match found.doing.as_str() {
        "" => found.title.clone(),
        doing => doing.to_owned(),
    }
}

/// The title of the transcript of a task.
pub(super) fn title(model: &Model, screen: &Screen) -> String {
    let Some(found) = screen.wants_transcript().and_then(|task| model.rows.get(task)) else {
        return "transcript".to_owned();
    };
    let attempt = screen.reel.of.as_ref().filter(|(task, _)| *task == found.id).map_or(0, |(_, n)| *n);
    let mut title = format!("{}: {}", found.id, found.title);
    if attempt > 0 {
        title.push_str(&format!(" · attempt {attempt} by {}", found.agent));
    }
    title
}

/// The line above a transcript.
pub(super) fn head(pen: &mut Pen<'_>, area: Rect, model: &Model, screen: &Screen) {
    let mut title = title(model, screen);
    if screen.reel.skipped > 0 {
        title.push_str(&format!(" · {} skipped", megabytes(screen.reel.skipped)));
    }
    if screen.reel.up > 0 {
        title.push_str(&format!(" · {} below", counted(screen.reel.up, "line")));
    }
    rule(pen, row(area, 0), &title, screen.in_transcript || screen.page.is_some());
}
