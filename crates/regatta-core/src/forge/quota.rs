//! What may be asked of a forge now.
//!
//! The forge limits how much is asked in an hour, and how fast. Regatta uses the user's own login, so it leaves a share
//! of the hour to the user, keeps a pause between writes, and asks nothing while the forge wants to be left alone.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// The pause between two writes.
pub const BETWEEN_WRITES: Duration = Duration::from_secs(1);
/// The shortest pause after the forge asked for one.
const SHORTEST_PAUSE: Duration = Duration::from_secs(60);
/// The longest pause that doubling leads to.
const LONGEST_PAUSE: Duration = Duration::from_secs(15 * 60);
/// Pauses after the forge did not answer.
const AWAY_PAUSES: [Duration; 4] =
    [Duration::from_secs(5), Duration::from_secs(15), Duration::from_secs(60), Duration::from_secs(5 * 60)];
/// How long after a push looks are closer together.
const AFTER_PUSH: Duration = Duration::from_secs(10 * 60);
/// How long only a review must have been awaited before looks are further apart.
const ONLY_REVIEW: Duration = Duration::from_secs(60 * 60);
/// The pause between looks then.
const SLOW_LOOK: Duration = Duration::from_secs(5 * 60);

/// Why something is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Regatta looks by itself: it stops at the user's share.
    Look,
    /// Something is written, or a person waits for the answer: the whole hour is there for it.
    Asked,
    /// The same, and it changes something at the forge.
    Write,
}

/// What is left of one kind of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// How many there are in an hour.
    pub limit: u64,
    /// How many are left.
    pub remaining: u64,
    /// When the next hour begins.
    pub reset: Timestamp,
}

/// What one answer says about limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The kind of requests: `core`, `graphql`.
    pub bucket: Option<String>,
    /// What is left of it.
    pub left: Option<Left>,
    /// Whether the request was refused for a limit.
    pub limited: bool,
    /// How long the forge wants to be left alone.
    pub retry_after: Option<Duration>,
    /// Whether there was no answer, or none that can be used.
    pub away: bool,
}

/// What is known about the limits of one host. A cache: without it, the next answers tell the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quota {
    buckets: BTreeMap<String, Left>,
    /// Nothing is asked before then.
    paused_until: Option<Timestamp>,
    /// How often in a row the forge refused for a limit.
    refusals: u32,
    /// How often in a row it did not answer.
    silences: u32,
    last_write: Option<Timestamp>,
}

impl Quota {
    /// Whether a request may go out now; otherwise until when it has to wait.
    pub fn may(&self, purpose: Purpose, bucket: &str, reserve: f64, now: Timestamp) -> Result<(), Timestamp> {
        if let Some(until) = self.paused_until
            && now < until
        {
            return Err(until);
        }
        if let Some(left) = self.buckets.get(bucket)
            && now < left.reset
        {
            #[expect(clippy::cast_precision_loss, reason = "a share of some thousand requests")]
            let kept = if purpose == Purpose::Look { reserve * left.limit as f64 } else { 0.0 };
            #[expect(clippy::cast_precision_loss, reason = "a number of requests in an hour")]
            if left.remaining == 0 || (left.remaining as f64) < kept {
                return Err(left.reset);
            }
        }
        if purpose == Purpose::Write
            && let Some(last) = self.last_write
        {
            let free = last.plus(BETWEEN_WRITES);
            // A clock that was set back must not stop writes for long.
            if last <= now && now < free {
                return Err(free);
            }
        }
        Ok(())
    }

    /// Records that a request goes out.
    pub fn begins(&mut self, purpose: Purpose, now: Timestamp) {
        if purpose == Purpose::Write {
            self.last_write = Some(now);
        }
    }

    /// Records what an answer says.
    pub fn told(&mut self, told: &Told, now: Timestamp) {
        let bucket = told.bucket.as_deref().unwrap_or("core");
        if let Some(left) = told.left {
            self.buckets.insert(bucket.to_owned(), left);
        }
        if told.limited {
            let doubled = SHORTEST_PAUSE.saturating_mul(1 << self.refusals.min(4)).min(LONGEST_PAUSE);
            self.refusals = self.refusals.saturating_add(1);
            let spent = told.left.filter(|left| left.remaining == 0 && left.reset > now);
            let until = match (told.retry_after, spent) {
                (Some(wait), _) => now.plus(wait.max(doubled)),
                (None, Some(left)) => left.reset,
                (None, None) => now.plus(doubled),
            };
            self.paused_until = self.paused_until.max(Some(until));
        } else if told.away {
            let pause = usize::try_from(self.silences).unwrap_or(usize::MAX).min(AWAY_PAUSES.len() - 1);
            self.silences = self.silences.saturating_add(1);
            self.paused_until = Some(now.plus(AWAY_PAUSES[pause]));
        } else {
            self.refusals = 0;
            self.silences = 0;
            self.paused_until = None;
        }
    }

    /// What is left of each kind of requests.
    pub fn left(&self) -> &BTreeMap<String, Left> {
        &self.buckets
    }

    /// How often in a row the forge did not answer. It is reported from the third time on.
    pub fn silences(&self) -> u32 {
        self.silences
    }

    /// Until when nothing is asked.
    pub fn paused_until(&self) -> Option<Timestamp> {
        self.paused_until
    }
}

/// What is awaited of one pull request, for the pause between looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// When its head was pushed.
    pub pushed_at: Timestamp,
    /// Since when only a person is awaited: a review, or a merge.
    pub only_person_since: Option<Timestamp>,
}

/// The pause before the next look at all of these; `None` if nothing waits, so that nothing is asked.
pub fn look_every(awaited: &[Awaited], every: Duration, now: Timestamp) -> Option<Duration> {
    let pause = |one: &Awaited| {
        let patient = one.only_person_since.is_some_and(|since| now.since(since) >= ONLY_REVIEW);
        if now.since(one.pushed_at) < AFTER_PUSH {
            every / 2
        } else if patient {
            every.max(SLOW_LOOK)
        } else {
            every
        }
    };
    awaited.iter().map(pause).min()
}
