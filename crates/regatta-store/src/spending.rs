//! What attempts have used, as the store adds it up.

use regatta_core::budget::Spent;
use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;

/// By what sums are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpendBy {
    /// By nothing: one row, also where there was no attempt.
    #[default]
    All,
    /// By the task.
    Task,
    /// By the entry of `agents:`.
    Agent,
    /// By the model, as the agent named it, else as it was asked for; the key may be empty.
    Model,
    /// By the plan; what belongs to none is left out.
    Plan,
    /// By the quarter of an hour since the epoch in which it ended, or was started where it has not. Every time zone's
    /// midnight is the beginning of one.
    Quarter,
}

/// Milliseconds of a quarter of an hour.
pub const QUARTER: i64 = 15 * 60 * 1000;

/// Which attempts to add up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpendQuery {
    /// By what.
    pub by: SpendBy,
    /// Only those that ended, or were started where they have not, at that time or later.
    pub since: Option<Timestamp>,
    /// Only of this plan.
    pub plan: Option<String>,
    /// Only of tasks in this queue.
    pub queue: Option<String>,
    /// Only of these tasks.
    pub tasks: Option<Vec<TaskId>>,
    /// Only since their task was last put into the queue anew ([`IfPresent::Restart`](crate::IfPresent::Restart)).
    pub anew: bool,
    /// Not these attempts.
    pub except: Vec<(TaskId, u32)>,
}

/// What some attempts have used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spending {
    /// The task, the agent, the model, the plan or the number of the quarter; empty for all.
    pub key: String,
    /// How many attempts.
    pub attempts: u64,
    /// Dollars, as far as they are known.
    pub usd: f64,
    /// Attempts that used tokens and whose dollars nobody knows.
    pub unpriced: u64,
    /// Attempts whose dollars were reckoned from their tokens.
    pub priced: u64,
    /// Tokens read.
    pub tokens_in: u64,
    /// Tokens written.
    pub tokens_out: u64,
}

impl Spending {
    /// The same as it counts against budgets.
    pub fn spent(&self) -> Spent {
        Spent { usd: self.usd, tokens: self.tokens_in.saturating_add(self.tokens_out) }
    }
}
