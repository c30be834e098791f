//! The mark and the style of each state. Colour never carries meaning alone.

use regatta_core::state::StateName;

use crate::ui::Style;

/// Mark and style for a state.
pub(crate) fn mark(state: StateName) -> (&'static str, Style) {
    match state {
        StateName::Pending => ("○", Style::Dim),
        StateName::Claimed | StateName::Running => ("●", Style::Busy),
        StateName::Judging | StateName::Landing => ("◐", Style::Wait),
        StateName::Done | StateName::Landed => ("✓", Style::Good),
        StateName::Failed => ("✕", Style::Bad),
        StateName::Blocked => ("⚠", Style::Wait),
        StateName::Parked => ("⏸", Style::Wait),
        StateName::Skipped | StateName::Cancelled => ("–", Style::Dim),
    }
}
