//! All output goes through here. A reader that went away is no error.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use regatta_core::plain::{clean, turns_writing, visible};
use serde::Serialize;

use crate::cli::{Color, Global};

/// How to print, for a person or a program.
#[derive(Clone, Debug)]
pub(crate) struct Ui {
    /// Print JSON instead of text.
    pub(crate) json: bool,
    /// Use colours on standard output.
    pub(crate) color: bool,
    /// Print only what was requested.
    pub(crate) quiet: bool,
    /// Print more than the default.
    pub(crate) verbose: bool,
    /// Standard output is a terminal.
    pub(crate) terminal: bool,
    /// The work continues when no one reads the output any more: `| head` does not end a run.
    pub(crate) outlives_reader: bool,
    /// Output is collected here instead, for a view that shows it itself.
    pub(crate) kept: Option<Arc<Mutex<Vec<u8>>>>,
}

impl Ui {
    pub(crate) fn new(global: &Global) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let color = match global.color {
            Color::Always => true,
            Color::Never => false,
            // Errors go to standard error: no colours if that is a file.
            Color::Auto => {
                terminal
                    && std::io::stderr().is_terminal()
                    && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            }
        };
        Self {
            json: global.json,
            color: color && !global.json,
            quiet: global.quiet,
            verbose: global.verbose,
            terminal,
            outlives_reader: false,
            kept: None,
        }
    }

    /// For text that is not shown here: no colours, no width.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self {
            json: false,
            color: false,
            quiet: true,
            verbose: false,
            terminal: false,
            outlives_reader: false,
            kept: None,
        }
    }

    /// Prints a line on standard output.
    pub(crate) fn line(&self, text: impl AsRef<str>) {
        self.out(&format!("{}\n", text.as_ref()));
    }

    /// Prints text on standard output. Only our own colours reach a terminal, whatever the source of the text.
    pub(crate) fn out(&self, text: &str) {
        self.bytes(guarded(text).as_bytes());
    }

    /// Draws a whole page on a terminal, line by line over the old one; the first page clears the screen.
    pub(crate) fn page(&self, text: &str, first: bool) {
        let begin = if first { "\x1b[H\x1b[2J" } else { "\x1b[H" };
        let text = guarded(text).replace('\n', "\x1b[K\n");
        self.bytes(format!("{begin}{text}\x1b[J").as_bytes());
    }

    /// Prints text from others: byte for byte into a pipe or a file, cleaned on a terminal.
    pub(crate) fn foreign(&self, bytes: &[u8]) {
        if self.terminal || self.kept.is_some() {
            self.out(&clean(&String::from_utf8_lossy(bytes)));
        } else {
            self.bytes(bytes);
        }
    }

    /// Prints bytes on standard output, unchanged.
    pub(crate) fn bytes(&self, bytes: &[u8]) {
        if let Some(kept) = &self.kept {
            kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
            return;
        }
        let mut out = std::io::stdout().lock();
        if out.write_all(bytes).and_then(|()| out.flush()).is_err() && !self.outlives_reader {
            // The reader is gone (`regatta list | head`): there is nothing left to do.
            #[expect(clippy::disallowed_methods, reason = "every caller would have to end for it")]
            std::process::exit(0);
        }
    }

    /// Prints a line on standard error, for people.
    pub(crate) fn note(&self, text: impl AsRef<str>) {
        let _ = writeln!(std::io::stderr(), "{}", guarded(text.as_ref()));
    }

    /// Prints one JSON document on standard output.
    pub(crate) fn document(&self, value: &impl Serialize) {
        self.line(escaped(&serde_json::to_string_pretty(value).expect("our own values serialise")));
    }

    /// Prints one JSON array in parts.
    pub(crate) fn array(&self) -> Array<'_> {
        Array { ui: self, begun: false }
    }

    /// Prints one JSON object on its own line.
    pub(crate) fn object(&self, value: &impl Serialize) {
        self.line(escaped(&serde_json::to_string(value).expect("our own values serialise")));
    }

    /// The width of the terminal; `None` without one.
    pub(crate) fn columns(&self) -> Option<usize> {
        if !self.terminal {
            return None;
        }
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
        Some(size.map_or(0, |size| usize::from(size.ws_col)))
            .map(|columns| if columns == 0 { 80 } else { columns })
    }

    /// The height of the terminal; `None` without one.
    pub(crate) fn rows(&self) -> Option<usize> {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok().filter(|_| self.terminal)?;
        Some(usize::from(size.ws_row)).filter(|rows| *rows > 0)
    }

    /// `text` in a style's colour, if colours are on.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        if self.color { format!("\x1b[{}m{text}\x1b[0m", style.code()) } else { text.to_owned() }
    }
}

