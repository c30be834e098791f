//! One entry of a transcript, before it is coloured.

use serde::Serialize;

/// The meaning of a part of an entry. Nothing is expressed by it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tone {
    /// The agent's own text.
    Plain,
    /// Secondary.
    Dim,
    /// Success.
    Good,
    /// Failure.
    Bad,
    /// Waiting, or doubtful.
    Wait,
    /// In progress.
    Busy,
}

/// The layout of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Paragraphs, as written.
    Words,
    /// One line, cut if there is no room.
    Line,
    /// One line, wrapped if there is no room.
    Wrapped,
    /// Lines of a change, each prefixed with ` `, `-` or `+`.
    Diff,
}

/// One entry. Its texts come from others: not masked, not cleaned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Its layout.
    pub shape: Shape,
    /// Its indentation: what belongs to a call is below it, what a sub-agent does below that.
    pub indent: usize,
    /// Whether an empty line comes before it.
    pub gap: bool,
    /// Its first character; empty for text and changes.
    pub glyph: &'static str,
    /// The meaning of the glyph.
    pub tone: Tone,
    /// The tool, if there is one.
    pub name: String,
    /// The text itself.
    pub text: String,
    /// Further facts: how long it took, what happened to a file.
    pub note: String,
    /// The number of lines of a change that are not in `text`.
    pub more: u32,
}

impl Entry {
    pub(super) fn line(glyph: &'static str, tone: Tone, text: impl Into<String>) -> Self {
        Self {
            shape: Shape::Line,
            indent: 0,
            gap: false,
            glyph,
            tone,
            name: String::new(),
            text: text.into(),
            note: String::new(),
            more: 0,
        }
    }

    pub(super) fn words(text: &str) -> Self {
        Self { shape: Shape::Words, ..Self::line("", Tone::Plain, text) }
    }

    pub(super) fn diff(lines: &[&str], more: u32) -> Self {
        Self { shape: Shape::Diff, more, ..Self::line("", Tone::Dim, lines.join("\n")) }
    }

    pub(super) fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    pub(super) fn noted(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    pub(super) fn wrapped(self) -> Self {
        Self { shape: Shape::Wrapped, ..self }
    }

    pub(super) fn below(self, below: bool) -> Self {
        Self { indent: self.indent + usize::from(below), ..self }
    }

    /// Whether a reader would consider it a repetition: times and gaps aside.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (self.shape, self.indent, self.glyph) == (other.shape, other.indent, other.glyph)
            && (&self.name, &self.text, self.more) == (&other.name, &other.text, other.more)
    }
}
