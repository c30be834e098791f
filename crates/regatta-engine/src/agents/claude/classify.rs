//! How a claude attempt ended, from claude's own output.
//!
//! The last `result` event decides. Without one the attempt did not finish, whatever the exit code: claude exits with 0
//! when it is interrupted between two answers. Only if claude printed no event at all do stderr and the exit code
//! count: it refused its arguments, or could not be started.

use regatta_core::exit::Exit;
use regatta_core::failure::RateLimit;
use regatta_core::time::Timestamp;

use crate::agents::decoder::{AgentEnd, never_started, short_of_resources};
use crate::agents::event::one_line;
use crate::agents::failure::{PROMPT_HINT, kept_retrying};
use crate::agents::reset::reset_time;

const INSTALL_HINT: &str =
    "install Claude Code, or name the program with `exe` of this agent in regatta.yaml (`agents.claude.exe`)";
const LOGIN_HINT: &str = "sign in with `claude` in a terminal, or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN; `regatta doctor` checks it";
const BILLING_HINT: &str = "top up the account, or give this agent another one: `profiles` in regatta.yaml";
const MODEL_HINT: &str =
    "check `model` of the task and of this agent in regatta.yaml, and that the account may use it";
const FLAGS_HINT: &str = "check `args` and `persona`; `claude --help` lists what this version accepts";
const REFUSAL_HINT: &str = "reword the task or choose another model, then `regatta retry`";
const REQUEST_HINT: &str =
    "read the transcript with `regatta logs`, change the task or the agent, then `regatta retry`";

/// The content of one `result` event.
#[derive(Debug)]
pub(super) struct Terminal {
    pub(super) subtype: String,
    pub(super) is_error: bool,
    /// HTTP status of the failed request.
    pub(super) status: Option<u64>,
    pub(super) reason: String,
    pub(super) stop_reason: String,
    /// The answer, or the errors.
    pub(super) words: String,
}

impl Terminal {
    /// A failed request is a `success` with `is_error` set: both must be right.
    pub(super) fn ok(&self) -> bool {
        self.subtype == "success" && !self.is_error
    }
}

/// Everything known from the stream.
pub(super) struct Signs<'a> {
    pub(super) terminal: Option<&'a Terminal>,
    /// Kind and message of the main agent's last error.
    pub(super) error: Option<&'a (String, String)>,
    /// The account was rejected, until the given time.
    pub(super) rejected: Option<Option<Timestamp>>,
    /// Claude was waiting to repeat a request that had failed in this way.
    pub(super) retrying: Option<&'a str>,
    /// There was at least one event.
    pub(super) spoke: bool,
}

pub(super) fn classify(signs: &Signs<'_>, exit: &Exit, stderr: &str, now: Timestamp) -> AgentEnd {
    if let Exit::NeverStarted { error, by_sandbox } = exit {
        return never_started(error, *by_sandbox, INSTALL_HINT);
    }
    match signs.terminal {
        // Printed before the time limit or the stop, so it counts.
        Some(terminal) if !terminal.reason.starts_with("aborted") => finished(signs, terminal, now),
        _ => unfinished(signs, exit, stderr),
    }
}

fn finished(signs: &Signs<'_>, terminal: &Terminal, now: Timestamp) -> AgentEnd {
    if terminal.ok() {
        return AgentEnd::Success;
    }
    let message = one_line(&terminal.words);
    match terminal.subtype.as_str() {
        "success" => failed_request(signs, terminal, now),
        _ if no_session(&terminal.words) => AgentEnd::NoSession,
        "error_max_budget_usd" => AgentEnd::Budget { message },
        // The user set the ceiling, so reaching it is a work failure. The retry resumes the conversation with a fresh
        // allowance, and `max_attempts` limits the number of retries.
        "error_max_turns" => AgentEnd::Failed { message },
        // `error_during_execution`, malformed structured output, and what later versions add: treated as work failures.
        subtype => {
            AgentEnd::Failed { message: if message.is_empty() { subtype.to_owned() } else { message } }
        }
    }
}

