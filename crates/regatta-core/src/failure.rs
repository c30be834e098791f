//! Failure classes and what follows from them. By positive signs only: what is not recognised is work.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Why an attempt did not succeed, cut by what has to happen next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "class", rename_all = "kebab-case")]
pub enum FailureClass {
    /// The work itself: charged, retried with guidance.
    Work,
    /// A usage limit, with its end if it was stated: parked, not charged.
    RateLimited {
        /// When the limit ends, if it was said.
        until: Option<Timestamp>,
        /// What is used up. Before accounts were told apart, all that was recorded was a quota.
        #[serde(default)]
        limit: RateLimit,
    },
    /// Money or tokens spent: not charged.
    Budget,
    /// The world around it: parked with backoff, not charged.
    Environment,
    /// Retrying cannot help: blocked for a person.
    Permanent,
}

/// What a usage limit counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RateLimit {
    /// An allowance of hours or days: another account still has its own.
    #[default]
    Quota,
    /// Requests of the last minute: it passes before another account would be worth it.
    Traffic,
}

impl FailureClass {
    /// The word for it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            FailureClass::Work => "work",
            FailureClass::RateLimited { .. } => "rate-limited",
            FailureClass::Budget => "budget",
            FailureClass::Environment => "environment",
            FailureClass::Permanent => "permanent",
        }
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How long to wait between attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// Before the second attempt at the work.
    pub work_first: Duration,
    /// Longest wait between attempts at the work.
    pub work_cap: Duration,
    /// After the first environment failure in a row.
    pub environment_first: Duration,
    /// Longest wait after environment failures.
    pub environment_cap: Duration,
    /// So many environment failures in a row, and the task is blocked.
    pub environment_limit: u32,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            work_first: Duration::from_secs(1),
            work_cap: Duration::from_secs(300),
            environment_first: Duration::from_secs(60),
            environment_cap: Duration::from_secs(30 * 60),
            environment_limit: 20,
        }
    }
}

impl Backoff {
    /// The wait after the `failures`-th work failure: doubles each time.
    pub fn after_work(&self, failures: u32) -> Duration {
        doubled(self.work_first, failures, self.work_cap)
    }

    /// The wait after the `failures`-th environment failure in a row.
    pub fn after_environment(&self, failures: u32) -> Duration {
        doubled(self.environment_first, failures, self.environment_cap)
    }
}

fn doubled(first: Duration, failures: u32, cap: Duration) -> Duration {
    let factor = 1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(cap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_their_cap() {
        let backoff = Backoff::default();
        let seconds: Vec<u64> = [1, 2, 3, 9, 40].map(|n| backoff.after_work(n).as_secs()).to_vec();
        assert_eq!(seconds, [1, 2, 4, 256, 300]);
        let minutes: Vec<u64> = [1, 2, 6, 70].map(|n| backoff.after_environment(n).as_secs() / 60).to_vec();
        assert_eq!(minutes, [1, 2, 30, 30]);
    }
}
