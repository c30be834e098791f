//! One file per view. Each is a function of the model, the screen and the time, and is tested as such.

pub(super) mod board;
mod cost;
mod crew;
pub(super) mod events;
mod help;
mod lanes;
mod letters;
mod page;
mod pen;
mod train;
mod transcript;

#[cfg(test)]
mod tests;

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use regatta_core::state::StateName;
use regatta_core::time::Timestamp;
use unicode_width::UnicodeWidthStr;

use super::keys::{CHANGING, LOOKING};
use super::model::Model;
use super::screen::{Change, Mode, Screen, View};
use crate::render::state::mark;
use crate::render::text::{fit, wrap};
use crate::ui::Style;
pub(super) use pen::Pen;

/// The smallest usable terminal.
const LEAST: (u16, u16) = (40, 8);

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, screen: &mut Screen, color: bool, now: Timestamp) {
    let area = frame.area();
    let mut pen = Pen { buffer: frame.buffer_mut(), color };
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!("too small: {}×{}, at least {}×{}", area.width, area.height, LEAST.0, LEAST.1);
        for (n, line) in
            wrap(&text, usize::from(area.width)).iter().enumerate().take(usize::from(area.height))
        {
            pen.text(row(area, n), &[(Style::Strong, line)]);
        }
        return;
    }
    header(&mut pen, row(area, 0), model);
    tabs(&mut pen, row(area, 1), screen);
    let foot = foot(model, screen, usize::from(area.width));
    let n_foot = u16::try_from(foot.len()).unwrap_or(1).min(area.height / 2);
    let body = Rect { y: area.y + 2, height: area.height - 2 - n_foot, ..area };
    match (&screen.mode, &screen.page) {
        (Mode::Help, _) => help::draw(&mut pen, body, screen),
        (_, Some(_)) => page::draw(&mut pen, body, model, screen, now),
        _ => match screen.view {
            View::Lanes => lanes::draw(&mut pen, body, model, screen, now),
            View::Board => board::draw(&mut pen, body, model, screen, now),
            View::Train => train::draw(&mut pen, body, model, screen, now),
            View::Crew => crew::draw(&mut pen, body, model, screen),
            View::Events => events::draw(&mut pen, body, model, screen),
            View::Cost => cost::draw(&mut pen, body, model, screen, now),
        },
    }
    for (n, line) in foot.iter().enumerate().take(usize::from(n_foot)) {
        let spans: Vec<(Style, &str)> = line.iter().map(|(style, text)| (*style, text.as_str())).collect();
        pen.text(row(area, usize::from(area.height - n_foot) + n), &spans);
    }
    let typed = match &screen.mode {
        Mode::Filter => 1 + end_of(&screen.filter, usize::from(area.width) - 2).width(),
        Mode::Prompt(_) => 2 + end_of(&screen.typed, usize::from(area.width) - 3).width(),
        _ => return,
    };
    let x = u16::try_from(typed).unwrap_or(area.width).min(area.width - 1);
    frame.set_cursor_position(Position::new(area.x + x, area.y + area.height - 1));
}

/// Line `n` of an area; an empty area below its end.
fn row(area: Rect, n: usize) -> Rect {
    let n = u16::try_from(n).unwrap_or(u16::MAX);
    if n < area.height { Rect { y: area.y + n, height: 1, ..area } } else { Rect { height: 0, ..area } }
}

fn header(pen: &mut Pen<'_>, area: Rect, model: &Model) {
    let counted = |with_words: bool| {
        let mut parts: Vec<(Style, String)> =
            vec![(Style::Strong, format!("{} → {}", model.name, model.target))];
        let mut add = |states: &[StateName], word: &str| {
            let n = model.count(states);
            let (glyph, style) = mark(states[0]);
            match (n, with_words) {
                (0, _) => {}
                (n, true) => parts.push((style, format!("  {glyph} {n} {word}"))),
                (n, false) => parts.push((style, format!("  {glyph} {n}"))),
            }
        };
        add(&[StateName::Running, StateName::Claimed], "running");
        add(&[StateName::Blocked], "blocked");
        add(&[StateName::Failed], "failed");
        if with_words {
            add(&[StateName::Judging], "judging");
            add(&[StateName::Landing], "landing");
        } else {
            add(&[StateName::Judging, StateName::Landing], "");
        }
        add(&[StateName::Parked], "parked");
        add(&[StateName::Pending], "pending");
        add(&[StateName::Landed, StateName::Done], "done");
        let spent = model.spent_today();
        if spent.usd > 0.0 {
            let more = if spent.unpriced > 0 { " +?" } else { "" };
            parts.push((Style::Strong, format!("  ${:.2}{more} today", spent.usd)));
        }
        if model.total() == 0 {
            parts.push((Style::Dim, "  no tasks yet".to_owned()));
        }
        parts
    };
    let mut parts = counted(true);
    if parts.iter().map(|(_, text)| text.width()).sum::<usize>() > usize::from(area.width) {
        parts = counted(false);
    }
    let spans: Vec<(Style, &str)> = parts.iter().map(|(style, text)| (*style, text.as_str())).collect();
    pen.text(area, &spans);
}

