//! What may be spent, what was, and what follows: a function of sums and ceilings.
//!
//! Invariants: nothing starts in a scope whose ceiling is reached, and whoever runs past `stop_at` of it is stopped.
//! More spent never means more freedom.

use std::fmt;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

use crate::id::TaskId;
use crate::time::Timestamp;

/// Sums of dollars are compared up to this: ten times ten cents are a dollar.
const EPSILON: f64 = 1e-9;

/// No attempt uses more tokens than this, whatever its agent claims.
pub const MOST_TOKENS: u64 = 1_000_000_000_000;
/// No attempt costs more dollars than this.
const MOST_USD: f64 = 1000.0;
/// No model costs more dollars per token than this.
const DEAREST_TOKEN: f64 = 0.001;
/// What an attempt may cost whatever it counted: searches, pictures, tokens that the agent does not tell.
const UNCOUNTED_USD: f64 = 100.0;

/// Whether an attempt that used so many tokens can have cost so many dollars.
#[expect(clippy::cast_precision_loss, reason = "an estimate of money")]
pub fn is_plausible_usd(usd: f64, tokens: u64) -> bool {
    let most = (UNCOUNTED_USD + tokens as f64 * DEAREST_TOKEN).min(MOST_USD);
    usd.is_finite() && (0.0..=most).contains(&usd)
}

/// What may be spent; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Dollars.
    #[serde(default)]
    pub usd: Option<f64>,
    /// Tokens, read and written together.
    #[serde(default)]
    pub tokens: Option<u64>,
}

impl Ceiling {
    /// Whether it limits nothing.
    pub fn is_open(&self) -> bool {
        self.usd.is_none() && self.tokens.is_none()
    }

    /// What this one says, and where it says nothing, what `other` does.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { usd: self.usd.or(other.usd), tokens: self.tokens.or(other.tokens) }
    }

    /// The lower of the two in dollars.
    #[must_use]
    pub fn at_most_usd(self, usd: Option<f64>) -> Self {
        Self { usd: self.usd.into_iter().chain(usd).reduce(f64::min), ..self }
    }
}

/// What was spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// Dollars, as far as they are known.
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

/// What a ceiling is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One task, since it was put into the queue.
    Task(TaskId),
    /// All tasks of a plan, since they were put into the queue.
    Plan(String),
    /// All tasks of a run.
    Run,
    /// Everything that ends on one day of the machine's calendar.
    Day {
        /// When the next one begins.
        until: Timestamp,
    },
}

impl Scope {
    /// Where to raise it. `named_in` is the place of a task that names its own ceiling.
    pub fn how_to_raise(&self, named_in: Option<&str>) -> String {
        match self {
            Scope::Task(task) => match named_in {
                Some("") => {
                    format!("put {task} into the queue again with a higher `budget_usd` or `budget_tokens`")
                }
                Some(place) => format!(
                    "raise `budget_usd` or `budget_tokens` of {task} in {place}, then put it into the queue again"
                ),
                None => format!("raise `budget.task` in regatta.yaml, then `regatta retry {task}`"),
            },
            Scope::Plan(_) => "raise `budget.plan` in regatta.yaml, then `regatta retry`".to_owned(),
            Scope::Run => "go on with `regatta run --resume` and a higher `--budget-usd`".to_owned(),
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

/// From which share of a ceiling on something is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Shares {
    /// It is told.
    pub warn_at: f64,
    /// Agents at work are stopped. Between one and this, nothing new starts and what runs goes on.
    pub stop_at: f64,
}

impl Default for Shares {
    fn default() -> Self {
        Self { warn_at: 0.8, stop_at: 1.1 }
    }
}

/// How a sum stands to its ceiling; later is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// All is well.
    Go,
    /// Close to it: people are told.
    Warn,
    /// Reached: nothing new starts.
    Hold,
    /// Well past it: agents at work are stopped.
    Stop,
}

/// One ceiling, with what was spent under it.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// What it is over.
    pub scope: Scope,
    /// What may be spent.
    pub ceiling: Ceiling,
    /// What was.
    pub spent: Spent,
    /// Where the task itself names the ceiling that decides; empty where its place is not known.
    pub named_in: Option<String>,
}

impl Account {
    /// The account of a scope; `named_in` is for tasks that name their own ceiling.
    pub fn new(scope: Scope, ceiling: Ceiling, spent: Spent) -> Self {
        Self { scope, ceiling, spent, named_in: None }
    }

    /// The same, of a task whose order, found at `place`, names the ceiling `own`.
    #[must_use]
    pub fn ordered(mut self, own: Ceiling, place: &str) -> Self {
        let share = self.share();
        let of_own = Self { ceiling: own, ..self.clone() }.share();
        self.named_in = (of_own.is_some() && of_own == share).then(|| place.to_owned());
        self
    }

    /// Where to raise it.
    pub fn how_to_raise(&self) -> String {
        self.scope.how_to_raise(self.named_in.as_deref())
    }

    /// How it stands: the worse of dollars and tokens.
    pub fn standing(&self, shares: &Shares) -> Standing {
        let share = self.share();
        let past = |line: f64| share.is_some_and(|share| share + EPSILON >= line);
        match () {
            () if past(shares.stop_at) => Standing::Stop,
            () if past(1.0) => Standing::Hold,
            () if past(shares.warn_at) => Standing::Warn,
            () => Standing::Go,
        }
    }

    /// How much of it is spent: one is all. `None` where nothing is limited.
    pub fn share(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a share of a budget")]
        let tokens = self.ceiling.tokens.map(|limit| share(self.spent.tokens as f64, limit as f64));
        let usd = self.ceiling.usd.map(|limit| share(self.spent.usd, limit));
        usd.into_iter().chain(tokens).reduce(f64::max)
    }

    /// Dollars that are left, where dollars are limited.
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

/// Of something whose ceiling is zero, all is spent.
fn share(spent: f64, limit: f64) -> f64 {
    if limit > 0.0 { spent / limit } else { f64::INFINITY }
}

/// Dollars as people read them: cents, or more digits where there are only fractions of one.
pub fn dollars(usd: f64) -> String {
    // A sum of nothing is minus zero.
    let usd = if usd.abs() < 5e-5 { 0.0 } else { usd };
    if usd > 0.0 && usd < 0.1 { format!("${usd:.4}") } else { format!("${usd:.2}") }
}

/// The account that decides for a task under all of `accounts`: the worst, and of equals one that does not lift by
/// itself, since waiting would not help.
pub fn decisive<'a>(
    accounts: impl IntoIterator<Item = &'a Account>,
    shares: &Shares,
) -> Option<(Standing, &'a Account)> {
    let stand = |account: &'a Account| (account.standing(shares), account);
    accounts.into_iter().map(stand).max_by_key(|(standing, account)| (*standing, account.until().is_none()))
}

/// What tokens of a model cost, per million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// Dollars for a million tokens read.
    pub input: f64,
    /// Dollars for a million tokens written.
    pub output: f64,
    /// Dollars for a million tokens read from a cache; as those read otherwise where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<f64>,
}

impl Price {
    /// What so many tokens cost; `cached` of those read came from a cache.
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
