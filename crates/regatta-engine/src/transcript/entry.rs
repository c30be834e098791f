//! One thing worth reading, before anybody has painted it.

use serde::Serialize;

/// What a part of an entry means. Nothing is told by it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tone {
    /// The agent's own words.
    Plain,
    /// Beside the point.
    Dim,
    /// Went well.
    Good,
    /// Went wrong.
    Bad,
    /// Waits, or is doubtful.
    Wait,
    /// Is under way.
    Busy,
}

/// How an entry wants to be laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Paragraphs, as they were said.
    Words,
    /// One line, cut where there is no room.
    Line,
    /// One line, or more where there is no room.
    Wrapped,
    /// Lines of a change, each behind ` `, `-` or `+`.
    Diff,
}

/// One thing worth reading. Its texts are somebody else's: not masked, not cleaned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// How it wants to be laid out.
    pub shape: Shape,
    /// How far it is moved in: what belongs to a call stands below it, what a sub-agent does below that.
    pub indent: usize,
    /// An empty line stands before it.
    pub gap: bool,
    /// What it begins with; empty for words and changes.
    pub glyph: &'static str,
    /// What the glyph means.
    pub tone: Tone,
    /// The tool, where there is one.
    pub name: String,
    /// The text itself.
    pub text: String,
    /// What is known beside it: how long it took, what became of a file.
    pub note: String,
    /// Lines of a change that are not in `text`.
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

    /// Whether a reader would call it the same again: times and gaps aside.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (self.shape, self.indent, self.glyph) == (other.shape, other.indent, other.glyph)
            && (&self.name, &self.text, self.more) == (&other.name, &other.text, other.more)
    }
}
