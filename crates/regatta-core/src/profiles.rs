//! Accounts and their limits: which profile an attempt runs with now, or until when it waits.
//!
//! Invariants: a profile whose quota is spent, or that was set aside, is never chosen; a conversation stays with the
//! profile that holds it for as long as that one may be used; the same facts always give the same answer.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::TaskId;
use crate::time::Timestamp;

/// The longest that a task waits beyond the end of a limit, so that not all who wait for it start in one instant.
const LONGEST_SPREAD: Duration = Duration::from_secs(30);

/// The longest that an agent's word about the end of a limit is believed: a week, and a day for clocks and time zones.
pub const FARTHEST_RESET: Duration = Duration::from_secs(8 * 86_400);
/// When a limit is tried again whose end was said to be later than that.
const PROBE: Duration = Duration::from_secs(86_400);

/// The end of a limit as far as an agent's word for it is believed; with what to say of it where it is not.
pub fn believed(stated: Timestamp, now: Timestamp) -> (Timestamp, Option<String>) {
    if stated <= now.plus(FARTHEST_RESET) {
        return (stated, None);
    }
    let until = now.plus(PROBE);
    let why = format!(
        "the agent says that the limit ends at {stated}, and no such word is believed for more than 8 days: tried again at {until}"
    );
    (until, Some(why))
}

/// One limit that a profile has come near to, or up against.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cooling {
    /// Which limit: `five_hour`, `quota`, `account`. News about the same limit takes the place of the old.
    pub limit: String,
    /// What follows from it.
    #[serde(flatten)]
    pub state: Limited,
    /// In the agent's words.
    pub why: String,
    /// When that was heard.
    pub since: Timestamp,
}

/// What a limit does to a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Limited {
    /// Nearly spent: others are preferred until then.
    Strained {
        /// When the quota is whole again.
        until: Timestamp,
    },
    /// Spent: not used until then.
    Spent {
        /// When the quota is whole again.
        until: Timestamp,
    },
    /// Refused by its provider: not used until a person says so.
    SetAside,
}

/// A profile as it stands with one kind of agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Its name.
    pub profile: String,
    /// Grows with every use of any profile: the lowest was used longest ago.
    pub turn: u64,
    /// What it has run into.
    pub coolings: Vec<Cooling>,
}

/// Whether a profile may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness<'a> {
    /// Yes.
    Ready,
    /// Yes, but rather another.
    Strained(&'a Cooling, Timestamp),
    /// Not before then.
    Cooling(&'a Cooling, Timestamp),
    /// Not before a person says so.
    SetAside(&'a Cooling),
}

impl Standing {
    /// A profile about which nothing is known.
    pub fn fresh(profile: &str) -> Self {
        Self { profile: profile.to_owned(), ..Self::default() }
    }

    /// Whether it may be used at `now`.
    pub fn readiness(&self, now: Timestamp) -> Readiness<'_> {
        self.seen(now, |until, _| until)
    }

    /// The same for one task, which comes back a little after the limit ended.
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
    /// No profile is for it: it runs with the agent's own settings.
    Unbound,
    /// This one.
    Use(String),
    /// All of them cool down.
    Wait {
        /// The first that comes back.
        profile: String,
        /// When this task may use it.
        until: Timestamp,
        /// What it has run into.
        why: String,
    },
    /// None will come back by itself.
    SetAside {
        /// The one that was set aside last.
        profile: String,
        /// Why.
        why: String,
    },
}

/// Chooses among the profiles that are for the task's agent, in the user's order. `holder` is the one that holds its
/// conversation, if it has begun one.
pub fn choose(standings: &[Standing], task: &TaskId, holder: Option<&str>, now: Timestamp) -> Choice {
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

/// How long after the end of a limit a task comes back: its own share of a tenth of the wait, and never more than half
/// a minute.
pub fn spread(task: &TaskId, wait: Duration) -> Duration {
    (wait / 10).min(LONGEST_SPREAD).mul_f64(share(task))
}

/// A number from 0 up to 1 that is a task's own: always the same for one, and evenly spread over many.
fn share(task: &TaskId) -> f64 {
    let hash = task.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // Names that differ in their last letter only differ in the low bits: they are stirred once more.
    let stirred = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    f64::from(u32::try_from(stirred >> 32).unwrap_or(u32::MAX)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests;
