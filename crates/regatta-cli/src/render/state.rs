//! The mark and the style of each state. Never by colour alone.

use crate::ui::Style;

/// Mark and style for a state's name.
pub(crate) fn mark(state: &str) -> (&'static str, Style) {
    match state {
        "pending" => ("○", Style::Dim),
        "claimed" | "running" => ("●", Style::Busy),
        "judging" | "landing" => ("◐", Style::Wait),
        "done" | "landed" => ("✓", Style::Good),
        "failed" => ("✕", Style::Bad),
        "blocked" => ("⚠", Style::Wait),
        "parked" => ("⏸", Style::Wait),
        "skipped" | "cancelled" => ("–", Style::Dim),
        _ => ("?", Style::Dim),
    }
}
