//! Failure classes and what follows from them. Only positive signs count: an unrecognised failure is a work failure.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Why an attempt did not succeed, classified by what has to happen next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "class", rename_all = "kebab-case")]
pub enum FailureClass {
    /// The work itself: charged, retried with guidance.
    Work,
    /// A usage limit: parked until its end if known, not charged.
    RateLimited {
        /// When the limit ends, if stated.
        until: Option<Timestamp>,
        /// What the limit counts. Older records, which did not distinguish, are quotas.
        #[serde(default)]
        limit: RateLimit,
    },
    /// Budget spent: not charged.
    Budget,
    /// The environment failed: parked with backoff, not charged.
    Environment,
    /// Retrying cannot help: blocked for a user.
    Permanent,
}

/// What a usage limit counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RateLimit {
    /// An allowance per hours or days: another account still has its own.
    #[default]
    Quota,
    /// Requests in the last minute: it lifts sooner than switching accounts would pay off.
    Traffic,
}

impl FailureClass {
    /// The name of the class.
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
    /// The wait before the second attempt.
    pub work_first: Duration,
    /// Longest wait after work failures.
    pub work_cap: Duration,
    /// The wait after the first environment failure in a row.
    pub environment_first: Duration,
    /// Longest wait after environment failures.
    pub environment_cap: Duration,
    /// The number of environment failures in a row after which the task is blocked.
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
