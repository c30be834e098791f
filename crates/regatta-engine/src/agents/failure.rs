//! Why a request failed, in one vocabulary for all agents, and what follows from it.
//!
//! An agent's own folder recognises the cause from what that agent prints; what follows from it is defined here, once.

use std::borrow::Cow;
use std::time::Duration;

use regatta_core::exit::{Exit, Limit};
use regatta_core::failure::RateLimit;
use regatta_core::time::Timestamp;
use serde_json::Value;

use super::decoder::{AgentEnd, never_started, short_of_resources};
use super::event::one_line;

/// `TASK` stands for the task's id.
pub(super) const PROMPT_HINT: &str = "start a new conversation with `regatta retry TASK --fresh`; if the task itself is too long, \
    shorten its prompt or the files that it includes, or split it";
const REFUSAL_HINT: &str = "reword the task or choose another model, then `regatta retry`";
const REQUEST_HINT: &str =
    "read the transcript with `regatta logs`, change the task or the agent, then `regatta retry`";
const BILLING_HINT: &str = "top up the account, or give this agent another one: `profiles` in regatta.yaml";
const MODEL_HINT: &str =
    "check `model` of the task and of this agent in regatta.yaml, and that the account may use it";

/// A server that asks for a shorter wait than this is busy, and the ordinary backoff suffices.
const LONG_WAIT: Duration = Duration::from_secs(60);

/// Longest wait for a limit on requests per minute.
const LONGEST_TRAFFIC: Duration = Duration::from_secs(10 * 60);

/// Why the agent's last request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The account's quota is spent, until the given time.
    Quota(Option<Timestamp>),
    /// Too many requests at once. It passes, after the given time if the server reported one.
    Traffic(Option<Duration>),
    /// The server has problems.
    Overloaded,
    /// The server could not be reached, or the connection broke.
    Network,
    /// Not signed in, or not allowed.
    Login,
    /// The account is not paid for.
    Billing,
    /// The model does not exist.
    Model,
    /// The context is longer than the model accepts.
    Context,
    /// The model refuses the request.
    Refused,
    /// The server does not accept the request.
    Request,
    /// The cause is unknown.
    Unknown,
}

impl Cause {
    /// Its name in events.
    pub(super) fn word(self) -> &'static str {
        match self {
            Cause::Quota(_) => "usage_limit",
            Cause::Traffic(_) => "rate_limit",
            Cause::Overloaded => "overloaded",
            Cause::Network => "network",
            Cause::Login => "authentication_failed",
            Cause::Billing => "billing_error",
            Cause::Model => "model_not_found",
            Cause::Context => "prompt_too_long",
            Cause::Refused => "refusal",
            Cause::Request => "invalid_request",
            Cause::Unknown => "unknown",
        }
    }

    /// The cause that an HTTP status stands for, if any.
    pub(super) fn of_status(status: u64) -> Option<Self> {
        match status {
            401 | 403 => Some(Cause::Login),
            402 => Some(Cause::Billing),
            404 => Some(Cause::Model),
            408 | 500..=599 => Some(Cause::Overloaded),
            413 => Some(Cause::Context),
            429 => Some(Cause::Traffic(None)),
            400..=499 => Some(Cause::Request),
            _ => None,
        }
    }

    /// The end of an attempt with this cause.
    pub(super) fn end(self, message: &str, now: Timestamp, hints: &Hints) -> AgentEnd {
        let message = one_line(&plain(message));
        let permanent = |hint: &str| AgentEnd::Permanent { message: message.clone(), hint: hint.to_owned() };
        let refused =
            |hint: &str| AgentEnd::AccountRefused { message: message.clone(), hint: hint.to_owned() };
        match self {
            Cause::Quota(until) => AgentEnd::RateLimited { until, limit: RateLimit::Quota, message },
            Cause::Traffic(Some(wait)) if wait >= LONG_WAIT => {
                // Minutes are worth waiting for; a longer wait means that some quota is spent.
                let limit = if wait > LONGEST_TRAFFIC { RateLimit::Quota } else { RateLimit::Traffic };
                AgentEnd::RateLimited { until: Some(now.plus(wait)), limit, message }
            }
            Cause::Traffic(_) | Cause::Overloaded | Cause::Network => AgentEnd::Environment { message },
            Cause::Login => refused(hints.login),
            Cause::Billing => refused(BILLING_HINT),
            Cause::Model => permanent(MODEL_HINT),
            Cause::Context => permanent(PROMPT_HINT),
            Cause::Refused => permanent(REFUSAL_HINT),
            Cause::Request => permanent(REQUEST_HINT),
            Cause::Unknown => AgentEnd::Failed { message },
        }
    }
}

