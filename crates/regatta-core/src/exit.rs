//! Every way a supervised process can end.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a process tree ended, as the shim recorded it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Exit {
    /// It exited by itself.
    Exited {
        /// Its exit status.
        code: i32,
    },
    /// It was ended by a signal that Regatta did not send.
    Signalled {
        /// The signal's number.
        signal: i32,
    },
    /// Regatta ended the tree because a limit was exceeded.
    TimedOut { limit: Limit },
    /// Regatta ended the tree on request: by an operator, Ctrl-C or a shutdown.
    Stopped {
        /// Who asked for it, for display.
        why: String,
    },
    /// The process could not be started.
    NeverStarted {
        /// The system's error message.
        error: String,
        /// Its sandbox could not be set up: the program itself was never tried.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_sandbox: bool,
    },
    /// The shim itself died and left no record: a reboot, or a `kill -9` of the shim.
    Lost,
}

/// The time limits of an attempt, and the one limit that needs no clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// From start to end.
    Total,
    /// From start to the first byte of output.
    FirstOutput,
    /// Silence, while no tool call is open.
    Idle,
    /// Requests that are repeated although repeating cannot help: a wrong key, an unpaid account.
    Retries,
    /// From the agent's last message to its exit: it had finished but kept running.
    Lingering,
}

impl Exit {
    /// The program could not be started.
    pub fn never_started(error: impl Into<String>) -> Self {
        Exit::NeverStarted { error: error.into(), by_sandbox: false }
    }

    /// The same as a predicate, to follow the name of a program: `was killed by signal 9`.
    pub fn predicate(&self) -> String {
        match self {
            Exit::Exited { .. } => format!("ended with {self}"),
            Exit::Signalled { .. } | Exit::Stopped { .. } | Exit::Lost => format!("was {self}"),
            Exit::TimedOut { limit } => format!("reached its {limit}"),
            Exit::NeverStarted { .. } => self.to_string(),
        }
    }

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
            Limit::Retries => "limit for failing requests",
            Limit::Lingering => "time limit after its result",
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
            Exit::NeverStarted { error, .. } => write!(f, "could not start: {error}"),
            Exit::Lost => write!(f, "lost (the machine or the shim died)"),
        }
    }
}