/// `text` without control characters, except the colours of [`Style`].
///
/// Foreign text is cleaned where it becomes part of a sentence; this catches what was missed there.
fn guarded(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| c == '\n' || c == '\t' || !c.is_control() && !turns_writing(c);
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let mut guarded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        match Style::ALL.iter().find_map(|style| style.sequence(rest)) {
            Some(sequence) => {
                guarded.push_str(sequence);
                rest = &rest[sequence.len()..];
            }
            None => {
                guarded.extend(visible(c));
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    Cow::Owned(guarded)
}

/// Escapes characters that JSON leaves as they are but that control a terminal or change the reading direction.
pub(crate) fn escaped(json: &str) -> Cow<'_, str> {
    let odd = |c: char| matches!(c, '\u{7f}'..='\u{9f}') || turns_writing(c);
    // Most documents are plain, which is quick to check.
    if json.bytes().all(|byte| byte < 0x7f) || !json.contains(odd) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if odd(c) { escaped.push_str(&format!("\\u{:04x}", u32::from(c))) } else { escaped.push(c) }
    }
    Cow::Owned(escaped)
}

/// An array that is printed in parts. See [`Ui::array`].
pub(crate) struct Array<'a> {
    ui: &'a Ui,
    begun: bool,
}

impl Array<'_> {
    /// Prints the next values.
    pub(crate) fn push<T: Serialize>(&mut self, values: &[T]) {
        if values.is_empty() {
            return;
        }
        let text = serde_json::to_string_pretty(values).expect("our own values serialise");
        let text = escaped(&text);
        // Each part is serialized as an array; what is inside its brackets is a piece of the whole.
        let inside = text.strip_prefix('[').and_then(|text| text.strip_suffix("\n]")).unwrap_or(&text);
        let before = if self.begun { "," } else { "[" };
        self.begun = true;
        self.ui.bytes(format!("{before}{inside}").as_bytes());
    }

    /// Prints its end.
    pub(crate) fn end(self) {
        self.ui.bytes(if self.begun { b"\n]\n" } else { b"[]\n" });
    }
}

/// All styles. Colour never carries meaning alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Good,
    Bad,
    Wait,
    Busy,
    Dim,
    Strong,
    Plain,
}

impl Style {
    const ALL: [Style; 7] =
        [Style::Good, Style::Bad, Style::Wait, Style::Busy, Style::Dim, Style::Strong, Style::Plain];

    /// The sequence that turns the style on, if `text` starts with it.
    fn sequence(self, text: &str) -> Option<&str> {
        let code = text.strip_prefix("\x1b[")?.strip_prefix(self.code())?;
        code.starts_with('m').then(|| &text[..self.code().len() + 3])
    }

    fn code(self) -> &'static str {
        match self {
            Style::Good => "32",
            Style::Bad => "31",
            Style::Wait => "33",
            Style::Busy => "36",
            Style::Dim => "2",
            Style::Strong => "1",
            Style::Plain => "0",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_colours_pass() {
        let ours = format!("\x1b[{}mok\x1b[0m", Style::Good.code());
        assert_eq!(guarded(&ours), ours);
        assert_eq!(guarded("plain\ttext\n"), "plain\ttext\n");
        assert_eq!(
            guarded("\x1b]0;evil\x07\x1b[2J\x1b[8m\r\u{9b}1m\u{202e}"),
            "\u{fffd}]0;evil\u{fffd}\u{fffd}[2J\u{fffd}[8m\u{fffd}1m"
        );
        assert_eq!(escaped("\"a\u{9b}b\u{202e}\""), "\"a\\u009bb\\u202e\"");
    }
}
