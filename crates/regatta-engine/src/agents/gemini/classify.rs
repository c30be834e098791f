//! Why gemini failed, from its last `result`, or from its exit code if there is none.

use regatta_core::exit::Exit;
use regatta_core::time::Timestamp;

use crate::agents::decoder::AgentEnd;
use crate::agents::event::one_line;
use crate::agents::failure::{Cause, Hints, unfinished};
use crate::agents::reset::{renewal, wait};

const HINTS: Hints = Hints {
    agent: "gemini",
    install: "install Gemini CLI (npm install -g @google/gemini-cli), or name the program with `exe` of this agent in regatta.yaml",
    login: "sign in with `gemini` in a terminal, or set GEMINI_API_KEY; GEMINI_CLI_HOME chooses the account",
    flags: "check `args` and `model`; `gemini --help` lists what this version accepts",
};

/// The meanings of gemini's own exit codes. Others are an HTTP status cut to a byte, which the result has already
/// reported.
mod exit_code {
    pub(super) const NOT_SIGNED_IN: i32 = 41;
    pub(super) const BAD_INPUT: i32 = 42;
    pub(super) const NO_SANDBOX: i32 = 44;
    pub(super) const BAD_SETTINGS: i32 = 52;
    pub(super) const TOO_MANY_TURNS: i32 = 53;
    pub(super) const UNTRUSTED_FOLDER: i32 = 55;
    pub(super) const CANCELLED: i32 = 130;
}

/// The content of the last `result`.
#[derive(Debug)]
pub(super) struct Terminal {
    pub(super) ok: bool,
    /// The error message.
    pub(super) words: String,
}

pub(super) fn classify(
    terminal: Option<&Terminal>,
    spoke: bool,
    exit: &Exit,
    stderr: &str,
    now: Timestamp,
) -> AgentEnd {
    match terminal {
        Some(Terminal { ok: true, .. }) => return AgentEnd::Success,
        Some(Terminal { words, .. }) => return cause(words, now).end(words, now, &HINTS),
        None => {}
    }
    if stderr.contains("Invalid session identifier") {
        return AgentEnd::NoSession;
    }
    let message = || one_line(stderr);
    let permanent = |hint: &str| AgentEnd::Permanent { message: message(), hint: hint.to_owned() };
    if let Exit::Exited { code } = exit {
        match *code {
            exit_code::NOT_SIGNED_IN => {
                return AgentEnd::AccountRefused { message: message(), hint: HINTS.login.to_owned() };
            }
            exit_code::BAD_INPUT
            | exit_code::NO_SANDBOX
            | exit_code::BAD_SETTINGS
            | exit_code::UNTRUSTED_FOLDER => {
                return permanent(HINTS.flags);
            }
            exit_code::TOO_MANY_TURNS => return AgentEnd::Failed { message: message() },
            exit_code::CANCELLED => {
                return AgentEnd::Interrupted { message: format!("{exit}, and gemini was cancelled") };
            }
            _ => {}
        }
    }
    unfinished(exit, stderr, spoke, retrying(stderr, now), &HINTS, now)
}

/// Gemini repeats requests for minutes and reports it only on stderr.
fn retrying(stderr: &str, now: Timestamp) -> Option<Cause> {
    let last = stderr.lines().rev().find(|line| line.starts_with("Attempt ") && line.contains(" failed"))?;
    let status = last
        .split_once("failed with status ")
        .and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
    Some(status.and_then(Cause::of_status).unwrap_or_else(|| cause(last, now)))
}

/// The cause, from the server's words, which gemini passes on, the most specific first.
pub(super) fn cause(words: &str, now: Timestamp) -> Cause {
    let words = words.to_ascii_lowercase();
    let says = |signs: &[&str]| signs.iter().any(|sign| words.contains(sign));
    if says(&["exhausted your"]) && says(&["quota", "capacity"]) || says(&["perday", "daily quota"]) {
        Cause::Quota(renewal(&words, now))
    } else if says(&["billing", "credit balance"]) {
        Cause::Billing
    } else if says(&[
        "api key not valid",
        "api_key_invalid",
        "unauthenticated",
        "permission_denied",
        "please set an auth",
    ]) {
        Cause::Login
    } else if says(&[
        "too long",
        "exceeds the maximum number of tokens",
        "input token count",
        "context window",
    ]) {
        Cause::Context
    } else if says(&["rate limit", "resource_exhausted", "too many requests"]) {
        Cause::Traffic(wait(&words))
    } else if says(&["overloaded", "unavailable", "internal server error", "\"internal\""]) {
        Cause::Overloaded
    } else if says(&["fetch failed", "econnreset", "econnrefused", "etimedout", "enotfound", "eai_again"])
        || says(&["socket hang up", "other side closed", "premature close", "api error: terminated]"])
        || says(&["without a finish reason", "stream ended", "stalled"])
    {
        Cause::Network
    } else if words.starts_with("[api error: model: ") || says(&["not_found", "is not found for api version"])
    {
        Cause::Model
    } else if let Some(cause) = status(&words).and_then(Cause::of_status) {
        cause
    } else if says(&["invalid_argument"]) {
        Cause::Request
    } else {
        Cause::Unknown
    }
}

/// The `"code":503` of a server's answer.
fn status(words: &str) -> Option<u64> {
    let (_, rest) = words.split_once("\"code\":")?;
    rest.trim_start().split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
