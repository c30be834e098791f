//! Titles and texts that Regatta writes on a forge.

use std::fmt::Write as _;

use super::marker::Marker;
use super::slug::PullNumber;
use super::words::{LONGEST, LONGEST_TITLE, closes, harmless, harmless_line};

/// The template of a pull request's text.
pub const TEMPLATE: &str = "{summary}\n\n{checks}\n\n{closes}\n";

/// The variables of that template.
pub const VARIABLES: [&str; 6] = ["task", "title", "summary", "checks", "closes", "target"];

/// A mistake in a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: unknown variable `{{{name}}}`; known are {}", VARIABLES.join(", "))]
pub struct UnknownVariable {
    /// The line, from 1.
    pub line: usize,
    /// The name.
    pub name: String,
}

/// What the text of a pull request is made of.
#[derive(Clone, Debug, Default)]
pub struct TaskText<'a> {
    /// The id of the task.
    pub task: &'a str,
    /// Its title, as it was written.
    pub title: &'a str,
    /// What its agent says about the work, masked.
    pub summary: &'a str,
    /// The commands that passed on the work.
    pub checks: &'a [String],
    /// The issue that the merge closes.
    pub closes: Option<PullNumber>,
    /// The branch it is to be merged into.
    pub target: &'a str,
    /// The mark by which it is recognised.
    pub marker: Marker,
}

/// The title and the text of a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullText {
    /// The title.
    pub title: String,
    /// The text, with its mark.
    pub body: String,
}

/// Fills the template. Words of the task and of its agent cannot act on the forge; exactly one line closes an issue.
pub fn pull_text(template: &str, task: &TaskText<'_>) -> Result<PullText, UnknownVariable> {
    let title = harmless_line(task.title, LONGEST_TITLE);
    let title = if title.is_empty() { harmless_line(task.task, LONGEST_TITLE) } else { title };
    let mut checks = String::new();
    for check in task.checks {
        let _ = writeln!(checks, "- `{}` passed", harmless_line(&check.replace('`', "'"), LONGEST_TITLE));
    }
    let own = task.closes.map(closes).unwrap_or_default();
    // The mark and the template's own text have their place beside the summary.
    let room = LONGEST.saturating_sub(template.len() + checks.len() + 1000);
    let summary = harmless(task.summary, room);
    let value = |name: &str| match name {
        "task" => Some(as_code(task.task)),
        "title" => Some(title.clone()),
        "summary" => Some(summary.clone()),
        "checks" => Some(checks.trim_end().to_owned()),
        "closes" => Some(own.clone()),
        "target" => Some(harmless_line(task.target, LONGEST_TITLE)),
        _ => None,
    };
    let filled = filled(template, value)?;
    let mut body = without_gaps(&filled);
    if !own.is_empty() && !template.contains("{closes}") {
        let _ = write!(body, "\n\n{own}");
    }
    let _ = write!(body, "\n\n{}", task.marker);
    Ok(PullText { title, body: body.trim_start().to_owned() })
}

/// The id of a task. `GH-42` as plain text would refer to an issue; as code it does not.
fn as_code(task: &str) -> String {
    let safe = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    format!("`{}`", task.chars().filter(safe).collect::<String>())
}

/// Checks a template of the user's.
pub fn check_template(template: &str) -> Result<(), UnknownVariable> {
    filled(template, |name| VARIABLES.contains(&name).then(String::new)).map(drop)
}

/// Replaces `{name}`; braces around anything but a name stay as they are.
fn filled(template: &str, value: impl Fn(&str) -> Option<String>) -> Result<String, UnknownVariable> {
    let mut out = String::with_capacity(template.len());
    for (n, line) in template.split_inclusive('\n').enumerate() {
        let mut rest = line;
        while let Some(open) = rest.find('{') {
            out.push_str(&rest[..open]);
            rest = &rest[open..];
            let name = rest[1..].split('}').next().unwrap_or_default();
            let is_name = rest.len() > name.len() + 1
                && !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            if is_name {
                let value =
                    value(name).ok_or_else(|| UnknownVariable { line: n + 1, name: name.to_owned() })?;
                out.push_str(&value);
                rest = &rest[name.len() + 2..];
            } else {
                out.push('{');
                rest = &rest[1..];
            }
        }
        out.push_str(rest);
    }
    Ok(out)
}

/// A text with at most one empty line in a row: variables may be empty.
fn without_gaps(text: &str) -> String {
    let mut out = String::new();
    let mut empty = 0;
    for line in text.trim().lines() {
        empty = if line.trim().is_empty() { empty + 1 } else { 0 };
        if empty < 2 {
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
    out.trim_end().to_owned()
}

/// What the one comment about a task says.
#[derive(Clone, Debug, Default)]
pub struct Status<'a> {
    /// The id of the task.
    pub task: &'a str,
    /// Where it stands, as a sentence.
    pub state: &'a str,
    /// What happened since the comment was made, oldest first.
    pub lines: &'a [String],
    /// The mark by which the comment is found again.
    pub marker: Marker,
}

/// Most lines of the comment; older ones are left out.
const STATUS_LINES: usize = 20;

/// The text of that comment. It notifies no one.
pub fn sticky(status: &Status<'_>) -> String {
    let mut text = format!("{}: {}\n", as_code(status.task), harmless_line(status.state, 1000));
    let left_out = status.lines.len().saturating_sub(STATUS_LINES);
    if left_out > 0 {
        let _ = write!(text, "\n- {left_out} earlier");
    }
    for line in &status.lines[left_out..] {
        let _ = write!(text, "\n- {}", harmless_line(line, 1000));
    }
    format!("{}\n\n{}", text.trim_end(), status.marker)
}
