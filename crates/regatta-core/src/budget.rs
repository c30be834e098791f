//! What may be spent, what was spent, and what follows: a function of sums and ceilings.
//!
//! Invariants: nothing starts in a scope whose ceiling is reached, and agents that exceed `stop_at` of it are stopped.
//! Spending more never permits more.

use std::fmt;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

use crate::id::TaskId;
use crate::time::Timestamp;

/// Tolerance for comparing dollar sums, so that ten times ten cents equal a dollar.
const EPSILON: f64 = 1e-9;

/// Upper bound on the tokens of one attempt, whatever its agent claims.
pub const MOST_TOKENS: u64 = 1_000_000_000_000;
/// Upper bound on the dollars of one attempt.
const MOST_USD: f64 = 1000.0;
/// Upper bound on the dollars per token of any model.
const DEAREST_TOKEN: f64 = 0.001;
/// Dollars accepted beyond the counted tokens: searches, images, tokens that the agent does not report.
const UNCOUNTED_USD: f64 = 100.0;

/// Whether an attempt with this many tokens can have cost this many dollars.
#[expect(clippy::cast_precision_loss, reason = "an estimate of money")]
pub fn is_plausible_usd(usd: f64, tokens: u64) -> bool {
    let most = (UNCOUNTED_USD + tokens as f64 * DEAREST_TOKEN).min(MOST_USD);
    usd.is_finite() && (0.0..=most).contains(&usd)
}

/// What may be spent; `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Maximum in dollars.
    #[serde(default)]
    pub usd: Option<f64>,
    /// Maximum in tokens, read and written together.
    #[serde(default)]
    pub tokens: Option<u64>,
}

impl Ceiling {
    /// True if it sets no limit.
    pub fn is_open(&self) -> bool {
        self.usd.is_none() && self.tokens.is_none()
    }

    /// This ceiling, with missing limits taken from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { usd: self.usd.or(other.usd), tokens: self.tokens.or(other.tokens) }
    }

    /// Lowers the dollar limit to `usd` if that is lower.
    #[must_use]
    pub fn at_most_usd(self, usd: Option<f64>) -> Self {
        Self { usd: self.usd.into_iter().chain(usd).reduce(f64::min), ..self }
    }
}

/// What was spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// Dollars, as far as known.
    pub usd: f64,
    /// Tokens, read and written together.
    pub tokens: u64,
}

impl Add for Spent {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { usd: self.usd + other.usd, tokens: self.tokens.saturating_add(other.tokens) }
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// What a ceiling applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One task, since it was queued.
    Task(TaskId),
    /// All tasks of a plan, since they were queued.
    Plan(String),
    /// All tasks of a run.
    Run,
    /// Everything that ends on one day of the machine's calendar.
    Day {
        /// When the next day begins.
        until: Timestamp,
    },
}

impl Scope {
    /// Where to raise the ceiling. `named_in` is the place of a task that sets its own.
    pub fn how_to_raise(&self, named_in: Option<&str>) -> String {
        match self {
            Scope::Task(task) => match named_in {
                Some("") => {
                    format!("queue {task} again with a higher `budget_usd` or `budget_tokens`")
                }
                Some(place) => {
                    format!("raise `budget_usd` or `budget_tokens` of {task} in {place}, then queue it again")
                }
                None => format!("raise `budget.task` in regatta.yaml, then `regatta retry {task}`"),
            },
            Scope::Plan(_) => "raise `budget.plan` in regatta.yaml, then `regatta retry`".to_owned(),
            Scope::Run => "continue with `regatta run --resume` and a higher `--budget-usd`".to_owned(),
            Scope::Day { .. } => "wait for the next day, or raise `budget.day` in regatta.yaml".to_owned(),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Task(task) => write!(f, "task {task}"),
            Scope::Plan(plan) => write!(f, "plan {plan}"),
            Scope::Run => f.write_str("this run"),
            Scope::Day { .. } => f.write_str("today"),
        }
    }
}

/// The shares of a ceiling at which Regatta warns and stops agents.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Shares {
    /// Warn from this share on.
    pub warn_at: f64,
    /// Stop running agents from this share on. Between 1 and this share, nothing new starts and running agents
    /// continue.
    pub stop_at: f64,
}

impl Default for Shares {
    fn default() -> Self {
        Self { warn_at: 0.8, stop_at: 1.1 }
    }
}

/// How a sum compares to its ceiling; later variants are worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BudgetStanding {
    /// Within the ceiling.
    Go,
    /// Close to the ceiling: users are warned.
    Warn,
    /// Ceiling reached: nothing new starts.
    Hold,
    /// `stop_at` exceeded: running agents are stopped.
    Stop,
}

