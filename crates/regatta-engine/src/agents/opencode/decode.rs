//! Decodes the events of `opencode run --format json`, line by line, into the normal form.

use regatta_core::budget::is_plausible_usd;
use regatta_core::exit::Exit;
use regatta_core::time::Timestamp;
use serde_json::Value;

use super::classify::{Terminal, cause, classify, failed_request, failure};
use crate::agents::calls::ended;
use crate::agents::decoder::{Decoder, Ending};
use crate::agents::edits::{Diff, Edit, edits};
use crate::agents::event::{AgentEvent, FileChange, MAX_TEXT, clip, one_line};
use crate::agents::failure::Cause;
use crate::agents::json::{count, events_of, session_id, summary, text};
use crate::agents::ledger::Ledger;

/// Maximum number of refusals listed for one attempt.
const MAX_DENIALS: usize = 100;
/// Longest id of a remembered tool call.
const MAX_ID: usize = 256;

/// Decodes the output of one `opencode run --format json`.
#[derive(Debug, Default)]
pub struct OpencodeDecoder {
    ledger: Ledger,
    terminal: Option<Terminal>,
    /// There was at least one event.
    spoke: bool,
    answer: String,
    /// True between the start and the end of a step. Tool calls are reported only when they have ended, so silence in
    /// an open step may be a running tool.
    step_is_open: bool,
    steps: u32,
    cost_usd: Option<f64>,
    denials: Vec<String>,
    /// The last refused tool of this step.
    refused: Option<String>,
    /// Failed requests that are repeated, from the log.
    repeats: u32,
    /// The last failure lasts for hours, and opencode would wait for it silently.
    waits_in_vain: bool,
}

impl Decoder for OpencodeDecoder {
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
        usize::from(self.step_is_open)
    }

    fn stderr(&mut self, line: &[u8]) -> Vec<AgentEvent> {
        let line = String::from_utf8_lossy(line);
        let Some(why) = failed_request(&line) else { return Vec::new() };
        let cause = cause(&Value::Null, why);
        self.repeats = self.repeats.saturating_add(1);
        self.waits_in_vain = matches!(cause, Cause::Quota(_) | Cause::Billing);
        vec![AgentEvent::Retrying {
            attempt: self.repeats,
            max: 0,
            delay_ms: 0,
            kind: cause.word().to_owned(),
        }]
    }

    fn retries_in_vain(&self) -> bool {
        self.waits_in_vain
    }
}

impl OpencodeDecoder {
    /// `None` for an unknown event.
    fn event(&mut self, value: &Value, events: &mut Vec<AgentEvent>) -> Option<()> {
        let kind = text(value, "type")?;
        let part = value.get("part").unwrap_or(&Value::Null);
        if !matches!(kind, "step_start" | "text" | "reasoning" | "tool_use" | "step_finish" | "error") {
            return None;
        }
        if let (None, Some(session)) = (&self.ledger.session, session_id(value, "sessionID")) {
            events.push(AgentEvent::Started { session: Some(session), model: None });
        }
        self.spoke = true;
        self.waits_in_vain = false;
        match kind {
            "step_start" => {
                self.terminal = None;
                self.refused = None;
                self.step_is_open = true;
            }
            "text" => {
                self.answer = clip(text(part, "text").unwrap_or_default(), MAX_TEXT);
                events.push(AgentEvent::Text { text: self.answer.clone() });
            }
            "tool_use" => self.tool(part, events),
            "step_finish" => self.step_finished(part, events),
            "error" => {
                let failure = failure(value.get("error").unwrap_or(&Value::Null));
                let (kind, message) =
                    (failure.cause.map_or("aborted", |cause| cause.word()), failure.words.clone());
                events.push(AgentEvent::Error { kind: kind.to_owned(), message: message.clone() });
                events.push(self.result(false, message));
                self.step_is_open = false;
                self.terminal = Some(Terminal::Error(failure));
            }
            _ => {}
        }
        Some(())
    }

