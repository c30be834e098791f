//! The rules of the store: what each write call means, once for all backends.
//!
//! A rule is a pure function. It reads records through a [`Draft`], edits the draft, and returns the call's answer; the
//! draft becomes a [`Plan`](plan::Plan): all of it is written, or nothing. A backend only reads records and commits
//! plans. It may read inside the transaction that commits (SQLite), or read first and commit later, if nothing that the
//! plan rests on has changed meanwhile (a store over a network).
//!
//! Rules of the rules:
//!
//! * Everything a decision rests on is in the plan's checks or writes, with the version that was read.
//! * **Every set has a guard** ([`SetKey::guard`](record::SetKey::guard)): a plan that adds a member to the set writes
//!   the guard, so that its version moves, and a plan that relies on the set has the guard in its checks. Removing
//!   needs no guard: a plan that relies on the removed member has that member itself in its checks or writes, unless
//!   the decision is as right without it.
//! * Every plan that writes something of a task (an attempt, a prompt, a car) writes the task's record too, so that the
//!   version of the task guards all of it. A report of an agent is the exception: it only checks the task.
//! * [`Draft::change`] is the only function that changes a state: it asks `regatta_core::state::apply`, appends the
//!   event, and updates the dependents.
//! * A rule that lacks a record halts with [`Halt::Need`], and is run again from its start when the record was read. A
//!   [`Call`] names its usual reads beforehand, so that it normally runs once.

pub(crate) mod admission;
pub(crate) mod claims;
pub(crate) mod context;
pub(crate) mod cycle;
pub(crate) mod dependents;
pub(crate) mod documents;
pub(crate) mod draft;
pub(crate) mod enqueue;
pub(crate) mod era;
pub(crate) mod events;
#[cfg(any(test, feature = "postgres", feature = "zookeeper"))]
pub(crate) mod ledger;
pub(crate) mod members;
pub(crate) mod messages;
pub(crate) mod plan;
pub(crate) mod profiles;
pub(crate) mod prompts;
pub(crate) mod queue;
pub(crate) mod record;
pub(crate) mod reports;
pub(crate) mod sessions;
pub(crate) mod train;
pub(crate) mod view;

use regatta_core::time::Timestamp;

pub(crate) use draft::Draft;
use plan::Plan;
use record::Want;
use view::{Known, Source, View};

use crate::{Result, StoreError};

/// The result of a rule, or of a part of one.
pub(crate) type Rule<T> = std::result::Result<T, Halt>;

/// Why a rule has stopped.
#[derive(Debug)]
pub(crate) enum Halt {
    /// It needs these records first.
    Need(Vec<Want>),
    /// It refuses the call, and nothing is written.
    Refuse(StoreError),
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Halt::Refuse(error)
    }
}

/// A write call: a rule with its arguments.
pub(crate) struct Call<'a, T> {
    at: Timestamp,
    wants: Box<dyn Fn() -> Vec<Want> + Send + Sync + 'a>,
    rule: BoxedRule<'a, T>,
}

type BoxedRule<'a, T> = Box<dyn Fn(&mut Draft<'_>) -> Rule<T> + Send + Sync + 'a>;

impl<'a, T> Call<'a, T> {
    /// A call at a time. `wants` names what its rule usually reads.
    pub(crate) fn new(
        at: Timestamp,
        wants: impl Fn() -> Vec<Want> + Send + Sync + 'a,
        rule: impl Fn(&mut Draft<'_>) -> Rule<T> + Send + Sync + 'a,
    ) -> Self {
        Self { at, wants: Box::new(wants), rule: Box::new(rule) }
    }

    /// A call that records no time.
    pub(crate) fn timeless(
        wants: impl Fn() -> Vec<Want> + Send + Sync + 'a,
        rule: impl Fn(&mut Draft<'_>) -> Rule<T> + Send + Sync + 'a,
    ) -> Self {
        Self::new(Timestamp::from_millis(0), wants, rule)
    }

    /// What its rule usually reads.
    pub(crate) fn wants(&self) -> Vec<Want> {
        (self.wants)()
    }

    /// Runs the rule once; what is missing is read at once.
    pub(crate) fn run_over(&self, source: &dyn Source) -> Result<(Plan, T)> {
        let mut draft = Draft::new(self.at, View::over(source));
        match (self.rule)(&mut draft) {
            Ok(answer) => Ok((draft.plan(), answer)),
            Err(Halt::Refuse(error)) => Err(error),
            Err(Halt::Need(wants)) => {
                Err(StoreError::Corrupt(format!("a rule still needs {wants:?} after it was read")))
            }
        }
    }

    /// Runs the rule on what was read; it may need more.
    pub(crate) fn run_on(&self, known: Known) -> Result<Run<T>> {
        let mut draft = Draft::new(self.at, View::of(known));
        match (self.rule)(&mut draft) {
            Ok(answer) => Ok(Run::Planned(draft.plan(), answer)),
            Err(Halt::Refuse(error)) => Err(error),
            Err(Halt::Need(wants)) => Ok(Run::Halted(draft.view.into_known(), wants)),
        }
    }
}

/// How a run of a rule has ended.
pub(crate) enum Run<T> {
    /// With a plan and the call's answer.
    Planned(Plan, T),
    /// It needs more than what was read so far.
    Halted(Known, Vec<Want>),
}

#[cfg(test)]
mod tests;
