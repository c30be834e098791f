//! Splits a Markdown file into its YAML frontmatter and its body.

use crate::config::normalised;
use crate::diagnostic::{Pos, Report};

/// Maximum file size: longer than any prompt, short enough to read whole.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// The two halves of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Halves {
    /// The YAML; it begins on line 2.
    pub(super) yaml: String,
    /// Everything after the closing line.
    pub(super) body: String,
    /// The position of the closing line.
    pub(super) end: Pos,
}

/// Finds the frontmatter. `None` if there is none, which is then reported.
pub(super) fn split(text: &str, report: &mut Report) -> Option<Halves> {
    if text.len() > MAX_BYTES {
        report.error(Pos::START, "", format!("is larger than {} MiB", MAX_BYTES / 1024 / 1024));
        return None;
    }
    let text = normalised(text);
    let is_fence = |line: &str| line.trim_end() == "---";
    if text.trim().is_empty() {
        report.error(Pos::START, "", "is empty").hint =
            Some("`regatta new ID` writes a task file to begin with".into());
        return None;
    }
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    if !is_fence(first) {
        let later = text.lines().position(|line| !line.trim().is_empty()).unwrap_or(0);
        let hint = if text.lines().nth(later).is_some_and(is_fence) {
            format!("remove everything before the `---` on line {}", later + 1)
        } else {
            "begin the file with a line `---`, the keys, and a second line `---`; the prompt follows".into()
        };
        report.error(Pos::START, "", "has no frontmatter: the first line must be `---`").hint = Some(hint);
        return None;
    }
    let mut offset = 0;
    for line in rest.split_inclusive('\n') {
        if is_fence(line) {
            let (yaml, body) = (rest[..offset].to_owned(), rest[offset + line.len()..].to_owned());
            let end = Pos { line: 2 + yaml.matches('\n').count(), column: 1 };
            return Some(Halves { yaml, body, end });
        }
        offset += line.len();
    }
    let message = "the frontmatter that begins here is not closed";
    report.error(Pos::START, "", message).hint = Some("end it with a line `---`".into());
    None
}
