//! Decodes the events of `codex exec --json`, line by line, into the normal form.
//!
//! Every field is looked up by name in a plain JSON value: a release that adds, drops or retypes a field affects only
//! that field.

use regatta_core::exit::Exit;
use regatta_core::time::Timestamp;
use serde_json::Value;

use super::classify::{Terminal, cause, classify};
use crate::agents::calls::ended;
use crate::agents::decoder::{Decoder, Ending};
use crate::agents::edits::listed;
use crate::agents::event::{AgentEvent, MAX_TEXT, clip, one_line};
use crate::agents::json::{count, events_of, session_id, text};
use crate::agents::ledger::Ledger;
use crate::agents::reset::HOME_ZONE;

/// Longest item id that is remembered.
const MAX_ID: usize = 128;

/// Decodes the output of one `codex exec --json`.
#[derive(Debug, Default)]
pub struct CodexDecoder {
    ledger: Ledger,
    terminal: Option<Terminal>,
    /// The end came in the middle of an item, or was followed by more: a program that codex started may have printed
    /// it. It counts only if codex itself exits successfully.
    is_doubtful: bool,
    /// There was at least one event.
    spoke: bool,
    /// Its last message: the answer, once the turn is over.
    answer: String,
    /// Why the request failed that codex is about to repeat.
    retrying: Option<String>,
    turns: u32,
    /// The error message of the program that should have put a command into the sandbox.
    sandbox: Option<String>,
    /// The zone of its clock: it prints times without a zone.
    zone: Option<String>,
}

impl Decoder for CodexDecoder {
    fn line(&mut self, line: &[u8]) -> Vec<AgentEvent> {
        let mut events = events_of(line, |value, events| self.event(value).map(|told| events.extend(told)));
        self.ledger.note_all(&mut events, 0);
        events
    }

    fn end(&mut self, exit: &Exit, stderr_tail: &str, now: Timestamp) -> Ending {
        let retrying = self.retrying.as_deref();
        let home = self.zone.as_deref().unwrap_or(HOME_ZONE);
        let is_believed = !self.is_doubtful || *exit == Exit::Exited { code: 0 };
        let terminal = self.terminal.as_ref().filter(|terminal| !terminal.ok || is_believed);
        let end = classify(terminal, retrying, self.spoke, exit, stderr_tail, (now, home));
        let sandbox = self.sandbox.clone().or_else(|| unwritten(stderr_tail));
        Ending { sandbox, ..self.ledger.ending(end) }
    }

    fn open_tools(&self) -> usize {
        self.ledger.open_tools()
    }

    fn lives_in(&mut self, zone: &str) {
        self.zone = Some(zone.to_owned());
    }

    fn retries_in_vain(&self) -> bool {
        self.ledger.retries_in_vain
    }
}

impl CodexDecoder {
    /// `None` for an unknown event.
    fn event(&mut self, value: &Value) -> Option<Vec<AgentEvent>> {
        let kind = text(value, "type")?;
        self.is_doubtful |= self.terminal.is_some() && kind.starts_with("item.");
        let events = match kind {
            "thread.started" => {
                (self.terminal, self.is_doubtful) = (None, false);
                vec![AgentEvent::Started { session: session_id(value, "thread_id"), model: None }]
            }
            "turn.started" => {
                (self.terminal, self.is_doubtful) = (None, false);
                self.turns += 1;
                Vec::new()
            }
            "turn.completed" if self.ledger.open_tools() > 0 => {
                self.terminal = Some(Terminal { ok: true, words: String::new() });
                self.is_doubtful = true;
                Vec::new()
            }
            "turn.completed" => {
                self.is_doubtful = false;
                vec![self.completed(value)]
            }
            "turn.failed" => self.failed(value),
            "error" => vec![self.error(text(value, "message").unwrap_or_default())],
            "item.started" => self.item(value.get("item")?, Stage::Started)?,
            "item.updated" => Vec::new(),
            "item.completed" => self.item(value.get("item")?, Stage::Completed)?,
            _ => return None,
        };
        self.spoke = true;
        Some(events)
    }

    /// Codex counts the tokens of the whole conversation, including earlier attempts.
    fn completed(&mut self, value: &Value) -> AgentEvent {
        let usage = value.get("usage").unwrap_or(&Value::Null);
        self.terminal = Some(Terminal { ok: true, words: String::new() });
        self.retrying = None;
        AgentEvent::Result {
            ok: true,
            text: self.answer.clone(),
            turns: Some(self.turns),
            cost_usd: None,
            tokens_in: count(usage, "input_tokens"),
            tokens_out: count(usage, "output_tokens"),
            cached: count(usage, "cached_input_tokens"),
            denials: Vec::new(),
        }
    }

    fn failed(&mut self, value: &Value) -> Vec<AgentEvent> {
        let error = value.get("error").unwrap_or(&Value::Null);
        let words = clip(text(error, "message").unwrap_or("the turn failed"), MAX_TEXT);
        let is_news = self.ledger.error.as_ref().is_none_or(|(_, said)| *said != words);
        let mut events = Vec::new();
        if is_news {
            events.push(self.error(&words));
        }
        events.push(AgentEvent::Result {
            ok: false,
            text: words.clone(),
            turns: Some(self.turns),
            cost_usd: None,
            tokens_in: 0,
            tokens_out: 0,
            cached: 0,
            denials: Vec::new(),
        });
        self.terminal = Some(Terminal { ok: false, words });
        events
    }

