//! A transcript's entries on a screen or in a pipe: masked, cleaned, wrapped and coloured.
//!
//! With a width, no line is wider, whatever its characters; without one, entries are not wrapped, so that a file does
//! not depend on the terminal.

use regatta_core::time::counted;
use regatta_engine::redact::Redactor;
use regatta_engine::transcript::{Entry, Shape, Tone};
use unicode_width::UnicodeWidthStr;

use super::shown::{clean, clean_line};
use super::text::{fit, wrap};
use crate::ui::{Style, Ui};

/// The minimum width; anything less is treated as this.
const NARROWEST: usize = 20;
/// A tab, as spaces.
const TAB: &str = "    ";

/// Turns entries into lines.
pub(crate) struct Layout<'a> {
    ui: &'a Ui,
    redactor: &'a Redactor,
    /// Columns of the terminal, if there is one.
    width: Option<usize>,
}

impl<'a> Layout<'a> {
    pub(crate) fn new(ui: &'a Ui, redactor: &'a Redactor, width: Option<usize>) -> Self {
        Self { ui, redactor, width: width.map(|width| width.max(NARROWEST)) }
    }

    /// The lines of one entry.
    pub(crate) fn lines(&self, entry: &Entry) -> Vec<String> {
        let mut lines = Vec::new();
        if entry.gap {
            lines.push(String::new());
        }
        match entry.shape {
            Shape::Words => lines.extend(self.words(&entry.text)),
            Shape::Line | Shape::Wrapped => lines.extend(self.marked(entry)),
            Shape::Diff => lines.extend(self.diff(entry)),
        }
        lines
    }

    fn words(&self, text: &str) -> Vec<String> {
        let text = clean(&self.redactor.redact(text));
        match self.width {
            None if text.is_empty() => vec![String::new()],
            None => text.lines().map(str::to_owned).collect(),
            Some(width) if text.is_empty() => wrap("", width),
            Some(width) => text.lines().flat_map(|line| wrap(&line.replace('\t', TAB), width)).collect(),
        }
    }

    /// `● Bash cargo test`, followed by further details.
    fn marked(&self, entry: &Entry) -> Vec<String> {
        let indent = "  ".repeat(entry.indent);
        let shown = |text: &str| clean_line(&self.redactor.redact(text)).trim_end().to_owned();
        let (name, text, note) = (shown(&entry.name), shown(&entry.text), shown(&entry.note));
        let note = if note.is_empty() { note } else { format!("({note})") };
        let parts = |text: &str| {
            let mut parts = vec![self.ui.paint(style(entry.tone), entry.glyph)];
            parts.extend((!name.is_empty()).then(|| self.ui.paint(Style::Strong, &name)));
            parts.extend((!text.is_empty()).then(|| self.paint_text(entry, text)));
            parts.extend((!note.is_empty()).then(|| self.ui.paint(Style::Dim, &note)));
            format!("{indent}{}", parts.join(" "))
        };
        let Some(width) = self.width else { return vec![parts(&text)] };
        let beside = [entry.glyph, &name, &note];
        let used: usize = beside.iter().filter(|part| !part.is_empty()).map(|part| part.width() + 1).sum();
        let room = width.saturating_sub(indent.len() + used).max(8);
        if entry.shape == Shape::Line || text.width() <= room {
            return vec![parts(&fit(&text, room))];
        }
        // The rest of a long entry continues below its start.
        let hanging = format!("{indent}  ");
        let mut pieces =
            wrap(&text, width.saturating_sub(hanging.len() + name.width() + 1).max(8)).into_iter();
        let mut lines = vec![parts(&pieces.next().unwrap_or_default())];
        lines.extend(pieces.map(|piece| format!("{hanging}{}", self.paint_text(entry, &piece))));
        lines
    }

    /// Errors stand out; tool lines are as bright as text.
    fn paint_text(&self, entry: &Entry, text: &str) -> String {
        match entry.tone {
            Tone::Bad => self.ui.paint(Style::Bad, text),
            Tone::Wait => self.ui.paint(Style::Wait, text),
            Tone::Dim => self.ui.paint(Style::Dim, text),
            Tone::Plain | Tone::Good | Tone::Busy => text.to_owned(),
        }
    }

    fn diff(&self, entry: &Entry) -> Vec<String> {
        let indent = "  ".repeat(entry.indent);
        let text = clean(&self.redactor.redact(&entry.text));
        let mut lines: Vec<String> = text
            .lines()
            .map(|line| {
                let style = match line.chars().next() {
                    Some('+') => Style::Good,
                    Some('-') => Style::Bad,
                    _ => Style::Dim,
                };
                let line = match self.width {
                    Some(width) => fit(&line.replace('\t', TAB), width.saturating_sub(indent.len())),
                    None => line.to_owned(),
                };
                format!("{indent}{}", self.ui.paint(style, &line))
            })
            .collect();
        if entry.more > 0 {
            let more = format!("… {}", counted(entry.more, "more line"));
            lines.push(format!("{indent}{}", self.ui.paint(Style::Dim, &more)));
        }
        lines
    }
}

