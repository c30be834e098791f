//! What every decoder does, and what it says when the process is gone.

use regatta_core::exit::Exit;
use regatta_core::failure::RateLimit;
use regatta_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::event::{AgentEvent, is_no_count};

/// Reads one attempt's output. Memory stays bounded however long the attempt runs, and no input is fatal:
/// torn, binary and unheard-of lines come back as [`AgentEvent::Unknown`] or not at all.
pub trait Decoder: Send {
    /// One line of stdout, without its newline.
    fn line(&mut self, line: &[u8]) -> Vec<AgentEvent>;

    /// One line of stderr, for agents that say only there what they wait for.
    fn stderr(&mut self, _line: &[u8]) -> Vec<AgentEvent> {
        Vec::new()
    }

    /// The process is gone: how did the attempt end? `stderr_tail` is the last few KiB of stderr.
    fn end(&mut self, exit: &Exit, stderr_tail: &str, now: Timestamp) -> Ending;

    /// Tool calls begun and not ended. Silence is normal while this is not zero.
    fn open_tools(&self) -> usize;

    /// Whether something that the agent left running in the background may still wake it.
    fn waits_for_background(&self) -> bool {
        false
    }

    /// Where the agent's clock is, where it was told so: times that it prints without a zone are that zone's.
    fn lives_in(&mut self, _zone: &str) {}

    /// Whether the agent repeats a request although that cannot help: nobody need wait for it.
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
    /// Dollars, where the agent said so.
    pub cost_usd: Option<f64>,
    /// Tokens read, those from a cache included.
    pub tokens_in: u64,
    /// Tokens written.
    pub tokens_out: u64,
    /// Those of the tokens read that came from a cache.
    #[serde(default, skip_serializing_if = "is_no_count")]
    pub cached: u64,
    /// Model turns taken.
    pub turns: Option<u32>,
    /// The agent's answer, cut at 64 KiB.
    pub result_text: Option<String>,
    /// Tools refused on the way. A refusal is not a failure, but it explains one.
    pub denials: Vec<String>,
    /// What its sandbox said when it could not do its part, in the words of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// What it claimed of its use and was not believed, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
}

/// The outcome of an attempt as far as the agent can tell. Told by positive signs only: what nobody recognises
/// is `Failed`, which costs an attempt, and what has no last word is `Interrupted`, which must be resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum AgentEnd {
    /// The agent says it is done. Whether that is so is for the judge to find out.
    Success,
    /// It tried and failed: class work.
    Failed {
        /// In the agent's words.
        message: String,
    },
    /// A usage limit.
    RateLimited {
        /// When to come back, where the agent said so.
        until: Option<Timestamp>,
        /// What is used up.
        limit: RateLimit,
        /// In the agent's words.
        message: String,
    },
    /// It reached the ceiling in dollars that it was given.
    Budget {
        /// In the agent's words.
        message: String,
    },
    /// The world failed, not the work: overloaded, unreachable, out of memory.
    Environment {
        /// In the agent's words.
        message: String,
    },
    /// It will fail the same way until somebody changes something.
    Permanent {
        /// In the agent's words.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// The account is refused: not signed in, not allowed, or nobody pays for it. Another account may do.
    AccountRefused {
        /// In the agent's words.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// The conversation to resume does not exist: start a new one.
    NoSession,
    /// The conversation to start exists already: resume it.
    SessionExists,
    /// It never came to an end of its own: stopped, killed, lost.
    Interrupted {
        /// What is known of it.
        message: String,
    },
}

/// A process that could not be started: for good, unless the system was merely short of something.
pub(super) fn never_started(error: &str, hint: &str) -> AgentEnd {
    let message = format!("could not start the agent: {error}");
    if short_of_resources(error) {
        AgentEnd::Environment { message }
    } else {
        AgentEnd::Permanent { message, hint: hint.to_owned() }
    }
}

/// True where the text names a shortage that passes by itself.
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
