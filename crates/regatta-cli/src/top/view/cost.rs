//! What it costs, and who waits for a limit to pass.

use std::collections::BTreeMap;

use ratatui::layout::Rect;
use regatta_core::state::TaskState;
use regatta_core::time::Timestamp;

use super::{Pen, lasting, many, row};
use crate::render::text::pad;
use crate::top::model::{Model, Row, Spent};
use crate::top::screen::{Screen, span};
use crate::ui::Style;

/// Tasks that are named.
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
    let sum =
        format!("${:.2}, {} tokens in, {} out", today.usd, many(today.tokens_in), many(today.tokens_out));
    let sum = match model.day_usd {
        Some(most) => format!("{sum}; of ${most:.2} that a day may cost"),
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
    let mut by_agent: BTreeMap<String, (u32, Spent)> = BTreeMap::new();
    for spent in model.rows.values().flat_map(|found| &found.spent) {
        let name = match &spent.model {
            Some(name) if *name != spent.agent => format!("{} {name}", spent.agent),
            _ => spent.agent.clone(),
        };
        let (n, sum) = by_agent.entry(name).or_default();
        *n += 1;
        sum.usd += spent.usd;
        sum.tokens_in += spent.tokens_in;
        sum.tokens_out += spent.tokens_out;
    }
    if !by_agent.is_empty() {
        lines.push(Vec::new());
        lines.push(vec![(Style::Strong, table("AGENT", "ATTEMPTS", "COST", "TOKENS IN", "OUT"))]);
    }
    for (name, (n, sum)) in &by_agent {
        let usd = format!("${:.2}", sum.usd);
        let text = table(name, &n.to_string(), &usd, &many(sum.tokens_in), &many(sum.tokens_out));
        lines.push(vec![(Style::Dim, text)]);
    }
    let dear: Vec<&Row> =
        sorted(model.rows.values().filter(|found| found.usd() > 0.0), |found| -(found.usd() * 1e6) as i64);
    if !dear.is_empty() {
        lines.push(Vec::new());
        lines.push(vec![(Style::Strong, table("TASK", "ATTEMPTS", "COST", "TOKENS IN", "OUT"))]);
    }
    for found in dear.iter().take(DEAREST) {
        let (tokens_in, tokens_out) =
            found.spent.iter().fold((0, 0), |(a, b), spent| (a + spent.tokens_in, b + spent.tokens_out));
        let usd = format!("${:.2}", found.usd());
        let text =
            table(found.id.as_str(), &found.attempts.to_string(), &usd, &many(tokens_in), &many(tokens_out));
        lines.push(vec![(Style::Dim, text)]);
    }
    lines
}

fn sorted<'a>(rows: impl Iterator<Item = &'a Row>, key: impl Fn(&Row) -> i64) -> Vec<&'a Row> {
    let mut rows: Vec<&Row> = rows.collect();
    rows.sort_by(|a, b| key(a).cmp(&key(b)).then(a.arrival.cmp(&b.arrival)));
    rows
}

fn table(name: &str, attempts: &str, usd: &str, tokens_in: &str, tokens_out: &str) -> String {
    format!("  {} {attempts:>8} {usd:>9} {tokens_in:>10} {tokens_out:>8}", pad(name, 34))
}
