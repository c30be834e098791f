//! Every way in which a supervised process can end.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a process tree came to its end, as the shim recorded it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Exit {
    /// It returned by itself.
    Exited {
        /// Its exit status.
        code: i32,
    },
    /// A signal that Regatta did not send ended it.
    Signalled {
        /// The signal's number.
        signal: i32,
    },
    /// Regatta ended the tree because a limit ran out.
    TimedOut {
        /// Which limit.
        limit: Limit,
    },
    /// Regatta ended the tree because somebody asked: an operator, Ctrl-C, a shutdown.
    Stopped {
        /// On whose behalf, for people.
        why: String,
    },
    /// There never was a process.
    NeverStarted {
        /// What the system said.
        error: String,
    },
    /// The shim itself died and left no record: a reboot, or a `kill -9` of the shim.
    Lost,
}

/// The clocks that run on an attempt, and the one thing that needs none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// From start to end.
    Total,
    /// From start to the first byte of output.
    FirstOutput,
    /// Silence, while no tool call is open.
    Idle,
    /// Requests that are repeated although no repetition can help: a wrong key, an account that nobody pays for.
    Retries,
    /// From the agent's last word to its end: it had finished, and lingered.
    Lingering,
}

impl Exit {
    /// True for a plain exit with status 0.
    pub fn success(&self) -> bool {
        matches!(self, Exit::Exited { code: 0 })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::Total => "timeout",
            Limit::FirstOutput => "first-output timeout",
            Limit::Idle => "idle timeout",
            Limit::Retries => "limit of futile retries",
            Limit::Lingering => "grace after its last word",
        })
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Exited { code } => write!(f, "exit {code}"),
            Exit::Signalled { signal } => write!(f, "killed by signal {signal}"),
            Exit::TimedOut { limit } => write!(f, "{limit}"),
            Exit::Stopped { why } => write!(f, "stopped ({why})"),
            Exit::NeverStarted { error } => write!(f, "could not start: {error}"),
            Exit::Lost => write!(f, "lost (the machine or the shim went away)"),
        }
    }
}
