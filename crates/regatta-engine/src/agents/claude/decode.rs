//! Decodes Claude Code's `stream-json`, line by line, into the normal form.
//!
//! Every field is looked up by name in a plain JSON value: a release that adds, drops or retypes a field affects only
//! that field.

use std::collections::{BTreeSet, VecDeque};

use regatta_core::budget::is_plausible_usd;
use regatta_core::exit::Exit;
use regatta_core::time::Timestamp;
use serde_json::Value;

use super::classify::{Signs, Terminal, classify};
use crate::agents::calls::{Call, Calls, ended};
use crate::agents::decoder::{Decoder, Ending};
use crate::agents::edits::{Diff, Edit, edits};
use crate::agents::event::{AgentEvent, FileChange, MAX_TEXT, clip, one_line};
use crate::agents::json::{parse, summary, text};
use crate::agents::ledger::Ledger;
use crate::agents::reset::from_epoch_seconds;

/// Events that are known and ignored here; unknown events are shown as such.
const SILENT_TYPES: [&str; 10] = [
    "command_lifecycle",
    "turn_preempted",
    "stream_event",
    "control_request",
    "control_response",
    "control_cancel_request",
    "tool_progress",
    "tool_use_summary",
    "auth_status",
    "keep_alive",
];

/// Maximum number of refusals listed for one attempt.
const MAX_DENIALS: usize = 100;

/// Number of recent messages whose tokens were counted. The events of one message come close together, even if
/// sub-agents interleave.
const RECENT_MESSAGES: usize = 32;

/// The remark about a line that only looks like one of claude's.
const FORGED: &str = "the agent printed an end of its turn";

/// Maximum number of remembered background tasks.
const MAX_TASKS: usize = 256;

/// Decodes the output of one `claude -p --output-format stream-json`.
#[derive(Debug, Default)]
pub struct ClaudeDecoder {
    ledger: Ledger,
    terminal: Option<Terminal>,
    /// A JSON event was seen: claude itself was running, and did not just refuse its arguments.
    spoke: bool,
    cwd: Option<String>,
    recent_messages: VecDeque<String>,
    calls: Calls,
    /// Calls whose refusal was already reported; the result lists them again.
    refused: Vec<String>,
    /// Background tasks still running: when one ends, it wakes claude for another turn.
    background: BTreeSet<String>,
    /// The sum of the results so far that report only their own usage.
    settled: Used,
    /// An end of the turn that came while a tool call was open.
    held_back: Option<Value>,
}

/// Dollars and tokens of one or several results.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    usd: f64,
    read: u64,
    written: u64,
}

impl Decoder for ClaudeDecoder {
    fn line(&mut self, line: &[u8]) -> Vec<AgentEvent> {
        if line.trim_ascii().is_empty() {
            return Vec::new();
        }
        let mut events = Vec::new();
        match parse(line) {
            Some(object @ Value::Object(_)) => self.event(&object, line, &mut events),
            // `--output-format json --verbose` prints the same events as one array.
            Some(Value::Array(values)) => {
                values.iter().for_each(|value| self.event(value, line, &mut events));
            }
            _ => events.push(AgentEvent::unknown(line)),
        }
        events
    }

    fn end(&mut self, exit: &Exit, stderr_tail: &str, now: Timestamp) -> Ending {
        // Nothing came after it, and claude exited as it does after an end.
        if let Some(value) = self.held_back.take().filter(|_| exit.success()) {
            let mut events = Vec::new();
            self.believe(&value, &mut events);
            self.ledger.note_all(&mut events, 0);
        }
        let signs = Signs {
            terminal: self.terminal.as_ref(),
            error: self.ledger.error.as_ref(),
            rejected: self.ledger.rejected,
            retrying: self.ledger.retrying.as_deref(),
            spoke: self.spoke,
        };
        let end = classify(&signs, exit, stderr_tail, now);
        self.ledger.ending(end)
    }

    fn open_tools(&self) -> usize {
        self.ledger.open_tools()
    }

    fn waits_for_background(&self) -> bool {
        !self.background.is_empty()
    }

    fn retries_in_vain(&self) -> bool {
        self.ledger.retries_in_vain
    }
}

