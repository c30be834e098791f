//! The heading of each attempt in a task's transcript: its number, and the prompts its agent got.

use regatta_core::time::counted;
use regatta_ops::look::logs::{LogHeading, Told, ToldKind};

use crate::ui::{Style, Ui};

/// The most lines of a prompt shown to people; `--json` has all of it.
const MOST_LINES: usize = 12;

/// The heading for people.
pub(super) fn lines(heading: &LogHeading<'_>, ui: &Ui) -> Vec<String> {
    let (n, agent) = (heading.attempt.n, &heading.attempt.agent);
    let labels: Vec<String> = heading.told.iter().map(label).collect();
    let about = if labels.is_empty() { String::new() } else { format!(" · {}", labels.join(", ")) };
    let mut lines = vec![ui.paint(Style::Strong, &format!("── attempt {n} · {agent}{about} ──"))];
    for told in &heading.told {
        let all: Vec<&str> = told.text.lines().collect();
        let shown = all.iter().take(MOST_LINES);
        lines.extend(shown.map(|line| ui.paint(Style::Dim, format!("> {line}").trim_end())));
        if all.len() > MOST_LINES {
            let left = format!("> … {}", counted(all.len() - MOST_LINES, "more line"));
            lines.push(ui.paint(Style::Dim, &left));
        }
    }
    lines
}

fn label(told: &Told) -> String {
    match &told.kind {
        ToldKind::Task => "the task".to_owned(),
        ToldKind::FollowUp { n, by } => format!("follow-up {n} from {by}"),
        ToldKind::Guidance { attempt } => format!("the result of attempt {attempt}"),
    }
}
