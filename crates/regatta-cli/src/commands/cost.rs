//! `regatta cost`: what agents have used, and what is left of the budgets.

use std::collections::BTreeMap;

use regatta_core::budget::{Account, Scope, Spent, dollars};
use regatta_core::time::Timestamp;
use regatta_engine::clock::{self, Day};
use regatta_ops::documents::{BudgetDocument, CostDocument, CostRow};
use regatta_store::{QUARTER, SpendBy, SpendQuery, Spending, Store};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::render::shown::clean_line;
use crate::render::text::table;
use crate::ui::{Style, Ui};
use regatta_ops::Refusal;

/// Show what agents used, in tokens and dollars, and what is left of the budgets.
///
/// An attempt counts on the day it ended. Dollars are those that agents report, or tokens multiplied by
/// `models.prices` in regatta.yaml (marked ~). If neither is known, the sum leaves the attempt out (marked +?).
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// What to group the sums by.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = By::Task)]
    by: By,
    /// Only attempts that ended on or after this local date, such as 2026-11-15, or `today`.
    #[arg(long, value_name = "DATE", value_parser = date)]
    since: Option<Timestamp>,
    /// Only tasks of this plan.
    #[arg(long, value_name = "NAME")]
    plan: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    Task,
    Agent,
    Model,
    Day,
}

impl By {
    fn word(self) -> &'static str {
        match self {
            By::Task => "task",
            By::Agent => "agent",
            By::Model => "model",
            By::Day => "day",
        }
    }
}

fn date(text: &str) -> Result<Timestamp, String> {
    if text == "today" {
        return Ok(Day::of(clock::now()).begins);
    }
    clock::begin_of(text).ok_or_else(|| "a day looks like 2026-11-15".to_owned())
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::look(&global.options())?;
    let (rows, budgets) = match project.has_store() {
        true => {
            let store = project.store().await?;
            require_plan(store.as_ref(), args.plan.as_deref()).await?;
            (rows(store.as_ref(), &args).await?, budgets(store.as_ref(), &project).await?)
        }
        false => (Vec::new(), Vec::new()),
    };
    let mut total = CostRow::default();
    rows.iter().for_each(|row| total.add(row));
    let since = args.since.map(clock::date_of);
    let document = CostDocument {
        by: args.by.word(),
        since,
        plan: args.plan,
        rows,
        total,
        budgets: budgets.iter().map(BudgetDocument::from).collect(),
    };
    match ui.json {
        true => ui.document(&document),
        false => draw(&document, &budgets, ui),
    }
    Ok(Exit::Ok)
}

/// Fails for a plan without tasks, which is probably a typing error.
async fn require_plan(store: &dyn Store, plan: Option<&str>) -> Result<(), Refusal> {
    let Some(plan) = plan else { return Ok(()) };
    let tried = store.spending(&SpendQuery { by: SpendBy::Plan, ..SpendQuery::default() }).await?;
    if tried.iter().any(|sum| sum.key == plan) {
        return Ok(());
    }
    let tasks = store.tasks(&regatta_store::TaskQuery::default()).await?;
    let plans: std::collections::BTreeSet<&str> =
        tasks.iter().filter_map(|task| task.spec.plan.as_deref()).collect();
    if plans.contains(plan) {
        return Ok(());
    }
    let known = plans.into_iter().take(10).collect::<Vec<_>>().join(", ");
    let hint = match known.as_str() {
        "" => "no task belongs to a plan; leave --plan out".to_owned(),
        known => format!("plans with tasks: {known}"),
    };
    Err(Refusal::not_found(format!("no task belongs to a plan {plan:?}")).hinted(hint))
}

async fn rows(store: &dyn Store, args: &Args) -> Result<Vec<CostRow>, Refusal> {
    let by = match args.by {
        By::Task => SpendBy::Task,
        By::Agent => SpendBy::Agent,
        By::Model => SpendBy::Model,
        By::Day => SpendBy::Quarter,
    };
    let query = SpendQuery { by, since: args.since, plan: args.plan.clone(), ..SpendQuery::default() };
    let mut rows: Vec<CostRow> = match args.by {
        By::Day => days(&store.spending(&query).await?),
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

fn draw(cost: &CostDocument, budgets: &[Account], ui: &Ui) {
    if cost.rows.is_empty() {
        ui.note("no attempt has used anything yet");
    } else {
        let mut lines: Vec<Vec<String>> = cost.rows.iter().map(|row| cells(row, "(unknown)")).collect();
        lines.push(cells(&cost.total, "total"));
        let heading = cost.by.to_uppercase();
        let drawn = table(&[&heading, "ATTEMPTS", "TOKENS IN", "TOKENS OUT", "DOLLARS"], &lines);
        let n = drawn.lines().count();
        for (at, line) in drawn.lines().enumerate() {
            let is_bold = at == 0 || at + 1 == n;
            ui.line(if is_bold { ui.paint(Style::Strong, line) } else { line.to_owned() });
        }
        if cost.total.unpriced > 0 && !ui.quiet {
            let n = cost.total.unpriced;
            ui.note(format!(
                "the cost of {n} attempt{} is unknown (+?): set `models.prices` in regatta.yaml; token budgets apply to all",
                if n == 1 { "" } else { "s" }
            ));
        }
    }
    for account in budgets {
        let left = account.share().map_or(0.0, |share| (1.0 - share).max(0.0) * 100.0);
        let style = if left > 0.0 { Style::Dim } else { Style::Bad };
        let text = format!("budget of {}: {}, {left:.0} % left", account.scope, account.figures());
        ui.line(ui.paint(style, &clean_line(&text)));
    }
}

fn cells(row: &CostRow, unnamed: &str) -> Vec<String> {
    let about = if row.priced > 0 { "~" } else { "" };
    let more = if row.unpriced > 0 { " +?" } else { "" };
    vec![
        clean_line(row.key.as_deref().unwrap_or(unnamed)),
        row.attempts.to_string(),
        row.tokens_in.to_string(),
        row.tokens_out.to_string(),
        format!("{about}{}{more}", dollars(row.cost_usd)),
    ]
}