fn style(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::Strong,
        Tone::Dim => Style::Dim,
        Tone::Good => Style::Good,
        Tone::Bad => Style::Bad,
        Tone::Wait => Style::Wait,
        Tone::Busy => Style::Busy,
    }
}

#[cfg(test)]
mod tests {
    use regatta_engine::agents::{AgentEvent, FileChange};
    use regatta_engine::transcript::Transcript;

    use super::*;

    fn ui(color: bool) -> Ui {
        Ui {
            json: false,
            color,
            quiet: false,
            verbose: false,
            terminal: false,
            outlives_reader: false,
            kept: None,
        }
    }

    fn events() -> Vec<AgentEvent> {
        let long = "A long sentence that says what the agent found, 日本語の文字 included, and goes on.";
        vec![
            AgentEvent::Started { session: Some("s1".into()), model: Some("m".into()) },
            AgentEvent::Text { text: format!("{long}\n\n    let code = \"stays\";\nend\x1b[2J") },
            AgentEvent::tool("1", "Bash", "echo hunter2hunter2 && cargo test --workspace --all-features"),
            AgentEvent::ended("1", true),
            AgentEvent::tool("2", "Edit", "src/lib.rs"),
            AgentEvent::File {
                path: "src/lib.rs".into(),
                kind: FileChange::Update,
                diff: " fn a() {\n-\told\n+\tnew and rather longer than the screen is wide\x1b[31m".into(),
                more: 2,
                sub: false,
            },
            AgentEvent::ended("2", false),
            AgentEvent::Error { kind: "overloaded".into(), message: long.into() },
        ]
    }

    fn lines(width: Option<usize>, color: bool) -> Vec<String> {
        let (ui, redactor) = (ui(color), Redactor::new([("MY_TOKEN", "hunter2hunter2")]));
        let (layout, mut transcript) = (Layout::new(&ui, &redactor, width), Transcript::new(false));
        let entries =
            events().into_iter().flat_map(|event| transcript.event(&event, None)).collect::<Vec<_>>();
        entries.iter().flat_map(|entry| layout.lines(entry)).collect()
    }

    #[test]
    fn in_a_pipe_every_entry_is_as_long_as_it_is() {
        assert_eq!(
            lines(None, false),
            [
                "▸ started, m, session s1",
                "",
                "A long sentence that says what the agent found, 日本語の文字 included, and goes on.",
                "",
                "    let code = \"stays\";",
                "end\u{fffd}[2J",
                "",
                "● Bash echo [redacted:MY_TOKEN] && cargo test --workspace --all-features",
                "  ✕ failed",
                "● Edit src/lib.rs",
                "   fn a() {",
                "  -\told",
                "  +\tnew and rather longer than the screen is wide",
                "  … 2 more lines",
                "✕ overloaded: A long sentence that says what the agent found, 日本語の文字 included, and goes on.",
            ]
        );
    }

    #[test]
    fn a_log_over_the_protocol_says_the_same_as_one_in_a_pipe() {
        let (redactor, mut transcript) =
            (Redactor::new([("MY_TOKEN", "hunter2hunter2")]), Transcript::new(false));
        let entries = events().into_iter().flat_map(|event| transcript.event(&event, None));
        let told: Vec<String> =
            entries.flat_map(|entry| regatta_ops::look::log::lines(&entry, &redactor)).collect();
        assert_eq!(told, lines(None, false));
    }

    #[test]
    fn on_a_terminal_nothing_is_wider_than_it() {
        assert_eq!(
            lines(Some(40), false),
            [
                "▸ started, m, session s1",
                "",
                "A long sentence that says what the agent",
                "found, 日本語の文字 included, and goes",
                "on.",
                "",
                "    let code = \"stays\";",
                "end\u{fffd}[2J",
                "",
                "● Bash echo [redacted:MY_TOKEN] && carg…",
                "  ✕ failed",
                "● Edit src/lib.rs",
                "   fn a() {",
                "  -    old",
                "  +    new and rather longer than the s…",
                "  … 2 more lines",
                "✕ overloaded: A long sentence that says",
                "  what the agent found, 日本語の文字",
                "  included, and goes on.",
            ]
        );
        for width in 20..90 {
            for line in lines(Some(width), false) {
                assert!(line.width() <= width, "{width}: {line:?}");
            }
        }
    }

    #[test]
    fn colours_are_ours_alone() {
        for line in lines(Some(80), true) {
            let ours = line.replace("\x1b[0m", "");
            let ours = ["31", "32", "33", "36", "2", "1"]
                .iter()
                .fold(ours, |line, code| line.replace(&format!("\x1b[{code}m"), ""));
            assert!(!ours.contains('\x1b'), "{line:?}");
        }
    }
}
