//! What today costs, and which accounts wait for a limit to pass.

use ratatui::layout::Rect;
use regatta_core::state::TaskState;
use regatta_core::time::Timestamp;
use regatta_store::Spending;

use super::{Pen, lasting, many, row};
use crate::render::shown::clean_line;
use crate::render::text::pad;
use crate::top::model::{Model, Row};
use crate::top::screen::{Screen, span};
use crate::ui::Style;

/// How many tasks are listed.
const DEAREST: usize = 10;

pub(super) fn draw(pen: &mut Pen<'_>, area: Rect, model: &Model, screen: &mut Screen, now: Timestamp) {
    let lines = lines(model, now);
    screen.height = usize::from(area.height);
    screen.scroll = screen.scroll.min(lines.len().saturating_sub(screen.height));
    for (n, line) in lines.iter().skip(screen.scroll).enumerate().take(screen.height) {
        let spans: Vec<(Style, &str)> = line.iter().map(|(style, text)| (*style, text.as_str())).collect();
        pen.text(row(area, n), &spans);
    }
}

fn lines(model: &Model, now: Timestamp) -> Vec<Vec<(Style, String)>> {
    let mut lines = Vec::new();
    let today = model.spent_today();
    let tokens = if today.tokens_in == 1 { "token" } else { "tokens" };
    let sum =
        format!("{}, {} {tokens} in, {} out", usd(&today), many(today.tokens_in), many(today.tokens_out));
    let sum = match model.day_usd {
        Some(most) => format!("{sum}; of ${most:.2} allowed per day"),
        None => sum,
    };
    lines.push(vec![(Style::Strong, "today      ".to_owned()), (Style::Dim, sum)]);
    let limited: Vec<&Row> =
        sorted(model.rows.values().filter(|found| found.state.wakes_at().is_some()), |found| {
            found.state.wakes_at().map_or(0, Timestamp::millis)
        });
    if !limited.is_empty() || !model.cooling.is_empty() {
        lines.push(Vec::new());
        lines.push(vec![(Style::Strong, "limits and waits".to_owned())]);
        for account in &model.cooling {
            let until = account.until.map(|until| format!("in {}", lasting(until.since(now))));
            let until = until.unwrap_or_else(|| "held".to_owned());
            let left = format!("  ⏸ {} {} ", pad(&account.who, 24), pad(&until, 10));
            lines.push(vec![(Style::Wait, left), (Style::Dim, account.why.clone())]);
        }
        for found in limited.iter().take(DEAREST) {
            let glyph = if matches!(found.state, TaskState::Parked { .. }) { "⏸" } else { "○" };
            let left = format!("  {glyph} {} {} ", pad(found.id.as_str(), 24), pad(&span(found, now), 10));
            lines.push(vec![(Style::Wait, left), (Style::Dim, found.why.clone())]);
        }
        if limited.len() > DEAREST {
            lines.push(vec![(Style::Dim, format!("  … and {} more", limited.len() - DEAREST))]);
        }
    }
    let mut sums = |heading: &str, mut rows: Vec<Spending>, most: usize| {
        rows.retain(|sum| sum.attempts > 0 && (sum.usd > 0.0 || sum.tokens_in + sum.tokens_out > 0));
        rows.sort_by(|a, b| b.usd.total_cmp(&a.usd).then_with(|| a.key.cmp(&b.key)));
        if rows.is_empty() {
            return;
        }
        lines.push(Vec::new());
        lines.push(vec![(Style::Strong, table(heading, "ATTEMPTS", "COST", "TOKENS IN", "OUT"))]);
        for sum in rows.iter().take(most) {
            let name = if sum.key.is_empty() { "(unknown)" } else { &sum.key };
            let (n, usd) = (sum.attempts.to_string(), usd(sum));
            let text = table(&clean_line(name), &n, &usd, &many(sum.tokens_in), &many(sum.tokens_out));
            lines.push(vec![(Style::Dim, text)]);
        }
        if rows.len() > most {
            let text = format!("  … and {} more; `regatta cost --since today` shows all", rows.len() - most);
            lines.push(vec![(Style::Dim, text)]);
        }
    };
    sums("AGENT", model.spent_by_agent(), DEAREST);
    sums("TASK", model.spent_by_task(), DEAREST);
    sums("MODEL (ended attempts)", model.today.by_model.clone(), DEAREST);
    lines
}

/// Dollars: `~` if some were computed from tokens, `+?` if some are unknown.
fn usd(sum: &Spending) -> String {
    let about = if sum.priced > 0 { "~" } else { "" };
    let more = if sum.unpriced > 0 { " +?" } else { "" };
    format!("{about}${:.2}{more}", sum.usd)
}

fn sorted<'a>(rows: impl Iterator<Item = &'a Row>, key: impl Fn(&Row) -> i64) -> Vec<&'a Row> {
    let mut rows: Vec<&Row> = rows.collect();
    rows.sort_by(|a, b| key(a).cmp(&key(b)).then(a.arrival.cmp(&b.arrival)));
    rows
}

fn table(name: &str, attempts: &str, usd: &str, tokens_in: &str, tokens_out: &str) -> String {
    format!("  {} {attempts:>8} {usd:>9} {tokens_in:>10} {tokens_out:>8}", pad(name, 34))
}