impl ClaudeDecoder {
    fn event(&mut self, value: &Value, line: &[u8], events: &mut Vec<AgentEvent>) {
        let Some(kind) = text(value, "type") else {
            return events.push(AgentEvent::unknown(line));
        };
        let first = events.len();
        let sub = text(value, "parent_tool_use_id").is_some();
        match kind {
            "system" => self.system(value, events),
            "assistant" => {
                self.not_the_end();
                self.assistant(value, sub, events);
            }
            "user" => {
                self.not_the_end();
                self.tool_results(value, events);
            }
            "rate_limit_event" => events.extend(limit(value)),
            "result" => self.result(value, events),
            _ if SILENT_TYPES.contains(&kind) => {}
            _ => return events.push(AgentEvent::unknown(line)),
        }
        self.spoke = true;
        if self.ledger.session.is_none() {
            self.ledger.session = text(value, "session_id").map(str::to_owned);
        }
        self.ledger.note_all(events, first);
    }

    fn system(&mut self, value: &Value, events: &mut Vec<AgentEvent>) {
        match text(value, "subtype") {
            Some("init") => {
                self.terminal = None;
                self.cwd = text(value, "cwd").map(str::to_owned);
                events.push(AgentEvent::Started {
                    session: text(value, "session_id").map(str::to_owned),
                    model: text(value, "model").map(str::to_owned),
                });
            }
            Some("api_retry") => events.push(AgentEvent::Retrying {
                attempt: number(value, "attempt"),
                max: number(value, "max_retries"),
                delay_ms: value.get("retry_delay_ms").and_then(Value::as_f64).map_or(0, |ms| ms as u64),
                kind: retry_kind(value),
            }),
            Some("task_started") => self.task(value, true),
            Some("task_notification") => self.task(value, false),
            Some("task_updated") => {
                let status = value.pointer("/patch/status").and_then(Value::as_str);
                if status.is_some_and(|status| !matches!(status, "running" | "pending")) {
                    self.task(value, false);
                }
            }
            // Later versions list all of them.
            Some("background_tasks_changed") => {
                let tasks = value.get("tasks").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                self.background.clear();
                tasks.iter().for_each(|task| self.task(task, true));
            }
            Some("model_fallback") => {
                self.ledger.model =
                    text(value, "fallback_model").map(str::to_owned).or(self.ledger.model.take());
            }
            _ => {}
        }
    }

    /// Records that a background task started or ended.
    fn task(&mut self, value: &Value, at_work: bool) {
        let Some(id) = text(value, "task_id") else { return };
        if !at_work {
            self.background.remove(id);
        } else if self.background.len() < MAX_TASKS {
            self.background.insert(clip(id, 128));
        }
    }

    fn assistant(&mut self, value: &Value, sub: bool, events: &mut Vec<AgentEvent>) {
        let message = value.get("message").unwrap_or(&Value::Null);
        let blocks = message.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if let Some(kind) = text(value, "error") {
            // A failed sub-agent is a tool result for the main agent; its error is not the attempt's.
            if !sub {
                let words = blocks.iter().find_map(|block| text(block, "text")).unwrap_or_default();
                events.push(AgentEvent::Error { kind: kind.to_owned(), message: clip(words, MAX_TEXT) });
            }
            return;
        }
        for block in blocks {
            match text(block, "type") {
                Some("text") if !sub => {
                    let words = text(block, "text").unwrap_or_default();
                    events.push(AgentEvent::Text { text: clip(words, MAX_TEXT) });
                }
                Some("tool_use") => {
                    let name = one_line(text(block, "name").unwrap_or("?"));
                    let id = text(block, "id").unwrap_or_default().to_owned();
                    let input = block.get("input").unwrap_or(&Value::Null);
                    let call = Call { name: name.clone(), edits: edits(&name, input), sub, at: None };
                    self.calls.begin(&id, call);
                    let summary = summary(input, self.cwd.as_deref());
                    let asked = AgentEvent::ToolStarted { id, name, summary, sub, input: None }.asked(input);
                    events.push(asked);
                }
                _ => {}
            }
        }
        events.extend(self.usage(message));
    }

    /// A running count, once per message; the total of the result replaces it in the end.
    fn usage(&mut self, message: &Value) -> Option<AgentEvent> {
        let id = text(message, "id")?;
        if self.recent_messages.iter().any(|seen| seen == id) {
            return None;
        }
        if self.recent_messages.len() == RECENT_MESSAGES {
            self.recent_messages.pop_front();
        }
        self.recent_messages.push_back(clip(id, 128));
        let (more_in, more_out) = tokens(message.get("usage")?);
        let (tokens_in, tokens_out) = self.ledger.tokens();
        Some(AgentEvent::Usage {
            tokens_in: tokens_in.saturating_add(more_in),
            tokens_out: tokens_out.saturating_add(more_out),
            cached: 0,
            cost_usd: None,
        })
    }