/// An error for display: the message in the server's JSON answer, if it was passed on.
fn plain(message: &str) -> Cow<'_, str> {
    let json = message.find('{').zip(message.rfind('}')).filter(|(begin, end)| begin < end);
    let said = json.and_then(|(begin, end)| {
        let answer: Value = serde_json::from_str(&message[begin..=end]).ok()?;
        let words = answer.pointer("/error/message").or_else(|| answer.get("message"))?.as_str()?.trim();
        let around = format!("{}{words}{}", &message[..begin], &message[end + 1..]);
        (!words.is_empty()).then_some(around)
    });
    said.map_or(Cow::Borrowed(message), Cow::Owned)
}

/// Hints for one agent.
pub(super) struct Hints {
    /// Its name.
    pub(super) agent: &'static str,
    /// If its program is missing.
    pub(super) install: &'static str,
    /// If it is not signed in.
    pub(super) login: &'static str,
    /// If it does not accept its arguments.
    pub(super) flags: &'static str,
}

/// The end of an attempt without a last message. `retrying` is why the agent's last request failed, if it was about to
/// repeat it; `spoke` says whether there was any event.
pub(super) fn unfinished(
    exit: &Exit,
    stderr: &str,
    spoke: bool,
    retrying: Option<Cause>,
    hints: &Hints,
    now: Timestamp,
) -> AgentEnd {
    let agent = hints.agent;
    match (exit, retrying) {
        (Exit::NeverStarted { error, by_sandbox }, _) => never_started(error, *by_sandbox, hints.install),
        // Stopped in the middle of a retry: the cause is the failed request, not the time limit.
        (Exit::TimedOut { .. }, Some(cause)) if cause != Cause::Unknown => {
            cause.end(&kept_retrying(exit, agent, cause.word()), now, hints)
        }
        (Exit::TimedOut { .. }, _) => AgentEnd::Failed { message: exit.to_string() },
        (Exit::Exited { code }, _) if *code != 0 && !spoke => refused_to_run(*code, exit, stderr, hints),
        _ => AgentEnd::Interrupted { message: format!("{exit}, and {agent} had not finished") },
    }
}

/// The message for an agent that was stopped while it repeated a request.
pub(super) fn kept_retrying(exit: &Exit, agent: &str, kind: &str) -> String {
    match exit {
        Exit::TimedOut { limit: Limit::Retries } => {
            format!("{agent}'s requests were refused ({kind}), and repeating them cannot help")
        }
        _ => format!("{exit} while {agent} kept retrying ({kind})"),
    }
}

/// There was no event: the agent did not get as far as a conversation, and stderr says why.
fn refused_to_run(code: i32, exit: &Exit, stderr: &str, hints: &Hints) -> AgentEnd {
    let words = one_line(stderr);
    let message = if words.is_empty() { exit.to_string() } else { words };
    match code {
        _ if short_of_resources(stderr) => AgentEnd::Environment { message },
        126 | 127 => AgentEnd::Permanent { message, hint: hints.install.to_owned() },
        129.. => AgentEnd::Interrupted { message: format!("{exit} before {} said anything", hints.agent) },
        1 | 2 if !stderr.trim().is_empty() => AgentEnd::Permanent { message, hint: hints.flags.to_owned() },
        _ => AgentEnd::Failed { message },
    }
}
