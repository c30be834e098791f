//! Decodes Gemini's `stream-json`, line by line, into the normal form.
//!
//! Messages arrive in pieces, cut anywhere. They are joined again, so that a verdict in a message can be found.

use regatta_core::exit::Exit;
use regatta_core::time::Timestamp;
use serde_json::Value;

use super::classify::{Terminal, cause, classify};
use crate::agents::calls::{Call, Calls, ended};
use crate::agents::decoder::{Decoder, Ending};
use crate::agents::edits::edits;
use crate::agents::event::{AgentEvent, MAX_TEXT, clip, one_line};
use crate::agents::json::{count, events_of, session_id, summary, text};
use crate::agents::ledger::Ledger;

/// Maximum number of refusals listed for one attempt.
const MAX_DENIALS: usize = 100;
/// Longest id of a remembered tool call.
const MAX_ID: usize = 256;

/// Decodes the output of one `gemini -o stream-json`.
#[derive(Debug, Default)]
pub struct GeminiDecoder {
    ledger: Ledger,
    terminal: Option<Terminal>,
    /// There was at least one event.
    spoke: bool,
    /// The message received so far.
    saying: String,
    /// The last complete message.
    answer: String,
    /// The last error of the turn.
    error: Option<String>,
    denials: Vec<String>,
    calls: Calls,
}

impl Decoder for GeminiDecoder {
    fn line(&mut self, line: &[u8]) -> Vec<AgentEvent> {
        let mut events = events_of(line, |value, events| self.event(value, events));
        self.ledger.note_all(&mut events, 0);
        events
    }

    fn end(&mut self, exit: &Exit, stderr_tail: &str, now: Timestamp) -> Ending {
        let end = classify(self.terminal.as_ref(), self.spoke, exit, stderr_tail, now);
        // Including those of a run without a result.
        Ending { denials: self.denials.clone(), ..self.ledger.ending(end) }
    }

    fn open_tools(&self) -> usize {
        self.ledger.open_tools()
    }
}

impl GeminiDecoder {
    /// `None` for an unknown event.
    fn event(&mut self, value: &Value, events: &mut Vec<AgentEvent>) -> Option<()> {
        let kind = text(value, "type")?;
        if kind != "message" {
            events.extend(self.said());
        }
        match kind {
            "init" => {
                self.terminal = None;
                events.push(AgentEvent::Started {
                    session: session_id(value, "session_id"),
                    model: text(value, "model").map(one_line),
                });
            }
            "message" => self.message(value, events),
            "tool_use" => {
                let id = clip(text(value, "tool_id").unwrap_or_default(), MAX_ID);
                let name = one_line(text(value, "tool_name").unwrap_or("?"));
                let input = value.get("parameters").unwrap_or(&Value::Null);
                let call = Call { edits: edits(&name, input), at: told_at(value), ..Call::default() };
                self.calls.begin(&id, call);
                events.push(AgentEvent::tool(id, name, summary(input, None)).asked(input));
            }
            "tool_result" => self.tool_result(value, events),
            "error" => {
                let message = clip(text(value, "message").unwrap_or_default(), MAX_TEXT);
                let is_warning = text(value, "severity") == Some("warning");
                if !is_warning {
                    self.error = Some(message.clone());
                }
                let kind = if is_warning { "warning" } else { word(&message) };
                events.push(AgentEvent::Error { kind: kind.to_owned(), message });
            }
            "result" => self.result(value, events),
            _ => return None,
        }
        self.spoke = true;
        Some(())
    }

    fn message(&mut self, value: &Value, events: &mut Vec<AgentEvent>) {
        let is_piece = value.get("delta").and_then(Value::as_bool).unwrap_or(false);
        if text(value, "role") != Some("assistant") || !is_piece {
            events.extend(self.said());
        }
        // A message from any other role is our own prompt.
        if text(value, "role") != Some("assistant") {
            return;
        }
        self.saying.push_str(text(value, "content").unwrap_or_default());
        if self.saying.len() > MAX_TEXT || !is_piece {
            events.extend(self.said());
        }
    }

    /// The event for the received message, once it is complete.
    fn said(&mut self) -> Option<AgentEvent> {
        if self.saying.is_empty() {
            return None;
        }
        self.answer = clip(&std::mem::take(&mut self.saying), MAX_TEXT);
        Some(AgentEvent::Text { text: self.answer.clone() })
    }

    fn tool_result(&mut self, value: &Value, events: &mut Vec<AgentEvent>) {
        let id = clip(text(value, "tool_id").unwrap_or_default(), MAX_ID);
        let failed = text(value, "status") != Some("success");
        let denied = value.pointer("/error/type").and_then(Value::as_str) == Some("policy_violation");
        if denied && self.denials.len() < MAX_DENIALS {
            // `write_file__call_75e4`: the tool's name comes before the call's.
            let tool = one_line(id.split("__").next().unwrap_or_default());
            self.denials.push(tool.clone());
            events.push(AgentEvent::Denied { tool });
        }
        let call = self.calls.end(&id).unwrap_or_default();
        if !failed {
            events.extend(call.edits.into_iter().map(|edit| edit.event(None, false)));
        }
        let took =
            call.at.zip(told_at(value)).and_then(|(from, to)| u64::try_from(to.checked_sub(from)?).ok());
        let answer = value.get("output").or_else(|| value.pointer("/error/message"));
        events.push(ended(id, failed, answer.unwrap_or(&Value::Null), took));
    }

    fn result(&mut self, value: &Value, events: &mut Vec<AgentEvent>) {
        let ok = text(value, "status") == Some("success");
        let words =
            value.pointer("/error/message").and_then(Value::as_str).map(|words| clip(words, MAX_TEXT));
        // A result that only says `error` follows the event with the message.
        let words =
            words.or(self.error.take()).unwrap_or_else(|| "gemini failed and did not say why".to_owned());
        let stats = value.get("stats").unwrap_or(&Value::Null);
        if !ok && self.ledger.error.as_ref().is_none_or(|(_, said)| *said != words) {
            events.push(AgentEvent::Error { kind: word(&words).to_owned(), message: words.clone() });
        }
        events.push(AgentEvent::Result {
            ok,
            text: if ok { self.answer.clone() } else { words.clone() },
            turns: None,
            cost_usd: None,
            tokens_in: count(stats, "input_tokens"),
            tokens_out: count(stats, "output_tokens"),
            cached: count(stats, "cached"),
            denials: self.denials.clone(),
        });
        self.terminal = Some(Terminal { ok, words });
    }
}

/// The time of an event by gemini's clock, in milliseconds.
fn told_at(value: &Value) -> Option<i64> {
    Timestamp::try_from(text(value, "timestamp")?.to_owned()).ok().map(Timestamp::millis)
}

/// The name of an error; it does not depend on the time.
fn word(message: &str) -> &'static str {
    cause(message, Timestamp::from_millis(0)).word()
}
