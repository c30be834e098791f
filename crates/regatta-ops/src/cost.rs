//! What agents have used, and what is left of the budgets.

use std::collections::{BTreeMap, BTreeSet};

use regatta_core::budget::{Account, Scope, Spent};
use regatta_core::time::Timestamp;
use regatta_engine::clock::{self, Day};
use regatta_store::{QUARTER, SpendBy, SpendQuery, Spending, Store, TaskQuery};

use crate::documents::{BudgetDocument, CostDocument, CostRow};
use crate::project::Project;
use crate::refusal::Refusal;

/// What sums are grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CostBy {
    /// By task.
    #[default]
    Task,
    /// By agent.
    Agent,
    /// By model.
    Model,
    /// By local day.
    Day,
}

impl CostBy {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            CostBy::Task => "task",
            CostBy::Agent => "agent",
            CostBy::Model => "model",
            CostBy::Day => "day",
        }
    }
}

/// A request for what agents have used.
#[derive(Clone, Debug, Default)]
pub struct CostRequest {
    /// What to group the sums by.
    pub by: CostBy,
    /// Only attempts that ended at this time or later.
    pub since: Option<Timestamp>,
    /// Only tasks of this plan.
    pub plan: Option<String>,
}

/// What agents have used.
pub struct Cost {
    /// The sums.
    pub document: CostDocument,
    /// The budgets, as the next start of a task would see them.
    pub budgets: Vec<Account>,
}

impl Project {
    /// What agents have used, and what is left of the budgets.
    pub async fn cost(&self, request: &CostRequest) -> Result<Cost, Refusal> {
        let (rows, budgets) = if self.has_store() {
            let store = self.store().await?;
            require_plan(store.as_ref(), request.plan.as_deref()).await?;
            (rows(store.as_ref(), request).await?, budgets(store.as_ref(), self).await?)
        } else {
            (Vec::new(), Vec::new())
        };
        let mut total = CostRow::default();
        rows.iter().for_each(|row| total.add(row));
        let document = CostDocument {
            by: request.by.as_str(),
            since: request.since.map(clock::date_of),
            plan: request.plan.clone(),
            rows,
            total,
            budgets: budgets.iter().map(BudgetDocument::from).collect(),
        };
        Ok(Cost { document, budgets })
    }
}

/// Fails for a plan without tasks, which is probably a typing error.
async fn require_plan(store: &dyn Store, plan: Option<&str>) -> Result<(), Refusal> {
    let Some(plan) = plan else { return Ok(()) };
    let tried = store.spending(&SpendQuery { by: SpendBy::Plan, ..SpendQuery::default() }).await?;
    if tried.iter().any(|sum| sum.key == plan) {
        return Ok(());
    }
    let tasks = store.tasks(&TaskQuery::default()).await?;
    let plans: BTreeSet<&str> = tasks.iter().filter_map(|task| task.spec.plan.as_deref()).collect();
    if plans.contains(plan) {
        return Ok(());
    }
    let known = plans.into_iter().take(10).collect::<Vec<_>>().join(", ");
    let hint = match known.as_str() {
        "" => "no task belongs to a plan; leave the plan out".to_owned(),
        known => format!("plans with tasks: {known}"),
    };
    Err(Refusal::not_found(format!("no task belongs to a plan {plan:?}")).hinted(hint))
}

async fn rows(store: &dyn Store, request: &CostRequest) -> Result<Vec<CostRow>, Refusal> {
    let by = match request.by {
        CostBy::Task => SpendBy::Task,
        CostBy::Agent => SpendBy::Agent,
        CostBy::Model => SpendBy::Model,
        CostBy::Day => SpendBy::Quarter,
    };
    let query = SpendQuery { by, since: request.since, plan: request.plan.clone(), ..SpendQuery::default() };
    let mut rows: Vec<CostRow> = match request.by {
        CostBy::Day => days(&store.spending(&query).await?),
        _ => store.spending(&query).await?.iter().map(CostRow::from).collect(),
    };
    rows.retain(|row| row.attempts > 0);
    Ok(rows)
}

/// Adds up spending by quarter of an hour to days.
fn days(quarters: &[Spending]) -> Vec<CostRow> {
    let mut days: BTreeMap<String, CostRow> = BTreeMap::new();
    for quarter in quarters {
        let at = Timestamp::from_millis(quarter.key.parse::<i64>().unwrap_or(0).saturating_mul(QUARTER));
        let date = clock::date_of(at);
        let row =
            days.entry(date.clone()).or_insert_with(|| CostRow { key: Some(date), ..CostRow::default() });
        row.add(&CostRow::from(quarter));
    }
    days.into_values().collect()
}

/// The project's budgets, as the next start of a task would see them.
async fn budgets(store: &dyn Store, project: &Project) -> Result<Vec<Account>, Refusal> {
    let config = &project.config;
    let mut accounts = Vec::new();
    let ceiling = config.budget.day.at_most_usd(config.limits.budget_usd);
    if !ceiling.is_open() {
        let day = Day::of(clock::now());
        let sums = store.spending(&SpendQuery { since: Some(day.begins), ..SpendQuery::default() }).await?;
        let spent = sums.iter().map(Spending::spent).fold(Spent::default(), |sum, more| sum + more);
        accounts.push(Account::new(Scope::Day { until: day.ends }, ceiling, spent));
    }
    let ceiling = config.budget.plan;
    if !ceiling.is_open() {
        let query = SpendQuery { by: SpendBy::Plan, since_restart: true, ..SpendQuery::default() };
        for sum in store.spending(&query).await? {
            accounts.push(Account::new(Scope::Plan(sum.key.clone()), ceiling, sum.spent()));
        }
    }
    Ok(accounts)
}
