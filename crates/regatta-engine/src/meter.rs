//! What the agent of one attempt has used so far, shared by the worker that observes it and the engine that adds it up.
//!
//! Nothing here outlives the process: the agent's log contains it all, and an engine that adopts the agent reads that
//! from its beginning.

use std::sync::{Arc, Mutex, PoisonError};

use regatta_core::budget::{Account, Spent};
use regatta_core::config::Models;
use regatta_core::state::{BlockReason, ParkReason};
use regatta_core::time::Timestamp;
use regatta_store::Outcome;
use tokio::sync::{Notify, watch};

/// Why an agent is stopped for its budget, and what happens to its task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Halt {
    /// The reason in words, with what to do.
    pub(crate) detail: String,
    /// When the budget lifts by itself.
    pub(crate) until: Option<Timestamp>,
}

impl Halt {
    /// The halt for an account whose ceiling was reached.
    pub(crate) fn of(account: &Account) -> Self {
        let (scope, raise) = (&account.scope, account.how_to_raise());
        let detail = format!("the budget of {scope} is spent: {}; {raise}", account.figures());
        Self { detail, until: account.until() }
    }

    /// The outcome: park if waiting helps, otherwise block for a user.
    pub(crate) fn outcome(self) -> Outcome {
        match self.until {
            Some(until) => Outcome::Park { until, why: ParkReason::Budget, detail: self.detail },
            None => Outcome::Block { reason: BlockReason::Budget, detail: self.detail },
        }
    }
}

/// What an attempt may cost when it starts: the rest of its tightest budget.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Allowance {
    /// Dollars.
    pub(crate) usd: f64,
    /// That budget at the time.
    account: Account,
}

impl Allowance {
    /// The rest of `account`, if dollars are limited.
    pub(crate) fn of(account: &Account) -> Option<Self> {
        Some(Self { usd: account.usd_left()?, account: account.clone() })
    }

    /// The halt when they are spent and this attempt has used this much.
    pub(crate) fn halt(&self, used: Spent) -> Halt {
        Halt::of(&Account { spent: self.account.spent + used, ..self.account.clone() })
    }
}

/// Shared by one worker and its engine.
pub(crate) struct Meter {
    used: Mutex<Spent>,
    halt: watch::Sender<Option<Halt>>,
    ticked: Arc<Notify>,
    /// What it may cost, if dollars are limited.
    pub(crate) allowance: Option<Allowance>,
}

impl Meter {
    /// `ticked` is notified whenever something was used.
    pub(crate) fn new(ticked: Arc<Notify>, allowance: Option<Allowance>) -> Arc<Self> {
        Arc::new(Self { used: Mutex::default(), halt: watch::channel(None).0, ticked, allowance })
    }

    /// Sets the usage so far.
    pub(crate) fn set(&self, used: Spent) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = used;
        self.ticked.notify_one();
    }

    pub(crate) fn used(&self) -> Spent {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the worker to stop its agent; the first reason counts. An agent that has ended by then is judged as usual.
    pub(crate) fn stop(&self, halt: Halt) {
        self.halt.send_if_modified(|asked| {
            let is_new = asked.is_none();
            asked.get_or_insert(halt);
            is_new
        });
    }

    /// Why the agent is to be stopped, if so.
    pub(crate) fn halted(&self) -> Option<Halt> {
        self.halt.borrow().clone()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Option<Halt>> {
        self.halt.subscribe()
    }
}

/// Dollars by `models.prices`, under the model's name as reported or as requested.
pub(crate) fn priced(models: &Models, names: [Option<&str>; 2], used: Tokens) -> Option<f64> {
    let price = names.into_iter().flatten().find_map(|name| models.prices.get(name))?;
    (used.sum() > 0).then(|| price.of(used.read, used.cached, used.written))
}

/// Tokens of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub(crate) read: u64,
    /// The part of `read` that came from a cache.
    pub(crate) cached: u64,
    pub(crate) written: u64,
}

impl Tokens {
    /// Read and written together.
    pub(crate) fn sum(self) -> u64 {
        self.read.saturating_add(self.written)
    }

    /// The tokens beyond those of `before`.
    pub(crate) fn beyond(self, before: Self) -> Self {
        Self {
            read: self.read.saturating_sub(before.read),
            cached: self.cached.saturating_sub(before.cached),
            written: self.written.saturating_sub(before.written),
        }
    }
}
