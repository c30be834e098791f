//! The normal form of any agent's output: one event per thing a user would want to know.

use std::borrow::Cow;

use regatta_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Longest text kept of one message, in bytes.
pub(super) const MAX_TEXT: usize = 64 * 1024;
/// Longest one-line summary, in bytes.
const MAX_SUMMARY: usize = 200;
/// Bytes kept of a line that could not be decoded.
const MAX_UNKNOWN: usize = 400;

/// One thing an agent said or did. Counts and costs are totals of the attempt so far, never increments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum AgentEvent {
    /// The agent has started.
    Started {
        /// Its own conversation id.
        session: Option<String>,
        /// The model it uses.
        model: Option<String>,
    },
    /// A message. Sub-agents' messages are not included; their answer reaches the main agent as a tool result.
    Text {
        /// The text.
        text: String,
    },
    /// A tool call has started.
    ToolStarted {
        /// Connects start and end.
        id: String,
        /// The tool's name.
        name: String,
        /// One line for display: the file, the command, the pattern.
        summary: String,
        /// True if a sub-agent made the call.
        #[serde(default, skip_serializing_if = "is_false")]
        sub: bool,
        /// Equal for equal inputs of the tool; meaningless outside this process.
        #[serde(skip)]
        input: Option<u64>,
    },
    /// A tool call has ended.
    ToolEnded {
        /// As in `ToolStarted`.
        id: String,
        /// True if the tool failed or was refused.
        failed: bool,
        /// The message of a failed call, on one line.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        said: String,
        /// How long it took, if the agent reports it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        took_ms: Option<u64>,
        /// Equal for equal answers of the tool, durations aside; meaningless outside this process.
        #[serde(skip)]
        answer: Option<u64>,
    },
    /// A file was changed by a tool that reports it; changes by commands are not included.
    File {
        /// The path from the lane if it is inside it. Untrusted text: to be displayed, never opened.
        path: String,
        /// The kind of change.
        kind: FileChange,
        /// A few lines of the change, each prefixed with ` `, `-` or `+`; empty if the agent does not report them.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        diff: String,
        /// The number of lines left out of `diff`.
        #[serde(default, skip_serializing_if = "is_zero")]
        more: u32,
        /// True if a sub-agent changed it.
        #[serde(default, skip_serializing_if = "is_false")]
        sub: bool,
    },
    /// What the attempt has used so far.
    Usage {
        /// Tokens read, including those from a cache.
        tokens_in: u64,
        /// Tokens written.
        tokens_out: u64,
        /// The part of `tokens_in` that came from a cache.
        #[serde(default, skip_serializing_if = "is_no_count")]
        cached: u64,
        /// Dollars, if the agent reports them.
        cost_usd: Option<f64>,
    },
    /// A request failed and the agent is about to retry by itself.
    Retrying {
        /// The number of this retry, from 1.
        attempt: u32,
        /// The maximum number of retries.
        max: u32,
        /// How long it waits first.
        delay_ms: u64,
        /// The agent's name for the error.
        kind: String,
    },
    /// The status of the account's quota.
    Limit {
        /// `allowed`, `allowed_warning` or `rejected`.
        status: String,
        /// When the quota is reset.
        resets_at: Option<Timestamp>,
        /// The quota: `five_hour`, `seven_day`, …
        kind: String,
    },
    /// The agent's permission rules refused a tool.
    Denied {
        /// The tool's name.
        tool: String,
    },
    /// Something failed for good, in the agent's own words.
    Error {
        /// The agent's name for the error.
        kind: String,
        /// The message for the user.
        message: String,
    },
    /// The agent's last message of a turn. If it is missing, the agent did not finish.
    Result {
        /// Whether the agent considers it a success.
        ok: bool,
        /// Its answer, or the error.
        text: String,
        /// Model turns taken.
        turns: Option<u32>,
        /// As in `Usage`.
        cost_usd: Option<f64>,
        /// As in `Usage`.
        tokens_in: u64,
        /// As in `Usage`.
        tokens_out: u64,
        /// As in `Usage`.
        #[serde(default, skip_serializing_if = "is_no_count")]
        cached: u64,
        /// Refused tools.
        denials: Vec<String>,
    },
    /// A line that could not be decoded, shortened.
    Unknown {
        /// Its beginning.
        line: String,
    },
}

