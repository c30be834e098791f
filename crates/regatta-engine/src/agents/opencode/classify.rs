//! How an opencode attempt ended. It has no event for its end: the last step is one that finished with anything but
//! tool calls and is followed by no step or error.

use std::time::Duration;

use regatta_core::exit::Exit;
use regatta_core::time::Timestamp;
use serde_json::Value;

use crate::agents::decoder::AgentEnd;
use crate::agents::event::{MAX_TEXT, clip, one_line};
use crate::agents::failure::{Cause, Hints, unfinished};
use crate::agents::json::text;
use crate::agents::reset::wait;

const HINTS: Hints = Hints {
    agent: "opencode",
    install: "install opencode (npm install -g opencode-ai), or name the program with `exe` of this agent in regatta.yaml",
    login: "sign in with `opencode auth login`, or set the provider's key; XDG_DATA_HOME chooses the account",
    flags: "check `args`, `model` (as provider/model) and `persona`; `opencode run --help` lists what this version accepts",
};

/// The end of the attempt.
#[derive(Debug)]
pub(super) enum Terminal {
    /// The last step finished, for this reason.
    Finished(String),
    /// It stopped at a refused tool call.
    Refused(String),
    /// An error event.
    Error(Failure),
}

/// An error event.
#[derive(Debug)]
pub(super) struct Failure {
    /// `None` if it was stopped from outside.
    pub(super) cause: Option<Cause>,
    pub(super) words: String,
}

pub(super) fn classify(
    terminal: Option<&Terminal>,
    spoke: bool,
    exit: &Exit,
    stderr: &str,
    now: Timestamp,
) -> AgentEnd {
    let failed = |message: &str| AgentEnd::Failed { message: message.to_owned() };
    match terminal {
        Some(Terminal::Error(Failure { cause: Some(cause), words })) => return cause.end(words, now, &HINTS),
        Some(Terminal::Error(Failure { cause: None, words })) => {
            return AgentEnd::Interrupted { message: words.clone() };
        }
        Some(Terminal::Finished(reason)) => match (reason.as_str(), exit) {
            ("stop", _) => return AgentEnd::Success,
            // The next attempt, told that it was cut, writes less at once.
            ("length", _) => return failed("the model's answer was cut off at the length limit"),
            ("content-filter", _) => {
                return Cause::Refused.end("the provider's content filter stopped the answer", now, &HINTS);
            }
            // A reason specific to a provider; only the exit code is left to decide.
            (_, Exit::Exited { code: 0 }) => return AgentEnd::Success,
            (other, Exit::Exited { .. }) => return failed(&format!("the last step finished with {other:?}")),
            _ => {}
        },
        Some(Terminal::Refused(tool)) if matches!(exit, Exit::Exited { .. }) => {
            return failed(&format!("it stopped because a tool was refused: {tool}"));
        }
        _ => {}
    }
    if !spoke && stderr.contains("Session not found") {
        return AgentEnd::NoSession;
    }
    let retrying = last_failure(stderr).map(|words| cause(&Value::Null, words));
    let (logged, said): (Vec<&str>, Vec<&str>) = stderr.lines().partition(|line| is_logged(line));
    let telling = if said.iter().any(|line| !line.trim().is_empty()) { said } else { logged };
    let telling = telling.join("\n");
    // Two first starts at the same time race to create one database.
    if !spoke && matches!(exit, Exit::Exited { .. }) && is_database_race(&telling) {
        return AgentEnd::Interrupted { message: one_line(&telling) };
    }
    unfinished(exit, &telling, spoke, retrying, &HINTS, now)
}

fn is_database_race(stderr: &str) -> bool {
    const SIGNS: [&str; 6] = [
        "database is locked",
        "sqlite_busy",
        "sqlite_locked",
        "sqliteerror",
        "failed to run the query 'create table",
        "unable to open database",
    ];
    let stderr = stderr.to_ascii_lowercase();
    let made_twice = stderr.contains("already exists")
        && ["table", "index", "migration"].iter().any(|word| stderr.contains(word));
    made_twice || SIGNS.iter().any(|sign| stderr.contains(sign))
}

/// A line of opencode's own log, which `--print-logs` shows.
fn is_logged(line: &str) -> bool {
    line.starts_with("timestamp=") && line.contains(" level=")
}

/// Why the last request failed, from the log: opencode repeats it and reports that nowhere else.
fn last_failure(stderr: &str) -> Option<&str> {
    stderr.lines().rev().find_map(failed_request)
}

/// The error of a failed request in a line of the log.
pub(super) fn failed_request(line: &str) -> Option<&str> {
    let is_it = is_logged(line) && line.contains("message=\"stream error\"");
    let (_, words) = line.split_once("error.error=").filter(|_| is_it)?;
    let words =
        words.strip_prefix('"').and_then(|words| words.rsplit_once('"')).map_or(words, |(words, _)| words);
    Some(words.strip_prefix("AI_APICallError: ").unwrap_or(words))
}

/// Decodes an `error` event.
pub(super) fn failure(error: &Value) -> Failure {
    let data = error.get("data").unwrap_or(&Value::Null);
    let name = text(error, "name").unwrap_or_default();
    let words = text(data, "message").filter(|words| !words.is_empty()).unwrap_or(name);
    let cause = match name {
        "MessageAbortedError" => None,
        "ProviderAuthError" => Some(Cause::Login),
        "ContextOverflowError" => Some(Cause::Context),
        "ContentFilterError" => Some(Cause::Refused),
        _ => Some(cause(data, words)),
    };
    Failure { cause, words: clip(words, MAX_TEXT) }
}

/// The cause, from the provider's words if they are specific, else from the status of its answer.
pub(super) fn cause(data: &Value, words: &str) -> Cause {
    let lower = words.to_ascii_lowercase();
    let says = |signs: &[&str]| signs.iter().any(|sign| lower.contains(sign));
    let status = data.get("statusCode").and_then(Value::as_u64).and_then(Cause::of_status);
    let header = |name: &str| data.get("responseHeaders").and_then(|headers| text(headers, name));
    let stated = header("retry-after").and_then(|seconds| seconds.trim().parse::<u64>().ok());
    let stated = stated.map(Duration::from_secs).or_else(|| wait(words));
    if says(&["credit balance", "insufficient_quota", "insufficient quota", "billing"]) {
        return Cause::Billing;
    }
    if says(&["prompt is too long", "context length", "context window", "context_length_exceeded"]) {
        return Cause::Context;
    }
    // A spent quota, whereas "rate limit" is traffic.
    if says(&["usage limit", "usage_limit", "quota exceeded", "exceeded your current quota", "limit reached"])
        || says(&["hit your"]) && says(&["limit"])
    {
        return Cause::Quota(None);
    }
    match status {
        Some(Cause::Traffic(_)) => Cause::Traffic(stated),
        Some(cause) => cause,
        None if says(&["rate limit", "too many requests"]) => Cause::Traffic(stated),
        None if says(&["overloaded"]) => Cause::Overloaded,
        None if says(&["unable to connect", "fetch failed", "econnrefused", "econnreset", "socket"]) => {
            Cause::Network
        }
        None if says(&["model not found", "modelnotfound"]) => Cause::Model,
        None if data.get("isRetryable").and_then(Value::as_bool) == Some(true) => Cause::Overloaded,
        None => Cause::Unknown,
    }
}
