//! One mistake in a file that a user wrote: where it is, what was expected, what to do next.
//!
//! Parsing never stops at the first mistake. It returns what it understood together with every diagnostic.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whether a mistake stops Regatta.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Nothing is run or stored.
    Error,
    /// Worth reading; Regatta continues.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        })
    }
}

/// A position in a text: both numbers count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pos {
    /// The line number.
    pub line: usize,
    /// The character in the line.
    pub column: usize,
}

impl Pos {
    /// The beginning of a text.
    pub const START: Pos = Pos { line: 1, column: 1 };
    /// The position of mistakes outside any text: in a flag, in an environment variable.
    pub const NOWHERE: Pos = Pos { line: 0, column: 0 };
}

/// One mistake and its position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Whether it stops Regatta.
    pub severity: Severity,
    /// The file as the user named it, or the variable or flag if no file is at fault.
    pub file: String,
    /// Counts from 1; 0 if no file is at fault.
    pub line: usize,
    /// Counts from 1, in characters; 0 if no file is at fault.
    pub column: usize,
    /// The key, from the top of the file: `tasks[2].priority`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What is wrong, as a fragment without a full stop.
    pub message: String,
    /// A hint on what to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Diagnostic {
    /// An error at `pos` of `file`.
    pub fn error(file: impl Into<String>, pos: Pos, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            file: file.into(),
            line: pos.line,
            column: pos.column,
            field: None,
            message: message.into(),
            hint: None,
        }
    }

    /// A warning at `pos` of `file`.
    pub fn warning(file: impl Into<String>, pos: Pos, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(file, pos, message) }
    }

    /// Sets the key it is about.
    #[must_use]
    pub fn at_field(mut self, field: impl Into<String>) -> Self {
        let field = field.into();
        self.field = (!field.is_empty()).then_some(field);
        self
    }

    /// Sets the hint.
    #[must_use]
    pub fn hinted(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Whether it stops Regatta.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic { severity, file, line, column, message, .. } = self;
        if *line == 0 {
            write!(f, "{file}: {severity}: {message}")?;
        } else {
            write!(f, "{file}:{line}:{column}: {severity}: {message}")?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Collects the mistakes in one file.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) file: String,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl Report {
    pub(crate) fn new(file: &str) -> Self {
        Self { file: file.to_owned(), diagnostics: Vec::new() }
    }

    /// Adds an error about `field` and returns it, for a hint to be added.
    pub(crate) fn error(&mut self, pos: Pos, field: &str, message: impl Into<String>) -> &mut Diagnostic {
        self.push(Diagnostic::error(&self.file, pos, message).at_field(field))
    }

    /// Adds a warning about `field` and returns it, for a hint to be added.
    pub(crate) fn warn(&mut self, pos: Pos, field: &str, message: impl Into<String>) -> &mut Diagnostic {
        self.push(Diagnostic::warning(&self.file, pos, message).at_field(field))
    }

    fn push(&mut self, mut diagnostic: Diagnostic) -> &mut Diagnostic {
        let last = self.diagnostics.len();
        // Text from a file may be printed to a terminal, on one line.
        diagnostic.message = printable(&diagnostic.message);
        diagnostic.field = diagnostic.field.as_deref().map(printable);
        self.diagnostics.push(diagnostic);
        &mut self.diagnostics[last]
    }

    pub(crate) fn has_errors(&self) -> bool {
        has_errors(&self.diagnostics)
    }

    /// All diagnostics in the order of the text; those at one position in the order they were found.
    pub(crate) fn into_sorted(mut self) -> Vec<Diagnostic> {
        for diagnostic in &mut self.diagnostics {
            diagnostic.hint = diagnostic.hint.as_deref().map(printable);
        }
        self.diagnostics.sort_by_key(|d| (d.line, d.column));
        self.diagnostics
    }
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '�' } else { c }).collect()
}

/// Whether any of them stops Regatta.
pub fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(Diagnostic::is_error)
}

/// The candidate that `word` was probably meant to be, if one is similar enough.
///
/// Similar means at most one slip per three letters, and at least one; a swap of neighbours is one slip, and
/// differences in case or between `-` and `_` do not count.
pub fn nearest<'a, I>(word: &str, candidates: I) -> Option<&'a str>
where
    I: IntoIterator<Item = &'a str>,
{
    let word = folded(word)?;
    let allowed = (word.len() / 3).max(1);
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let other = folded(candidate)?;
            let slips = distance(&word, &other);
            // Any two words of one or two letters are similar.
            (slips <= allowed && slips < word.len().max(other.len())).then_some((slips, candidate))
        })
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, candidate)| candidate)
}

/// The letters that count; `None` for a word too long to be a typo.
fn folded(word: &str) -> Option<Vec<char>> {
    const LONGEST_WORD_CHARS: usize = 80;
    if word.len() > LONGEST_WORD_CHARS * 4 {
        return None;
    }
    let letters: Vec<char> =
        word.chars().flat_map(char::to_lowercase).map(|c| if c == '-' { '_' } else { c }).collect();
    (letters.len() <= LONGEST_WORD_CHARS).then_some(letters)
}

/// The Damerau-Levenshtein distance, in the variant that edits no substring twice.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let differs = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + differs);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_offered_only_when_it_is_near() {
        let keys = ["id", "priority", "deps", "depends_on", "max_attempts", "timeout", "writes"];
        let check = |word: &str, expected: Option<&str>| {
            assert_eq!(nearest(word, keys), expected, "{word}");
        };
        check("prioritty", Some("priority"));
        check("Priority", Some("priority"));
        check("pirority", Some("priority"));
        check("depends-on", Some("depends_on"));
        check("maxattempts", Some("max_attempts"));
        check("write", Some("writes"));
        check("dep", Some("deps"));
        check("di", Some("id"));
        check("timeotu", Some("timeout"));
        check("banana", None);
        check("x", None);
        check("", None);
        check(&"priority".repeat(1000), None);
        assert_eq!(nearest("dépôt", ["depot"]), None);
        assert_eq!(nearest("dépot", ["depot"]), Some("depot"));
    }

    #[test]
    fn a_diagnostic_reads_as_place_severity_message_and_hint() {
        let pos = Pos { line: 3, column: 9 };
        let diagnostic = Diagnostic::error("a.md", pos, "unknown key `x`").hinted("did you mean `y`?");
        assert_eq!(diagnostic.to_string(), "a.md:3:9: error: unknown key `x`\n  hint: did you mean `y`?");
        let nowhere = Diagnostic::warning("$REGATTA_X", Pos::NOWHERE, "is not a setting");
        assert_eq!(nowhere.to_string(), "$REGATTA_X: warning: is not a setting");
    }

    #[test]
    fn a_diagnostic_survives_json_without_empty_fields() {
        let diagnostic = Diagnostic::warning("a.md", Pos::START, "m").at_field("");
        let json = serde_json::to_string(&diagnostic).unwrap();
        assert_eq!(json, r#"{"severity":"warning","file":"a.md","line":1,"column":1,"message":"m"}"#);
        assert_eq!(serde_json::from_str::<Diagnostic>(&json).unwrap(), diagnostic);
    }
}