/// A request that failed for good. The kind is claude's; if the stream had none (`--output-format json`), the HTTP
/// status replaces it.
fn failed_request(signs: &Signs<'_>, terminal: &Terminal, now: Timestamp) -> AgentEnd {
    let kind = match (signs.error, terminal.status) {
        (Some((kind, _)), _) => kind.as_str(),
        (None, Some(401 | 403)) => "authentication_failed",
        (None, Some(402)) => "billing_error",
        (None, Some(404)) => "model_not_found",
        (None, Some(429)) => "rate_limit",
        (None, Some(408 | 500..)) => "server_error",
        (None, Some(400 | 413)) => "invalid_request",
        (None, _) => "",
    };
    let message = one_line(&terminal.words);
    // A key with a monthly ceiling; claude has no kind of its own for it.
    let ceiling = terminal.words.contains("You will regain access");
    if kind == "rate_limit" || ceiling {
        let until = signs.rejected.flatten().or_else(|| reset_time(&terminal.words, now));
        // A 429 that names no quota is traffic, not a spent allowance: it passes within minutes.
        return if until.is_some() || ceiling || names_quota(&terminal.words) {
            AgentEnd::RateLimited { until, limit: RateLimit::Quota, message }
        } else {
            AgentEnd::Environment { message }
        };
    }
    if let Some(hint) = account_hint(kind) {
        return AgentEnd::AccountRefused { message, hint: hint.to_owned() };
    }
    if let Some(hint) = permanent_hint(kind, terminal) {
        return AgentEnd::Permanent { message, hint: hint.to_owned() };
    }
    match kind {
        // "unknown" is claude's word for a request without an answer.
        "overloaded" | "server_error" | "unknown" => AgentEnd::Environment { message },
        // Work failures: `max_output_tokens`, because the length of an answer is the model's choice and the next
        // attempt, told that it was cut, writes less at once; and every unknown kind.
        _ => AgentEnd::Failed { message },
    }
}

/// What to do about a refused account.
fn account_hint(kind: &str) -> Option<&'static str> {
    match kind {
        "authentication_failed" | "oauth_org_not_allowed" => Some(LOGIN_HINT),
        "billing_error" => Some(BILLING_HINT),
        _ => None,
    }
}

/// What to do about a failure that would only repeat itself.
fn permanent_hint(kind: &str, terminal: &Terminal) -> Option<&'static str> {
    match kind {
        "model_not_found" => Some(MODEL_HINT),
        // The same prompt stays too long, and a refused one is refused again: a user must change it, and each attempt
        // in between would waste money.
        "invalid_request" if terminal.reason == "prompt_too_long" => Some(PROMPT_HINT),
        "invalid_request" if terminal.stop_reason == "refusal" => Some(REFUSAL_HINT),
        "invalid_request" => Some(REQUEST_HINT),
        _ => None,
    }
}

fn unfinished(signs: &Signs<'_>, exit: &Exit, stderr: &str) -> AgentEnd {
    // Stopped in the middle of a retry: the cause is the failed request, not the time limit or the user's stop.
    if let (Some(kind), Exit::TimedOut { .. } | Exit::Stopped { .. }) = (signs.retrying, exit) {
        let message = kept_retrying(exit, "claude", kind);
        match account_hint(kind) {
            Some(hint) => return AgentEnd::AccountRefused { message, hint: hint.to_owned() },
            None if matches!(exit, Exit::TimedOut { .. }) => return AgentEnd::Environment { message },
            _ => {}
        }
    }
    match exit {
        Exit::TimedOut { .. } => AgentEnd::Failed { message: exit.to_string() },
        Exit::Exited { code } if *code != 0 && !signs.spoke => refused_to_run(*code, exit, stderr),
        _ => AgentEnd::Interrupted { message: format!("{exit}, and claude had not finished") },
    }
}

/// There was no event: claude did not get as far as a conversation, and stderr says why.
fn refused_to_run(code: i32, exit: &Exit, stderr: &str) -> AgentEnd {
    let words = one_line(stderr);
    let message = if words.is_empty() { exit.to_string() } else { words };
    match code {
        _ if stderr.contains("Session ID") && stderr.contains("already in use") => AgentEnd::SessionExists,
        _ if no_session(stderr) => AgentEnd::NoSession,
        _ if short_of_resources(stderr) => AgentEnd::Environment { message },
        126 | 127 => AgentEnd::Permanent { message, hint: INSTALL_HINT.to_owned() },
        129.. => AgentEnd::Interrupted { message: format!("{exit} before claude said anything") },
        1 if !stderr.trim().is_empty() => AgentEnd::Permanent { message, hint: FLAGS_HINT.to_owned() },
        _ => AgentEnd::Failed { message },
    }
}

fn no_session(text: &str) -> bool {
    text.contains("No conversation found")
}

/// "You've hit your session limit" is a quota, whereas "exceed your rate limit" is traffic.
fn names_quota(text: &str) -> bool {
    let says = |sign| text.contains(sign);
    ["usage limit reached", "limit will reset", "out of extra usage"].into_iter().any(says)
        || says("hit your") && says("limit")
}