    /// A tool call that has ended.
    fn tool(&mut self, part: &Value, events: &mut Vec<AgentEvent>) {
        let state = part.get("state").unwrap_or(&Value::Null);
        let id = clip(text(part, "callID").unwrap_or_default(), MAX_ID);
        let name = one_line(text(part, "tool").unwrap_or("?"));
        let input = state.get("input").unwrap_or(&Value::Null);
        let told = summary(input, None);
        let title = text(state, "title").map(one_line).filter(|title| !title.is_empty());
        // The title of a call that changes a file is the file's path from the lane.
        let is_file = input.get("filePath").is_some();
        let summary = if is_file { title.unwrap_or(told) } else { told };
        events.push(AgentEvent::tool(id.clone(), name.clone(), summary.clone()).asked(input));
        let failed = text(state, "status") != Some("completed")
            || state.pointer("/metadata/exit").and_then(Value::as_i64).is_some_and(|code| code != 0);
        let error = text(state, "error").unwrap_or_default();
        if error.contains("rejected permission") || error.contains("prevents you from using") {
            if self.denials.len() < MAX_DENIALS {
                self.denials.push(name.clone());
            }
            events.push(AgentEvent::Denied { tool: name.clone() });
            self.refused = Some(name.clone());
        }
        if !failed {
            let done = |edit| as_done(edit, state, is_file.then_some(summary.as_str()));
            events.extend(edits(&name, input).into_iter().map(|edit| done(edit).event(None, false)));
        }
        let answer = ["error", "output"].iter().find_map(|key| state.get(key)).unwrap_or(&Value::Null);
        let (from, to) = (state.pointer("/time/start"), state.pointer("/time/end"));
        let took = from.and_then(Value::as_u64).zip(to.and_then(Value::as_u64));
        events.push(ended(id, failed, answer, took.and_then(|(from, to)| to.checked_sub(from))));
    }

    fn step_finished(&mut self, part: &Value, events: &mut Vec<AgentEvent>) {
        self.step_is_open = false;
        self.steps = self.steps.saturating_add(1);
        let tokens = part.get("tokens").unwrap_or(&Value::Null);
        let cache = tokens.get("cache").unwrap_or(&Value::Null);
        let read = [count(tokens, "input"), count(cache, "read"), count(cache, "write")];
        let written = [count(tokens, "output"), count(tokens, "reasoning")];
        let (so_far_in, so_far_out) = self.ledger.tokens();
        let (more_in, more_out) =
            (read.into_iter().fold(0, u64::saturating_add), written.into_iter().fold(0, u64::saturating_add));
        let mut cost = part.get("cost").and_then(Value::as_f64);
        if let Some(claimed) = cost.filter(|cost| !is_plausible_usd(*cost, more_in.saturating_add(more_out)))
        {
            self.ledger.doubt_cost(claimed);
            cost = None;
        }
        self.cost_usd = cost.map(|cost| cost + self.cost_usd.unwrap_or(0.0)).or(self.cost_usd);
        events.push(AgentEvent::Usage {
            tokens_in: so_far_in.saturating_add(more_in),
            tokens_out: so_far_out.saturating_add(more_out),
            cached: self.ledger.cached().saturating_add(count(cache, "read")),
            cost_usd: self.cost_usd,
        });
        let reason = clip(text(part, "reason").unwrap_or_default(), 64);
        self.terminal = match (reason.as_str(), self.refused.take()) {
            ("tool-calls" | "", Some(tool)) => Some(Terminal::Refused(tool)),
            ("tool-calls" | "", None) => None,
            _ => {
                events.push(self.result(reason == "stop", self.answer.clone()));
                Some(Terminal::Finished(reason))
            }
        };
    }

    fn result(&self, ok: bool, text: String) -> AgentEvent {
        // It has no totals of its own: the counts so far are kept.
        AgentEvent::Result {
            ok,
            text,
            turns: Some(self.steps),
            cost_usd: self.cost_usd,
            tokens_in: 0,
            tokens_out: 0,
            cached: 0,
            denials: self.denials.clone(),
        }
    }
}

/// The planned edit, corrected by what opencode reports it did.
fn as_done(mut edit: Edit, state: &Value, path: Option<&str>) -> Edit {
    let metadata = state.get("metadata").unwrap_or(&Value::Null);
    if metadata.get("exists").and_then(Value::as_bool) == Some(true) {
        edit.kind = FileChange::Update;
    }
    if let Some(diff) = text(metadata, "diff").map(Diff::of_patch).filter(|diff| !diff.is_empty()) {
        edit.diff = diff;
    }
    if let Some(path) = path {
        path.clone_into(&mut edit.path);
    }
    edit
}
