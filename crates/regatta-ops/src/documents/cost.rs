//! What `cost --json` has.

use regatta_core::budget::Account;
use regatta_store::Spending;
use serde::Serialize;

/// What attempts have used, and what is left.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostDocument {
    /// `task`, `agent`, `model` or `day`.
    pub by: &'static str,
    /// The first day that counts.
    pub since: Option<String>,
    /// The plan that counts.
    pub plan: Option<String>,
    /// One for each of them.
    pub rows: Vec<CostRow>,
    /// All together.
    pub total: CostRow,
    /// Budgets, with what was spent under each.
    pub budgets: Vec<BudgetDocument>,
}

/// What some attempts have used.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CostRow {
    /// The task, the agent, the model or the day; nothing where the model is unknown, and for the total.
    pub key: Option<String>,
    /// How many attempts.
    pub attempts: u64,
    /// Tokens read.
    pub tokens_in: u64,
    /// Tokens written.
    pub tokens_out: u64,
    /// Dollars, as far as they are known.
    pub cost_usd: f64,
    /// Attempts that used tokens whose price nobody knows: `cost_usd` is without them.
    pub unpriced: u64,
    /// Attempts whose dollars are reckoned by `models.prices`.
    pub priced: u64,
}

/// A budget, and how much of it is left.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BudgetDocument {
    /// `today`, `plan night`, `task a`.
    pub scope: String,
    /// Dollars that may be spent.
    pub usd: Option<f64>,
    /// Tokens that may be used.
    pub tokens: Option<u64>,
    /// Dollars that were spent.
    pub spent_usd: f64,
    /// Tokens that were used.
    pub spent_tokens: u64,
    /// Dollars that are left.
    pub left_usd: Option<f64>,
    /// Tokens that are left.
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
