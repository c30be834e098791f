//! Totals of what attempts have used.

use regatta_core::budget::Spent;
use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;

/// How totals are grouped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpendBy {
    /// Not grouped: one row, even without any attempt.
    #[default]
    All,
    /// By the task.
    Task,
    /// By the agent's entry in `agents:`.
    Agent,
    /// By the model, as reported by the agent, else as requested; the key may be empty.
    Model,
    /// By the plan; attempts without one are left out.
    Plan,
    /// By the quarter of an hour since the epoch in which it ended, or started if it has not ended. Midnight in every
    /// time zone is the start of one.
    Quarter,
}

/// Milliseconds of a quarter of an hour.
pub const QUARTER: i64 = 15 * 60 * 1000;

/// Which attempts to add up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpendQuery {
    /// How to group them.
    pub by: SpendBy,
    /// Only attempts that ended, or started if they have not ended, at that time or later.
    pub since: Option<Timestamp>,
    /// Only attempts of this plan.
    pub plan: Option<String>,
    /// Only attempts of tasks in this queue.
    pub queue: Option<String>,
    /// Only attempts of these tasks.
    pub tasks: Option<Vec<TaskId>>,
    /// Only attempts since their task was last queued again ([`IfPresent::Restart`](crate::IfPresent::Restart)).
    pub since_restart: bool,
    /// Excludes these attempts.
    pub except: Vec<(TaskId, u32)>,
}

/// What some attempts have used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spending {
    /// The task, the agent, the model, the plan or the number of the quarter; empty for all.
    pub key: String,
    /// How many attempts.
    pub attempts: u64,
    /// Dollars, as far as known.
    pub usd: f64,
    /// Attempts that used tokens and whose dollars are unknown.
    pub unpriced: u64,
    /// Attempts whose dollars were calculated from their tokens.
    pub priced: u64,
    /// Tokens read.
    pub tokens_in: u64,
    /// Tokens written.
    pub tokens_out: u64,
}

impl Spending {
    /// The amount that counts against budgets.
    pub fn spent(&self) -> Spent {
        Spent { usd: self.usd, tokens: self.tokens_in.saturating_add(self.tokens_out) }
    }
}
