//! The normal form: what any agent's output comes down to, one event per thing a person would want to know.

use std::borrow::Cow;

use regatta_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Longest text kept of one message, in bytes.
pub(super) const MAX_TEXT: usize = 64 * 1024;
/// Longest one-line summary, in bytes.
const MAX_SUMMARY: usize = 200;
/// How much of a line that nobody understood is kept, in bytes.
const MAX_UNKNOWN: usize = 400;

/// One thing an agent said or did. Counts and costs are totals of the attempt so far, never increments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum AgentEvent {
    /// The agent is up.
    Started {
        /// Its own conversation id.
        session: Option<String>,
        /// The model it chose.
        model: Option<String>,
    },
    /// It said something. What a sub-agent says is not here; its answer reaches the main agent as a tool's result.
    Text {
        /// The words.
        text: String,
    },
    /// A tool call is open.
    ToolStarted {
        /// Ties start and end together.
        id: String,
        /// The tool's name.
        name: String,
        /// One line for people: the file, the command, the pattern.
        summary: String,
        /// A sub-agent made the call.
        #[serde(default, skip_serializing_if = "is_false")]
        sub: bool,
        /// Equal where the tool was asked the same; of no meaning beyond this process.
        #[serde(skip)]
        input: Option<u64>,
    },
    /// A tool call is closed.
    ToolEnded {
        /// As in `ToolStarted`.
        id: String,
        /// The tool said it failed, or was refused.
        failed: bool,
        /// What a failed one said, on one line.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        said: String,
        /// How long it took, where the agent tells.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        took_ms: Option<u64>,
        /// Equal where the tool answered the same, times it took aside; of no meaning beyond this process.
        #[serde(skip)]
        answer: Option<u64>,
    },
    /// A file was changed by a tool that says so; what a command changed is not here.
    File {
        /// As seen from the lane, where it is in it. Somebody's words: to be shown, never to be opened.
        path: String,
        /// What became of it.
        kind: FileChange,
        /// A few lines of it, each behind ` `, `-` or `+`; empty where the agent does not tell.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        diff: String,
        /// Lines that were left out of `diff`.
        #[serde(default, skip_serializing_if = "is_zero")]
        more: u32,
        /// A sub-agent did it.
        #[serde(default, skip_serializing_if = "is_false")]
        sub: bool,
    },
    /// What the attempt has used so far.
    Usage {
        /// Tokens read, those from a cache included.
        tokens_in: u64,
        /// Tokens written.
        tokens_out: u64,
        /// Those of the tokens read that came from a cache.
        #[serde(default, skip_serializing_if = "is_no_count")]
        cached: u64,
        /// Dollars, where the agent says so.
        cost_usd: Option<f64>,
    },
    /// A request failed and the agent is about to try again by itself.
    Retrying {
        /// Which retry this is, from 1.
        attempt: u32,
        /// After how many it gives up.
        max: u32,
        /// How long it waits first.
        delay_ms: u64,
        /// The agent's word for what went wrong.
        kind: String,
    },
    /// News about the account's quota.
    Limit {
        /// `allowed`, `allowed_warning` or `rejected`.
        status: String,
        /// When the quota is whole again.
        resets_at: Option<Timestamp>,
        /// Which quota: `five_hour`, `seven_day`, …
        kind: String,
    },
    /// A tool was refused by the agent's permission rules.
    Denied {
        /// The tool's name.
        tool: String,
    },
    /// Something failed for good, in the agent's own words.
    Error {
        /// The agent's word for it.
        kind: String,
        /// What it told the user.
        message: String,
    },
    /// The agent's last word on a turn. Its absence means that it did not finish.
    Result {
        /// The agent thinks it went well.
        ok: bool,
        /// Its answer, or why not.
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
        /// Tools refused on the way.
        denials: Vec<String>,
    },
    /// A line that nobody understood, cut short.
    Unknown {
        /// Its beginning.
        line: String,
    },
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileChange {
    /// It was not there.
    Add,
    /// It is another now.
    Update,
    /// It is gone.
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
    /// A tool call that is open, by the main agent.
    pub fn tool(id: impl Into<String>, name: impl Into<String>, summary: impl Into<String>) -> Self {
        let (id, name, summary) = (id.into(), name.into(), summary.into());
        AgentEvent::ToolStarted { id, name, summary, sub: false, input: None }
    }

    /// The same, with all that it was asked.
    pub(super) fn asked(self, by: &serde_json::Value) -> Self {
        match self {
            AgentEvent::ToolStarted { id, name, summary, sub, .. } => {
                let input = Some(super::calls::digest(by));
                AgentEvent::ToolStarted { id, name, summary, sub, input }
            }
            other => other,
        }
    }

    /// A tool call that is closed, of which nothing else is known.
    pub fn ended(id: impl Into<String>, failed: bool) -> Self {
        AgentEvent::ToolEnded { id: id.into(), failed, said: String::new(), took_ms: None, answer: None }
    }

    /// Keeps the beginning of a line that could not be read.
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

/// `text` without the sequences by which a terminal is told colours, titles and places.
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
            // A title, a link: up to the bell, or to the next escape.
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