/// One ceiling and what was spent under it.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// What the ceiling applies to.
    pub scope: Scope,
    /// What may be spent.
    pub ceiling: Ceiling,
    /// What was spent.
    pub spent: Spent,
    /// Where the task itself sets the ceiling that decides; empty if its place is unknown.
    pub named_in: Option<String>,
}

impl Account {
    /// The account of a scope whose ceiling comes from the settings.
    pub fn new(scope: Scope, ceiling: Ceiling, spent: Spent) -> Self {
        Self { scope, ceiling, spent, named_in: None }
    }

    /// The same for a task whose file, found at `place`, sets the ceiling `own`.
    #[must_use]
    pub fn ordered(mut self, own: Ceiling, place: &str) -> Self {
        let share = self.share();
        let of_own = Self { ceiling: own, ..self.clone() }.share();
        self.named_in = (of_own.is_some() && of_own == share).then(|| place.to_owned());
        self
    }

    /// Where to raise the ceiling.
    pub fn how_to_raise(&self) -> String {
        self.scope.how_to_raise(self.named_in.as_deref())
    }

    /// The worse standing of dollars and tokens.
    pub fn standing(&self, shares: &Shares) -> BudgetStanding {
        let share = self.share();
        let past = |line: f64| share.is_some_and(|share| share + EPSILON >= line);
        match () {
            () if past(shares.stop_at) => BudgetStanding::Stop,
            () if past(1.0) => BudgetStanding::Hold,
            () if past(shares.warn_at) => BudgetStanding::Warn,
            () => BudgetStanding::Go,
        }
    }

    /// The spent share of the ceiling; 1 is all of it. `None` without a limit.
    pub fn share(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a share of a budget")]
        let tokens = self.ceiling.tokens.map(|limit| share(self.spent.tokens as f64, limit as f64));
        let usd = self.ceiling.usd.map(|limit| share(self.spent.usd, limit));
        usd.into_iter().chain(tokens).reduce(f64::max)
    }

    /// The dollars left, if dollars are limited.
    pub fn usd_left(&self) -> Option<f64> {
        self.ceiling.usd.map(|limit| (limit - self.spent.usd).max(0.0))
    }

    /// `$4.20 of $5.00`, `900 of 1000 tokens`, or both.
    pub fn figures(&self) -> String {
        let usd = self.ceiling.usd.map(|limit| format!("{} of {}", dollars(self.spent.usd), dollars(limit)));
        let tokens = self.ceiling.tokens.map(|limit| format!("{} of {limit} tokens", self.spent.tokens));
        usd.into_iter().chain(tokens).collect::<Vec<_>>().join(", ")
    }

    /// When the ceiling lifts by itself.
    pub fn until(&self) -> Option<Timestamp> {
        match self.scope {
            Scope::Day { until } => Some(until),
            _ => None,
        }
    }
}

/// A ceiling of zero counts as fully spent.
fn share(spent: f64, limit: f64) -> f64 {
    if limit > 0.0 { spent / limit } else { f64::INFINITY }
}

/// Dollars for display: cents, or more digits for fractions of a cent.
pub fn dollars(usd: f64) -> String {
    // An empty sum is minus zero.
    let usd = if usd.abs() < 5e-5 { 0.0 } else { usd };
    if usd > 0.0 && usd < 0.1 { format!("${usd:.4}") } else { format!("${usd:.2}") }
}

/// The account that decides for a task among all of `accounts`: the worst one; of equals, one that does not lift by
/// itself, since waiting would not help.
pub fn decisive<'a>(
    accounts: impl IntoIterator<Item = &'a Account>,
    shares: &Shares,
) -> Option<(BudgetStanding, &'a Account)> {
    let stand = |account: &'a Account| (account.standing(shares), account);
    accounts.into_iter().map(stand).max_by_key(|(standing, account)| (*standing, account.until().is_none()))
}

/// Prices of a model, per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// Dollars for a million tokens read.
    pub input: f64,
    /// Dollars for a million tokens written.
    pub output: f64,
    /// Dollars for a million tokens read from a cache; defaults to `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<f64>,
}

impl Price {
    /// The price of these tokens; `cached` of those read came from a cache.
    #[expect(clippy::cast_precision_loss, reason = "an estimate of money")]
    pub fn of(&self, tokens_in: u64, cached: u64, tokens_out: u64) -> f64 {
        let cached = cached.min(tokens_in);
        let fresh = (tokens_in - cached) as f64 * self.input;
        let again = cached as f64 * self.cached_input.unwrap_or(self.input);
        (fresh + again + tokens_out as f64 * self.output) / 1e6
    }
}

#[cfg(test)]
mod tests;
