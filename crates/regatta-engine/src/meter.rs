//! What the agent of one attempt has used so far, between the worker that hears it and the engine that adds it up.
//!
//! Nothing here outlives the process: the log of the agent says it all again, and whoever adopts the agent reads that
//! from its beginning.

use std::sync::{Arc, Mutex, PoisonError};

use regatta_core::budget::{Account, Spent};
use regatta_core::config::Models;
use regatta_core::state::{BlockReason, ParkReason};
use regatta_core::time::Timestamp;
use regatta_store::Outcome;
use tokio::sync::{Notify, watch};

/// Why an agent is stopped for its budget, and what becomes of its task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Halt {
    /// In words, with what to do.
    pub(crate) detail: String,
    /// When the budget lifts by itself.
    pub(crate) until: Option<Timestamp>,
}

impl Halt {
    /// That of an account whose ceiling was reached.
    pub(crate) fn of(account: &Account) -> Self {
        let (scope, raise) = (&account.scope, account.how_to_raise());
        let detail = format!("the budget of {scope} is spent: {}; {raise}", account.figures());
        Self { detail, until: account.until() }
    }

    /// Waiting helps, or a person has to.
    pub(crate) fn outcome(self) -> Outcome {
        match self.until {
            Some(until) => Outcome::Park { until, why: ParkReason::Budget, detail: self.detail },
            None => Outcome::Block { reason: BlockReason::Budget, detail: self.detail },
        }
    }
}

/// What an attempt may cost when it starts: what is left of the tightest budget it is under.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Allowance {
    /// Dollars.
    pub(crate) usd: f64,
    /// That budget, as it was then.
    account: Account,
}

impl Allowance {
    /// What is left of `account`, where dollars are limited.
    pub(crate) fn of(account: &Account) -> Option<Self> {
        Some(Self { usd: account.usd_left()?, account: account.clone() })
    }

    /// What follows when they are gone and this attempt has used that much.
    pub(crate) fn halt(&self, used: Spent) -> Halt {
        Halt::of(&Account { spent: self.account.spent + used, ..self.account.clone() })
    }
}

/// Between one worker and its engine.
pub(crate) struct Meter {
    used: Mutex<Spent>,
    halt: watch::Sender<Option<Halt>>,
    ticked: Arc<Notify>,
    /// What it may cost, where dollars are limited.
    pub(crate) allowance: Option<Allowance>,
}

impl Meter {
    /// `ticked` is told whenever something was used.
    pub(crate) fn new(ticked: Arc<Notify>, allowance: Option<Allowance>) -> Arc<Self> {
        Arc::new(Self { used: Mutex::default(), halt: watch::channel(None).0, ticked, allowance })
    }

    /// So much was used by now.
    pub(crate) fn set(&self, used: Spent) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = used;
        self.ticked.notify_one();
    }

    pub(crate) fn used(&self) -> Spent {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the worker to stop its agent; the first reason stays. An agent that has ended by then is judged as ever.
    pub(crate) fn stop(&self, halt: Halt) {
        self.halt.send_if_modified(|asked| {
            let is_new = asked.is_none();
            asked.get_or_insert(halt);
            is_new
        });
    }

    /// Why the agent is to be stopped, if it is.
    pub(crate) fn halted(&self) -> Option<Halt> {
        self.halt.borrow().clone()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Option<Halt>> {
        self.halt.subscribe()
    }
}

/// Dollars by `models.prices`, under the name the agent gave its model or the one it was asked for by.
pub(crate) fn priced(models: &Models, names: [Option<&str>; 2], used: Tokens) -> Option<f64> {
    let price = names.into_iter().flatten().find_map(|name| models.prices.get(name))?;
    (used.sum() > 0).then(|| price.of(used.read, used.cached, used.written))
}

/// Tokens of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub(crate) read: u64,
    /// Those of `read` that came from a cache.
    pub(crate) cached: u64,
    pub(crate) written: u64,
}

impl Tokens {
    /// Read and written together.
    pub(crate) fn sum(self) -> u64 {
        self.read.saturating_add(self.written)
    }

    /// Those that are not among `before`.
    pub(crate) fn beyond(self, before: Self) -> Self {
        Self {
            read: self.read.saturating_sub(before.read),
            cached: self.cached.saturating_sub(before.cached),
            written: self.written.saturating_sub(before.written),
        }
    }
}
