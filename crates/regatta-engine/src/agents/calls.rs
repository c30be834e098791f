//! Open tool calls: what each one is, and which files it will have changed if it succeeds.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::edits::Edit;
use super::event::{AgentEvent, one_line};
use super::json::text;

/// Maximum number of calls remembered at once.
const MAX_OPEN: usize = 256;

/// A call that has started.
#[derive(Clone, Debug, Default)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) edits: Vec<Edit>,
    /// True if a sub-agent made it.
    pub(super) sub: bool,
    /// When it started, in milliseconds, if the agent reports it.
    pub(super) at: Option<i64>,
}

/// Calls by their id. Bounded, whatever the agent prints.
#[derive(Debug, Default)]
pub(super) struct Calls(BTreeMap<String, Call>);

impl Calls {
    pub(super) fn begin(&mut self, id: &str, call: Call) {
        if self.0.len() < MAX_OPEN {
            self.0.insert(id.to_owned(), call);
        }
    }

    /// Ends the call; `None` if its start was not seen.
    pub(super) fn end(&mut self, id: &str) -> Option<Call> {
        self.0.remove(id)
    }

    /// Whether a call of the main agent itself is open.
    pub(super) fn has_own(&self) -> bool {
        self.0.values().any(|call| !call.sub)
    }

    /// The turn has ended, and with it all open calls.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The event for a call that has ended, with its answer: a text, or a value that contains texts.
pub(super) fn ended(id: String, failed: bool, answer: &Value, took_ms: Option<u64>) -> AgentEvent {
    let mut hasher = DefaultHasher::new();
    failed.hash(&mut hasher);
    each_text(answer, &mut |words| timeless(words, &mut hasher));
    let mut said = String::new();
    if failed {
        each_text(answer, &mut |words| {
            if said.is_empty() {
                said = one_line(words);
            }
        });
    }
    AgentEvent::ToolEnded { id, failed, said, took_ms, answer: Some(hasher.finish()) }
}

/// A number for a value, equal for equal values.
pub(super) fn digest(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Every text in an answer: itself, or those of its blocks.
fn each_text(answer: &Value, each: &mut dyn FnMut(&str)) {
    match answer {
        Value::String(words) => each(words),
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| text(block, "text")).for_each(each);
        }
        _ => {}
    }
}

/// Hashes `text` without durations: tests that fail the same way never take equally long.
fn timeless(text: &str, hasher: &mut impl Hasher) {
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        hasher.write(&rest.as_bytes()[..at]);
        let number = &rest[at..];
        let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
        let (digits, after) = number.split_at(end);
        let unit = after.trim_start_matches(' ');
        let word = unit.find(|c: char| !c.is_alphanumeric()).unwrap_or(unit.len());
        if !["s", "ms", "us", "µs", "ns", "sec", "secs", "second", "seconds"].contains(&&unit[..word]) {
            hasher.write(digits.as_bytes());
        }
        rest = after;
    }
    hasher.write(rest.as_bytes());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(value: Value) -> Option<u64> {
        match ended(String::new(), true, &value, None) {
            AgentEvent::ToolEnded { answer, .. } => answer,
            _ => None,
        }
    }

    #[test]
    fn answers_are_the_same_but_for_the_time_they_took() {
        let first = answer(json!("3 failed, finished in 0.12s\ntook 5 ms"));
        assert_eq!(first, answer(json!("3 failed, finished in 12.5s\ntook 17 ms")));
        assert_eq!(first, answer(json!([{"type": "text", "text": "3 failed, finished in 9s\ntook 1 ms"}])));
        assert_ne!(first, answer(json!("2 failed, finished in 0.12s\ntook 5 ms")));
        assert_ne!(answer(json!("12% done")), answer(json!("13% done")));
        assert_ne!(answer(json!("5 samples")), answer(json!("6 samples")));
    }

    #[test]
    fn only_a_failure_is_quoted_and_on_one_line() {
        let said = |failed, value| match ended(String::new(), failed, &value, None) {
            AgentEvent::ToolEnded { said, .. } => said,
            _ => String::new(),
        };
        assert_eq!(said(true, json!("no such\nfile\x1b[2J")), "no such file");
        assert_eq!(said(false, json!("fine")), "");
        assert_eq!(said(true, json!({"odd": 1})), "");
    }
}