    fn tool_results(&mut self, value: &Value, events: &mut Vec<AgentEvent>) {
        let blocks =
            value.pointer("/message/content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        // It belongs to the only call in its event.
        let details = value.get("tool_use_result").unwrap_or(&Value::Null);
        for block in blocks.iter().filter(|block| text(block, "type") == Some("tool_result")) {
            let Some(id) = text(block, "tool_use_id") else { continue };
            let failed = block.get("is_error").and_then(Value::as_bool).unwrap_or(false);
            let answer = block.get("content").unwrap_or(&Value::Null);
            let call = self.calls.end(id).unwrap_or_default();
            if failed && self.refused.len() < MAX_DENIALS && is_refusal(answer) {
                self.refused.push(clip(id, 256));
                events.push(AgentEvent::Denied { tool: call.name.clone() });
            }
            if !failed {
                let edits = call.edits.into_iter().map(|edit| as_done(edit, details));
                events.extend(edits.map(|edit| edit.event(self.cwd.as_deref(), call.sub)));
            }
            let took = ["totalDurationMs", "durationMs"].iter().find_map(|key| details.get(key)?.as_u64());
            events.push(ended(id.to_owned(), failed, answer, took));
        }
    }

    /// Any program that claude starts can write into its output, and so print a line that looks like the end of a turn.
    /// Claude's own has the conversation's id and closes an open turn. One that comes while a tool call is open is held
    /// back: the following lines show whether it was claude's.
    fn result(&mut self, value: &Value, events: &mut Vec<AgentEvent>) {
        self.not_the_end();
        let stranger = self.ledger.session.as_deref().zip(text(value, "session_id"));
        if stranger.is_some_and(|(known, said)| known != said) {
            return self.ledger.doubt(format!("{FORGED} for another conversation; it is ignored"));
        }
        if self.terminal.is_some() {
            return self.ledger.doubt(format!("{FORGED} although its turn had already ended; it is ignored"));
        }
        let claims_success = value.get("is_error").and_then(Value::as_bool) == Some(false);
        if claims_success && self.calls.has_own() {
            self.held_back = Some(value.clone());
            return;
        }
        self.believe(value, events);
    }

    /// The turn continues, so the held-back line was not its end.
    fn not_the_end(&mut self) {
        if self.held_back.take().is_some() {
            self.ledger.doubt(format!("{FORGED} while a tool was running; it is ignored"));
        }
    }

    fn believe(&mut self, value: &Value, events: &mut Vec<AgentEvent>) {
        let denials =
            value.get("permission_denials").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let news = denials
            .iter()
            .filter(|denial| !self.refused.iter().any(|id| text(denial, "tool_use_id") == Some(id)))
            .filter_map(|denial| text(denial, "tool_name"));
        events.extend(news.take(MAX_DENIALS).map(|tool| AgentEvent::Denied { tool: one_line(tool) }));
        let denials: Vec<String> = denials
            .iter()
            .filter_map(|denial| text(denial, "tool_name"))
            .take(MAX_DENIALS)
            .map(one_line)
            .collect();
        self.calls.clear();
        self.refused.clear();

        let errors = value.get("errors").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let errors: Vec<&str> = errors.iter().filter_map(Value::as_str).collect();
        let words = text(value, "result").map_or_else(|| errors.join("\n"), str::to_owned);
        let words = clip(&words, MAX_TEXT);
        let terminal = Terminal {
            subtype: text(value, "subtype").unwrap_or_default().to_owned(),
            // A missing field claims nothing; only a plain success counts as one.
            is_error: value.get("is_error").and_then(Value::as_bool).unwrap_or(true),
            status: value.get("api_error_status").and_then(Value::as_u64),
            reason: text(value, "terminal_reason").unwrap_or_default().to_owned(),
            stop_reason: text(value, "stop_reason").unwrap_or_default().to_owned(),
            words: words.clone(),
        };
        let used = self.used(value);
        events.push(AgentEvent::Result {
            ok: terminal.ok(),
            text: words,
            turns: value.get("num_turns").map(|_| number(value, "num_turns")),
            cost_usd: used.0,
            tokens_in: used.1,
            tokens_out: used.2,
            cached: 0,
            denials,
        });
        self.terminal = Some(terminal);
    }

    /// What this process has used: dollars, tokens read, tokens written. Later versions count the usage of the whole
    /// conversation, including earlier processes, and report beside it what is new since the last result.
    fn used(&mut self, value: &Value) -> (Option<f64>, u64, u64) {
        let Some(news) = value.get("model_usage_since_last_result").and_then(Value::as_object) else {
            let (read, written) = total_tokens(value);
            return (value.get("total_cost_usd").and_then(Value::as_f64), read, written);
        };
        let mut more = Used::default();
        for model in news.values() {
            let (read, written) = model_tokens(model);
            more.read = more.read.saturating_add(read);
            more.written = more.written.saturating_add(written);
            more.usd += model.get("costUSD").and_then(Value::as_f64).unwrap_or(0.0);
        }
        if !is_plausible_usd(more.usd, more.read.saturating_add(more.written)) {
            self.ledger.doubt_cost(more.usd);
            more.usd = 0.0;
        }
        let before = self.settled;
        self.settled = Used {
            usd: before.usd + more.usd,
            read: before.read.saturating_add(more.read),
            written: before.written.saturating_add(more.written),
        };
        (Some(self.settled.usd), self.settled.read, self.settled.written)
    }
}

/// Recognises the answer of claude's permission rules to a refused call.
fn is_refusal(answer: &Value) -> bool {
    const SIGNS: [&str; 4] = [
        "Claude requested permissions to ",
        "This command requires approval",
        " has been denied because ",
        " while in plan mode.",
    ];
    let words = answer.as_str().unwrap_or_default();
    let by_rule = words.starts_with("Permission to use ") && words.ends_with(" has been denied.");
    by_rule || words.len() < 4096 && SIGNS.iter().any(|sign| words.contains(sign))
}

/// The planned edit, corrected by what claude reports it did.
fn as_done(mut edit: Edit, details: &Value) -> Edit {
    match text(details, "type") {
        Some("create") => edit.kind = FileChange::Add,
        Some("update") => edit.kind = FileChange::Update,
        _ => {}
    }
    let hunks = details.get("structuredPatch").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut diff = Diff::default();
    for line in hunks.iter().filter_map(|hunk| hunk.get("lines")?.as_array()).flatten() {
        let line = line.as_str().unwrap_or_default();
        if let Some(sign) = line.chars().next().filter(|sign| matches!(sign, '+' | '-' | ' ')) {
            diff.push(sign, &line[1..]);
        }
    }
    if !diff.is_empty() {
        edit.diff = diff;
    }
    edit
}

fn limit(value: &Value) -> Option<AgentEvent> {
    let info = value.get("rate_limit_info")?;
    Some(AgentEvent::Limit {
        status: text(info, "status")?.to_owned(),
        resets_at: info.get("resetsAt").and_then(Value::as_i64).and_then(from_epoch_seconds),
        kind: text(info, "rateLimitType").unwrap_or_default().to_owned(),
    })
}

/// The error's own name; a network failure has neither a name nor a status.
fn retry_kind(value: &Value) -> String {
    match (text(value, "error"), value.get("error_status").and_then(Value::as_u64)) {
        (Some("unknown") | None, None) => "network".to_owned(),
        (Some("unknown") | None, Some(status)) => status.to_string(),
        (Some(kind), _) => kind.to_owned(),
    }
}

/// The tokens of all models, including sub-agents, which `usage` leaves out.
fn total_tokens(value: &Value) -> (u64, u64) {
    match value.get("modelUsage").and_then(Value::as_object).filter(|models| !models.is_empty()) {
        Some(models) => models.values().map(model_tokens).fold((0, 0), |(read, written), more| {
            (u64::saturating_add(read, more.0), u64::saturating_add(written, more.1))
        }),
        None => value.get("usage").map_or((0, 0), tokens),
    }
}

/// Tokens read and written, of one model.
fn model_tokens(model: &Value) -> (u64, u64) {
    let count = |key| model.get(key).and_then(Value::as_u64).unwrap_or(0);
    let cached = count("cacheReadInputTokens").saturating_add(count("cacheCreationInputTokens"));
    (count("inputTokens").saturating_add(cached), count("outputTokens"))
}

fn tokens(usage: &Value) -> (u64, u64) {
    let count = |key| usage.get(key).and_then(Value::as_u64).unwrap_or(0);
    let cached = count("cache_read_input_tokens").saturating_add(count("cache_creation_input_tokens"));
    (count("input_tokens").saturating_add(cached), count("output_tokens"))
}

fn number(value: &Value, key: &str) -> u32 {
    value.get(key).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
}
