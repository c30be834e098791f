//! Accounts and their limits: which profile an attempt uses now, or until when it waits.
//!
//! Invariants: a profile that is set aside or whose quota is spent is never chosen; a conversation stays with the
//! profile that holds it for as long as that profile may be used; the same facts always give the same answer.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::TaskId;
use crate::time::Timestamp;

/// The longest a task waits beyond the end of a limit, so that not all waiting tasks start at the same instant.
const LONGEST_SPREAD: Duration = Duration::from_secs(30);

/// The latest reset time that is accepted from an agent: a week, and a day for clocks and time zones.
pub const FARTHEST_RESET: Duration = Duration::from_secs(8 * 86_400);
/// When to try again a limit whose stated end is later than that.
const PROBE: Duration = Duration::from_secs(86_400);

/// The accepted end of a limit; with a remark if the stated end was not accepted.
pub fn believed(stated: Timestamp, now: Timestamp) -> (Timestamp, Option<String>) {
    if stated <= now.plus(FARTHEST_RESET) {
        return (stated, None);
    }
    let until = now.plus(PROBE);
    let why = format!(
        "the agent says that the limit ends at {stated}, more than 8 days from now; Regatta tries again at {until}"
    );
    (until, Some(why))
}

/// One limit that a profile has reached or come close to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cooling {
    /// The limit: `five_hour`, `quota`, `account`. A newer record of the same limit replaces the older one.
    pub limit: String,
    /// What follows from it.
    #[serde(flatten)]
    pub state: Limited,
    /// The agent's own words.
    pub why: String,
    /// When this was reported.
    pub since: Timestamp,
}

/// What a limit does to a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Limited {
    /// Nearly spent: other profiles are preferred until then.
    Strained {
        /// When the quota is reset.
        until: Timestamp,
    },
    /// Spent: not used until then.
    Spent {
        /// When the quota is reset.
        until: Timestamp,
    },
    /// Refused by its provider: not used until a user re-enables it.
    SetAside,
}

/// The state of a profile for one kind of agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountStanding {
    /// Its name.
    pub profile: String,
    /// Grows with every use of any profile: the lowest was used least recently.
    pub turn: u64,
    /// The limits it has reached.
    pub coolings: Vec<Cooling>,
}

/// Whether a profile may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness<'a> {
    /// Yes.
    Ready,
    /// Yes, but others are preferred.
    Strained(&'a Cooling, Timestamp),
    /// Not before the given time.
    Cooling(&'a Cooling, Timestamp),
    /// Not before a user re-enables it.
    SetAside(&'a Cooling),
}

impl AccountStanding {
    /// A profile without any records.
    pub fn fresh(profile: &str) -> Self {
        Self { profile: profile.to_owned(), ..Self::default() }
    }

    /// Whether it may be used at `now`.
    pub fn readiness(&self, now: Timestamp) -> Readiness<'_> {
        self.seen(now, |until, _| until)
    }

    /// The same for one task, which waits a little beyond the end of the limit.
    fn readiness_for(&self, task: &TaskId, now: Timestamp) -> Readiness<'_> {
        self.seen(now, |until, since| until.plus(spread(task, until.since(since))))
    }

    fn seen(&self, now: Timestamp, end: impl Fn(Timestamp, Timestamp) -> Timestamp) -> Readiness<'_> {
        let mut spent: Option<(&Cooling, Timestamp)> = None;
        let mut strained = None;
        for cooling in &self.coolings {
            match cooling.state {
                Limited::SetAside => return Readiness::SetAside(cooling),
                Limited::Spent { until } => {
                    let until = end(until, cooling.since);
                    if until > now && spent.is_none_or(|(_, last)| until > last) {
                        spent = Some((cooling, until));
                    }
                }
                Limited::Strained { until } if until > now => strained = Some((cooling, until)),
                Limited::Strained { .. } => {}
            }
        }
        match (spent, strained) {
            (Some((cooling, until)), _) => Readiness::Cooling(cooling, until),
            (None, Some((cooling, until))) => Readiness::Strained(cooling, until),
            (None, None) => Readiness::Ready,
        }
    }
}

/// What to run a task's next attempt with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Choice {
    /// No profile applies: it runs with the agent's own settings.
    Unbound,
    /// This profile.
    Use(String),
    /// All profiles are cooling.
    Wait {
        /// The first to become available.
        profile: String,
        /// When this task may use it.
        until: Timestamp,
        /// The limit it has reached.
        why: String,
    },
    /// No profile becomes available by itself.
    SetAside {
        /// The one that was set aside last.
        profile: String,
        /// The reason.
        why: String,
    },
}

/// Chooses among the profiles for the task's agent, in the user's order. `holder` is the profile that holds its
/// conversation, if it has one.
pub fn choose(standings: &[AccountStanding], task: &TaskId, holder: Option<&str>, now: Timestamp) -> Choice {
    let mut best: Option<((bool, u64, usize), &str)> = None;
    let mut first: Option<(Timestamp, &str, &str)> = None;
    let mut aside: Option<(Timestamp, &str, &str)> = None;
    for (at, standing) in standings.iter().enumerate() {
        let profile = standing.profile.as_str();
        let strained = match standing.readiness_for(task, now) {
            Readiness::Ready => false,
            Readiness::Strained(..) => true,
            Readiness::Cooling(cooling, until) => {
                if first.is_none_or(|(earliest, ..)| until < earliest) {
                    first = Some((until, profile, &cooling.why));
                }
                continue;
            }
            Readiness::SetAside(cooling) => {
                if aside.is_none_or(|(last, ..)| cooling.since > last) {
                    aside = Some((cooling.since, profile, &cooling.why));
                }
                continue;
            }
        };
        if holder == Some(profile) {
            return Choice::Use(profile.to_owned());
        }
        let rank = (strained, standing.turn, at);
        if best.is_none_or(|(other, _)| rank < other) {
            best = Some((rank, profile));
        }
    }
    match (best, first, aside) {
        (Some((_, profile)), ..) => Choice::Use(profile.to_owned()),
        (None, Some((until, profile, why)), _) => {
            Choice::Wait { profile: profile.to_owned(), until, why: why.to_owned() }
        }
        (None, None, Some((_, profile, why))) => {
            Choice::SetAside { profile: profile.to_owned(), why: why.to_owned() }
        }
        (None, None, None) => Choice::Unbound,
    }
}

/// How long after the end of a limit a task starts again: its own share of a tenth of the wait, at most half a minute.
pub fn spread(task: &TaskId, wait: Duration) -> Duration {
    (wait / 10).min(LONGEST_SPREAD).mul_f64(share(task))
}

/// A number from 0 to below 1 for a task: always the same for one task, and evenly distributed over many.
fn share(task: &TaskId) -> f64 {
    let hash = task.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // Names that differ only in their last letter differ only in the low bits, so the hash is mixed once more.
    let stirred = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    f64::from(u32::try_from(stirred >> 32).unwrap_or(u32::MAX)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests;
