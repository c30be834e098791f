//! The interface of every decoder, and its result once the process has ended.

use regatta_core::exit::Exit;
use regatta_core::failure::RateLimit;
use regatta_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::event::{AgentEvent, is_no_count};

/// Decodes one attempt's output. Memory stays bounded however long the attempt runs, and no input is fatal: torn,
/// binary and unknown lines come back as [`AgentEvent::Unknown`] or not at all.
pub trait Decoder: Send {
    /// One line of stdout, without its newline.
    fn line(&mut self, line: &[u8]) -> Vec<AgentEvent>;

    /// One line of stderr, for agents that report only there what they wait for.
    fn stderr(&mut self, _line: &[u8]) -> Vec<AgentEvent> {
        Vec::new()
    }

    /// The process has ended: how did the attempt end? `stderr_tail` is the last few KiB of stderr.
    fn end(&mut self, exit: &Exit, stderr_tail: &str, now: Timestamp) -> Ending;

    /// Tool calls started and not ended. Silence is normal while this is not zero.
    fn open_tools(&self) -> usize;

    /// Whether something the agent left running in the background may still wake it.
    fn waits_for_background(&self) -> bool {
        false
    }

    /// Sets the time zone of the agent's clock: times that it prints without a zone are in that zone.
    fn lives_in(&mut self, _zone: &str) {}

    /// Whether the agent repeats a request although that cannot help, so that waiting for it is pointless.
    fn retries_in_vain(&self) -> bool {
        false
    }
}

/// How an attempt ended, and what it used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    /// The outcome, in the agent's own words.
    pub end: AgentEnd,
    /// The conversation to resume.
    pub session: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// Dollars, if the agent reported them.
    pub cost_usd: Option<f64>,
    /// Tokens read, including those from a cache.
    pub tokens_in: u64,
    /// Tokens written.
    pub tokens_out: u64,
    /// The part of `tokens_in` that came from a cache.
    #[serde(default, skip_serializing_if = "is_no_count")]
    pub cached: u64,
    /// Model turns taken.
    pub turns: Option<u32>,
    /// The agent's answer, cut at 64 KiB.
    pub result_text: Option<String>,
    /// Refused tools. A refusal is not a failure, but it may explain one.
    pub denials: Vec<String>,
    /// The system's error message if its sandbox failed to work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// Implausible usage claims that were not accepted, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
}

/// The outcome of an attempt as far as the agent can tell. Only positive signs count: an unrecognised end is `Failed`,
/// which costs an attempt, and a missing last message is `Interrupted`, which must be resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum AgentEnd {
    /// The agent reports that it is done. The judge verifies that.
    Success,
    /// It tried and failed: a work failure.
    Failed {
        /// In the agent's words.
        message: String,
    },
    /// A usage limit.
    RateLimited {
        /// When the limit ends, if the agent reported it.
        until: Option<Timestamp>,
        /// What the limit counts.
        limit: RateLimit,
        /// In the agent's words.
        message: String,
    },
    /// It reached its ceiling in dollars.
    Budget {
        /// In the agent's words.
        message: String,
    },
    /// The environment failed, not the work: overloaded, unreachable, out of memory.
    Environment {
        /// In the agent's words.
        message: String,
    },
    /// It will fail the same way until a user changes something.
    Permanent {
        /// In the agent's words.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// The account is refused: not signed in, not allowed, or not paid for. Another account may work.
    AccountRefused {
        /// In the agent's words.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// The conversation to resume does not exist: start a new one.
    NoSession,
    /// The conversation to start already exists: resume it.
    SessionExists,
    /// It did not end by itself: stopped, killed, lost.
    Interrupted {
        /// What is known about it.
        message: String,
    },
}

/// The outcome for a process that could not be started: permanent, unless the system was short of resources.
pub(super) fn never_started(error: &str, by_sandbox: bool, hint: &str) -> AgentEnd {
    let hint = if by_sandbox { "`regatta doctor` tries the sandbox and says what to do" } else { hint };
    let message = format!("could not start the agent: {error}");
    if short_of_resources(error) {
        AgentEnd::Environment { message }
    } else {
        AgentEnd::Permanent { message, hint: hint.to_owned() }
    }
}

/// True if the text names a shortage that passes by itself.
pub(crate) fn short_of_resources(text: &str) -> bool {
    const SIGNS: [&str; 12] = [
        "temporarily unavailable",
        "cannot allocate memory",
        "out of memory",
        "too many open files",
        "text file busy",
        "no space left on device",
        "disk quota exceeded",
        "read-only file system",
        "enospc",
        "enomem",
        "emfile",
        "eagain",
    ];
    let text = text.to_ascii_lowercase();
    SIGNS.iter().any(|sign| text.contains(sign))
}