    /// `Reconnecting... 2/5 (why)` is a retry, not an end.
    fn error(&mut self, words: &str) -> AgentEvent {
        let words = clip(words, MAX_TEXT);
        // Only the word is used, which does not depend on the time.
        let word = |why: &str| cause(why, Timestamp::from_millis(0), HOME_ZONE).word().to_owned();
        let Some((attempt, max, why)) = retry(&words) else {
            return AgentEvent::Error { kind: word(&words), message: words };
        };
        self.retrying = Some(clip(why, 1024));
        AgentEvent::Retrying { attempt, max, delay_ms: 0, kind: word(why) }
    }

    fn item(&mut self, item: &Value, stage: Stage) -> Option<Vec<AgentEvent>> {
        let id = clip(text(item, "id").unwrap_or_default(), MAX_ID);
        let (name, summary) = match text(item, "type")? {
            "agent_message" => {
                self.retrying = None;
                let words = clip(text(item, "text").unwrap_or_default(), MAX_TEXT);
                return Some(match stage {
                    Stage::Started => Vec::new(),
                    Stage::Completed => {
                        self.answer.clone_from(&words);
                        vec![AgentEvent::Text { text: words }]
                    }
                });
            }
            // A warning: the turn continues.
            "error" => {
                let message = clip(text(item, "message").unwrap_or_default(), MAX_TEXT);
                return Some(vec![AgentEvent::Error { kind: "warning".to_owned(), message }]);
            }
            "reasoning" | "todo_list" | "plan" => return Some(Vec::new()),
            "command_execution" => {
                ("command".to_owned(), bare_command(text(item, "command").unwrap_or_default()))
            }
            "file_change" => ("edit".to_owned(), changed_files(item)),
            "web_search" => ("web_search".to_owned(), one_line(text(item, "query").unwrap_or_default())),
            "mcp_tool_call" => {
                let server = text(item, "server").unwrap_or("?");
                (one_line(&format!("{server}.{}", text(item, "tool").unwrap_or("?"))), String::new())
            }
            "collab_tool_call" => (one_line(text(item, "tool").unwrap_or("agent")), String::new()),
            _ => return None,
        };
        self.retrying = None;
        let asked = ["command", "changes", "query", "arguments"].iter().find_map(|key| item.get(key));
        let started = AgentEvent::tool(id.clone(), name, summary).asked(asked.unwrap_or(&Value::Null));
        if stage == Stage::Started {
            return Some(vec![started]);
        }
        let failed = !matches!(text(item, "status"), None | Some("completed"))
            || item.get("exit_code").and_then(Value::as_i64).is_some_and(|code| code != 0);
        let answer = ["aggregated_output", "result", "error"].iter().find_map(|key| item.get(key));
        if failed
            && let Some(said) = text(item, "aggregated_output").filter(|said| said.starts_with("bwrap: "))
        {
            self.sandbox = Some(one_line(said));
        }
        // Some items are reported only when they have ended.
        let mut events = if self.ledger.is_open(&id) { Vec::new() } else { vec![started] };
        if !failed {
            let changes = listed(item.get("changes").unwrap_or(&Value::Null));
            events.extend(changes.into_iter().map(|edit| edit.event(None, false)));
        }
        events.push(ended(id, failed, answer.unwrap_or(&Value::Null), None));
        Some(events)
    }
}

/// Codex's message on stderr about an edit that its sandbox refused.
fn unwritten(stderr: &str) -> Option<String> {
    stderr.lines().rev().find(|line| line.starts_with("Failed to write file ")).map(one_line)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Started,
    Completed,
}

fn retry(words: &str) -> Option<(u32, u32, &str)> {
    let rest = words.strip_prefix("Reconnecting... ")?;
    let (counts, why) = rest.split_once(' ').unwrap_or((rest, ""));
    let (attempt, max) = counts.split_once('/')?;
    let why = why.trim_start_matches('(').trim_end_matches(')');
    Some((attempt.parse().ok()?, max.parse().ok()?, why))
}

/// `/bin/bash -c 'cargo test'` is displayed as `cargo test`.
fn bare_command(command: &str) -> String {
    let inner = command.split_once(" -lc ").or_else(|| command.split_once(" -c "));
    let inner = inner.filter(|(shell, _)| shell.ends_with("sh") && !shell.contains(' '));
    let inner = inner.map_or(command, |(_, inner)| inner);
    let unquoted = ['\'', '"'].iter().find_map(|quote| inner.strip_prefix(*quote)?.strip_suffix(*quote));
    one_line(unquoted.unwrap_or(inner))
}

fn changed_files(item: &Value) -> String {
    let changes = item.get("changes").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let paths: Vec<&str> = changes.iter().filter_map(|change| text(change, "path")).take(20).collect();
    one_line(&paths.join(" "))
}