fn tabs(pen: &mut Pen<'_>, area: Rect, screen: &Screen) {
    let mut at = area;
    for (n, view) in View::ALL.iter().enumerate() {
        let open = *view == screen.view;
        let text = if open {
            format!("[{} {}]", n + 1, view.name())
        } else {
            format!(" {} {} ", n + 1, view.name())
        };
        let width = u16::try_from(text.len()).unwrap_or(0);
        let place = Rect { width: width.min(at.width), ..at };
        if open {
            pen.chosen(place, &text);
        } else {
            pen.text(place, &[(Style::Dim, &text)]);
        }
        at = Rect { x: at.x + place.width, width: at.width - place.width, ..at };
    }
    let mut right = String::new();
    if !screen.filter.is_empty() && screen.mode != Mode::Filter {
        right.push_str(&format!("/{} ", screen.filter));
    }
    if screen.read_only {
        right.push_str("read-only");
    }
    if !right.is_empty() && at.width > 4 {
        let right = fit(right.trim_end(), usize::from(at.width) - 2);
        let width = u16::try_from(right.width()).unwrap_or(0);
        let place = Rect { x: at.x + at.width - width, width, ..at };
        pen.text(place, &[(Style::Wait, &right)]);
    }
}

/// The last lines: a question, the typed text, a message, or the keys.
fn foot(model: &Model, screen: &Screen, width: usize) -> Vec<Vec<(Style, String)>> {
    let said = |style: Style, text: &str| -> Vec<Vec<(Style, String)>> {
        let text = crate::render::shown::clean_line(text);
        wrap(&text, width).into_iter().map(|line| vec![(style, line)]).collect()
    };
    match &screen.mode {
        Mode::Confirm(change, task) => {
            said(Style::Wait, &format!("{}  [y/n]", Screen::question(model, *change, task)))
        }
        Mode::Filter => vec![vec![(Style::Strong, format!("/{}", end_of(&screen.filter, width - 2)))]],
        Mode::Prompt(addressee) => vec![
            vec![(Style::Wait, fit(&addressee.question(model), width))],
            vec![(Style::Strong, format!("> {}", end_of(&screen.typed, width - 3)))],
        ],
        _ => match &screen.said {
            Some(words) => said(words.style, &words.text),
            None => vec![keys(model, screen, width)],
        },
    }
}

/// The keys that make sense now, as many as fit.
fn keys(model: &Model, screen: &Screen, width: usize) -> Vec<(Style, String)> {
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    if screen.mode != Mode::Help {
        let page = screen.mode == Mode::Page;
        let state = screen.target(model).and_then(|task| model.rows.get(&task)).map(|found| &found.state);
        let looks = |key: &str| if key == "/" { !page } else { state.is_some() };
        wanted.extend(LOOKING.iter().filter(|(key, _)| looks(key)));
        if state.is_some() && !screen.read_only {
            wanted.push(("s", "send"));
        }
        if !screen.read_only && screen.addressee(model).is_ok() {
            wanted.push(("m", "msg"));
        }
        let fits = |change: Change| !screen.read_only && state.is_some_and(|state| change.fits(state));
        wanted
            .extend(CHANGING.iter().filter(|(.., change)| fits(*change)).map(|(key, word, _)| (*key, *word)));
    }
    let last: &[(&str, &str)] = match screen.mode {
        Mode::Help => &[("Esc", "back")],
        Mode::Page => &[("?", "help"), ("Esc", "back")],
        _ => &[("?", "help"), ("q", "quit")],
    };
    let columns = |(key, word): &(&str, &str)| key.len() + 1 + word.len() + 2;
    let reserved: usize = last.iter().map(columns).sum();
    let mut room = (width + 2).saturating_sub(reserved);
    wanted.retain(|key| {
        let fits = columns(key) <= room;
        room = if fits { room - columns(key) } else { 0 };
        fits
    });
    let spans =
        |(key, word): &(&str, &str)| [(Style::Strong, (*key).to_owned()), (Style::Dim, format!(" {word}  "))];
    let mut line: Vec<(Style, String)> = wanted.iter().chain(last).flat_map(spans).collect();
    if let Some((_, word)) = line.last_mut() {
        word.truncate(word.trim_end().len());
    }
    line
}

/// A horizontal rule with a title.
fn rule(pen: &mut Pen<'_>, area: Rect, title: &str, strong: bool) {
    let width = usize::from(area.width);
    let title = fit(title, width.saturating_sub(6));
    let used = title.width();
    let rest = "─".repeat(width.saturating_sub(used + 4));
    let style = if strong { Style::Strong } else { Style::Dim };
    pen.text(area, &[(Style::Dim, "── "), (style, &title), (Style::Dim, " "), (Style::Dim, &rest)]);
}

/// The end of the typed text, if not all of it fits.
fn end_of(text: &str, width: usize) -> &str {
    let mut begin = 0;
    while text[begin..].width() > width {
        begin += text[begin..].chars().next().map_or(1, char::len_utf8);
    }
    &text[begin..]
}

/// Scrolls a list just enough to keep the selected line on the screen.
fn scrolled(top: usize, selected: usize, n_rows: usize, height: usize) -> usize {
    let most = n_rows.saturating_sub(height);
    let top = top.min(most);
    if selected < top {
        selected
    } else if selected >= top + height {
        selected + 1 - height
    } else {
        top
    }
}

/// `12s`, `3m 04s`, `1h 02m`, `3d 04h`.
pub(super) fn lasting(span: std::time::Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d {:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// A number of tokens: `1.2k`, `3.4M`.
fn many(n: u64) -> String {
    match n {
        0..1000 => n.to_string(),
        1000..1_000_000 => format!("{:.1}k", n as f64 / 1000.0),
        _ => format!("{:.1}M", n as f64 / 1_000_000.0),
    }
}