/// The kind of change to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileChange {
    /// It was created.
    Add,
    /// It was changed.
    Update,
    /// It was deleted.
    Delete,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over like this")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over like this")]
pub(super) fn is_no_count(n: &u64) -> bool {
    *n == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over like this")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl AgentEvent {
    /// The start of a tool call by the main agent.
    pub fn tool(id: impl Into<String>, name: impl Into<String>, summary: impl Into<String>) -> Self {
        let (id, name, summary) = (id.into(), name.into(), summary.into());
        AgentEvent::ToolStarted { id, name, summary, sub: false, input: None }
    }

    /// Adds the digest of its input.
    pub(super) fn asked(self, by: &serde_json::Value) -> Self {
        match self {
            AgentEvent::ToolStarted { id, name, summary, sub, .. } => {
                let input = Some(super::calls::digest(by));
                AgentEvent::ToolStarted { id, name, summary, sub, input }
            }
            other => other,
        }
    }

    /// The end of a tool call without further details.
    pub fn ended(id: impl Into<String>, failed: bool) -> Self {
        AgentEvent::ToolEnded { id: id.into(), failed, said: String::new(), took_ms: None, answer: None }
    }

    /// Keeps the beginning of a line that could not be decoded.
    pub(super) fn unknown(line: &[u8]) -> Self {
        let head = &line[..line.len().min(MAX_UNKNOWN)];
        AgentEvent::Unknown { line: clip(&String::from_utf8_lossy(head), MAX_UNKNOWN) }
    }
}

/// The beginning of `text`, at most `max` bytes, cut between characters.
pub(super) fn clip(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let mut end = max.saturating_sub('…'.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

/// The end of `text`, at most `max` bytes.
pub(super) fn tail(text: &str, max: usize) -> &str {
    let mut start = text.len().saturating_sub(max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// `text` as one short line: no terminal sequences, no control characters, no runs of blanks.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::new();
    let text = without_escapes(text);
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > MAX_SUMMARY {
            break;
        }
    }
    clip(&line, MAX_SUMMARY)
}

/// `text` without terminal sequences for colours, titles and cursor positions.
fn without_escapes(text: &str) -> Cow<'_, str> {
    if !text.contains(['\u{1b}', '\u{9b}', '\u{9d}']) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let opens = match c {
            '\u{1b}' => chars.next_if(|c| matches!(c, '['..='_' | '(' | ')')).unwrap_or('\u{1b}'),
            '\u{9b}' => '[',
            '\u{9d}' => ']',
            _ => {
                plain.push(c);
                continue;
            }
        };
        match opens {
            '[' => drop(chars.find(|c| ('@'..='~').contains(c))),
            // A title or a link: up to the bell, or to the next escape.
            ']' | 'P' | 'X' | '^' | '_' => {
                while chars.next_if(|c| !matches!(c, '\u{7}' | '\u{1b}' | '\u{9c}')).is_some() {}
                if chars.next() == Some('\u{1b}') {
                    chars.next_if_eq(&'\\');
                }
            }
            '(' | ')' => drop(chars.next()),
            _ => {}
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_one_line_without_terminal_tricks() {
        assert_eq!(one_line("  cargo\ttest\n\n -p\u{1b}[31m x "), "cargo test -p x");
        assert_eq!(one_line("\u{1b}[91m\u{1b}[1mError: \u{1b}[0mno\u{1b}]8;;x\u{7} link"), "Error: no link");
        assert_eq!(one_line("torn \u{1b}[3"), "torn");
        assert!(one_line(&"long ".repeat(1000)).len() <= MAX_SUMMARY);
    }

    #[test]
    fn cutting_never_splits_a_character() {
        for max in 3..12 {
            assert!(clip("ééééééé", max).len() <= max);
            assert!(tail("ééééééé", max).len() <= max);
        }
    }

    #[test]
    fn an_event_survives_json() {
        let event = AgentEvent::Retrying { attempt: 1, max: 3, delay_ms: 500, kind: "overloaded".into() };
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(text, r#"{"type":"retrying","attempt":1,"max":3,"delay_ms":500,"kind":"overloaded"}"#);
        assert_eq!(serde_json::from_str::<AgentEvent>(&text).unwrap(), event);
    }
}
