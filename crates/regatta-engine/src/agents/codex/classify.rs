//! Why codex failed, from its `turn.failed` event.

use regatta_core::exit::Exit;
use regatta_core::time::Timestamp;

use crate::agents::decoder::AgentEnd;
use crate::agents::failure::{Cause, Hints, unfinished};
use crate::agents::reset::{renewal_in, wait};

const HINTS: Hints = Hints {
    agent: "codex",
    install: "install Codex (npm install -g @openai/codex), or name the program with `exe` of this agent in regatta.yaml",
    login: "sign in with `codex login`, or set CODEX_API_KEY; CODEX_HOME chooses the account",
    flags: "check `args`, `model` and `persona`; `codex exec --help` lists what this version accepts",
};

/// Printed on stderr in every run.
const NOISE: [&str; 2] = ["Reading additional input from stdin", "WARNING: proceeding, even though"];

/// The end of one turn.
#[derive(Debug)]
pub(super) struct Terminal {
    pub(super) ok: bool,
    /// The error message.
    pub(super) words: String,
}

pub(super) fn classify(
    terminal: Option<&Terminal>,
    retrying: Option<&str>,
    spoke: bool,
    exit: &Exit,
    stderr: &str,
    (now, home): (Timestamp, &str),
) -> AgentEnd {
    let cause = |words: &str| cause(words, now, home);
    match terminal {
        Some(Terminal { ok: true, .. }) => return AgentEnd::Success,
        Some(Terminal { words, .. }) => return cause(words).end(words, now, &HINTS),
        None => {}
    }
    if !spoke && stderr.contains("no rollout found") {
        return AgentEnd::NoSession;
    }
    let telling = |line: &&str| !NOISE.iter().any(|noise| line.starts_with(noise));
    let stderr: Vec<&str> = stderr.lines().filter(telling).collect();
    unfinished(exit, &stderr.join("\n"), spoke, retrying.map(cause), &HINTS, now)
}

/// The cause, from codex's own words, the most specific first. Times in them are in the zone `home`.
pub(super) fn cause(words: &str, now: Timestamp, home: &str) -> Cause {
    let words = words.to_ascii_lowercase();
    let says = |signs: &[&str]| signs.iter().any(|sign| words.contains(sign));
    if says(&["usage limit", "usage_limit_reached"]) {
        Cause::Quota(renewal_in(home, &words, now))
    } else if says(&["insufficient_quota", "credit balance", "billing", "payment required"]) {
        Cause::Billing
    } else if says(&[
        "401 unauthorized",
        "403 forbidden",
        "missing environment variable",
        "incorrect api key",
        "invalid_api_key",
        "not logged in",
        "log in again",
        "sign in again",
        "refresh token",
    ]) {
        Cause::Login
    } else if says(&["429 too many requests", "rate limit", "rate_limit"]) {
        Cause::Traffic(wait(&words))
    } else if says(&["context_length_exceeded", "context window", "prompt is too long"]) {
        Cause::Context
    } else if says(&["high demand", "at capacity", "overloaded", "unexpected status 5", "server_error"]) {
        Cause::Overloaded
    } else if says(&["stream disconnected", "error sending request", "connection", "timeout waiting"]) {
        Cause::Network
    } else if words.starts_with("model: ")
        || says(&["model_not_found", "404 not found", "model is not supported", "model does not exist"])
    {
        Cause::Model
    } else if says(&["invalid_prompt", "content_policy", "safety"]) {
        Cause::Refused
    } else if says(&["unexpected status 4", "invalid_request_error"]) {
        Cause::Request
    } else {
        // Includes `max_output_tokens`: the next attempt, told that it was cut, writes less at once.
        Cause::Unknown
    }
}
