//! The document of `cost --json`.

use regatta_core::budget::Account;
use regatta_store::Spending;
use serde::Serialize;

/// What attempts have used, and what is left.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostDocument {
    /// `task`, `agent`, `model` or `day`.
    pub by: &'static str,
    /// The first day that is included.
    pub since: Option<String>,
    /// The only plan that is included.
    pub plan: Option<String>,
    /// One row for each.
    pub rows: Vec<CostRow>,
    /// The sum of all rows.
    pub total: CostRow,
    /// Budgets, and what was spent of each.
    pub budgets: Vec<BudgetDocument>,
}

/// What some attempts have used.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CostRow {
    /// The task, the agent, the model or the day; `null` for an unknown model and for the total.
    pub key: Option<String>,
    /// The number of attempts.
    pub attempts: u64,
    /// Tokens read.
    pub tokens_in: u64,
    /// Tokens written.
    pub tokens_out: u64,
    /// Cost in dollars, as far as known.
    pub cost_usd: f64,
    /// Attempts with tokens of unknown price, which `cost_usd` leaves out.
    pub unpriced: u64,
    /// Attempts whose cost was computed with `models.prices`.
    pub priced: u64,
}

/// A budget, and how much of it is left.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BudgetDocument {
    /// Such as `today`, `plan night`, `task a`.
    pub scope: String,
    /// Dollars that may be spent.
    pub usd: Option<f64>,
    /// Tokens that may be used.
    pub tokens: Option<u64>,
    /// Dollars spent.
    pub spent_usd: f64,
    /// Tokens used.
    pub spent_tokens: u64,
    /// Dollars left.
    pub left_usd: Option<f64>,
    /// Tokens left.
    pub left_tokens: Option<u64>,
}

impl From<&Spending> for CostRow {
    fn from(sum: &Spending) -> Self {
        Self {
            key: Some(sum.key.clone()).filter(|key| !key.is_empty()),
            attempts: sum.attempts,
            tokens_in: sum.tokens_in,
            tokens_out: sum.tokens_out,
            cost_usd: sum.usd,
            unpriced: sum.unpriced,
            priced: sum.priced,
        }
    }
}

impl CostRow {
    /// Adds what `other` used.
    pub fn add(&mut self, other: &CostRow) {
        self.attempts += other.attempts;
        self.tokens_in = self.tokens_in.saturating_add(other.tokens_in);
        self.tokens_out = self.tokens_out.saturating_add(other.tokens_out);
        self.cost_usd += other.cost_usd;
        self.unpriced += other.unpriced;
        self.priced += other.priced;
    }
}

impl From<&Account> for BudgetDocument {
    fn from(account: &Account) -> Self {
        Self {
            scope: account.scope.to_string(),
            usd: account.ceiling.usd,
            tokens: account.ceiling.tokens,
            spent_usd: account.spent.usd,
            spent_tokens: account.spent.tokens,
            left_usd: account.usd_left(),
            left_tokens: account.ceiling.tokens.map(|limit| limit.saturating_sub(account.spent.tokens)),
        }
    }
}
