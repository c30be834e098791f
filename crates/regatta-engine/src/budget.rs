//! The books: what was spent under every budget, from the store, and from running agents whose usage is not there yet.
//!
//! Invariant: no sum is kept. Each check adds up the settled attempts in the store and the meters of this engine's live
//! ones, so that a crash loses nothing and nothing is counted twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use regatta_core::budget::{Account, BudgetStanding, Ceiling, Scope, Spent, decisive};
use regatta_core::config::Config;
use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::spec::TaskSpec;
use regatta_core::time::Timestamp;
use regatta_store::{RequestId, SpendBy, SpendQuery, Spending, StoreError};
use tokio::sync::Notify;

use crate::clock::{self, Day};
use crate::context::Context;
use crate::engine::Duty;
use crate::meter::{Allowance, Halt, Meter};
use crate::persist::until_answered;

/// Interval between two checks of running agents.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// A running attempt.
pub(crate) struct AtWork<'a> {
    pub(crate) spec: &'a TaskSpec,
    pub(crate) attempt: u32,
    pub(crate) meter: &'a Meter,
}

/// What the engine remembers about budgets, none of which matters after a crash.
pub(crate) struct Budgets {
    /// Notified whenever an agent used something.
    pub(crate) ticked: Arc<Notify>,
    /// What was already reported, so that the store is not asked again.
    told: BTreeSet<String>,
    /// Budgets for which something was held back.
    said: BTreeSet<String>,
    looked_at: Option<Instant>,
    /// A check was postponed.
    is_due: bool,
    /// Tasks that ended since the last check: their last usage may be worth reporting.
    ended: Vec<TaskSpec>,
    /// Ready tasks whose budget no waiting restores.
    pub(crate) spent: BTreeSet<TaskId>,
    /// Nothing more of this run starts.
    pub(crate) run_is_spent: bool,
    /// When a budget lifts by itself for which something waits.
    lifts_at: Option<Timestamp>,
}

/// Every account that a check concerns.
#[derive(Default)]
pub(crate) struct Books {
    day: Option<Account>,
    run: Option<Account>,
    plans: BTreeMap<String, Account>,
    tasks: BTreeMap<TaskId, Account>,
}

impl Books {
    fn of<'a>(&'a self, spec: &'a TaskSpec) -> impl Iterator<Item = &'a Account> {
        let plan = spec.plan.as_ref().and_then(|plan| self.plans.get(plan));
        self.day.iter().chain(&self.run).chain(plan).chain(self.tasks.get(&spec.id))
    }

    fn all(&self) -> impl Iterator<Item = &Account> {
        self.day.iter().chain(&self.run).chain(self.plans.values()).chain(self.tasks.values())
    }

    /// What `spec` may cost if it starts now.
    pub(crate) fn allowance(&self, spec: &TaskSpec) -> Option<Allowance> {
        self.of(spec).filter_map(Allowance::of).min_by(|one, other| one.usd.total_cmp(&other.usd))
    }
}

/// The ceiling over everything in one day.
fn day_ceiling(config: &Config, duty: Duty) -> Ceiling {
    config.budget.day.at_most_usd(config.limits.budget_usd.filter(|_| duty == Duty::Queue))
}

impl Budgets {
    pub(crate) fn new() -> Self {
        Self {
            ticked: Arc::default(),
            told: BTreeSet::new(),
            said: BTreeSet::new(),
            looked_at: None,
            is_due: false,
            ended: Vec::new(),
            spent: BTreeSet::new(),
            run_is_spent: false,
            lifts_at: None,
        }
    }

    /// A worker of this task has ended.
    pub(crate) fn ended(&mut self, spec: TaskSpec) {
        self.ended.push(spec);
    }

    /// Adds up what concerns `specs`.
    pub(crate) async fn open(
        &self,
        ctx: &Context,
        queue: &str,
        duty: Duty,
        live: &[AtWork<'_>],
        specs: &[&TaskSpec],
    ) -> Result<Books, StoreError> {
        let config = &ctx.settings.config;
        let except: Vec<_> = live.iter().map(|work| (work.spec.id.clone(), work.attempt)).collect();
        let query = SpendQuery { except, ..SpendQuery::default() };
        let at_work = |concerns: &dyn Fn(&TaskSpec) -> bool| {
            let concerned = live.iter().filter(|work| concerns(work.spec));
            concerned.fold(Spent::default(), |sum, work| sum + work.meter.used())
        };
        let mut books = Books::default();
        let ceiling = day_ceiling(config, duty);
        if !ceiling.is_open() {
            let day = Day::of(clock::now());
            let sums = sums(ctx, SpendQuery { since: Some(day.begins), ..query.clone() }).await?;
            let spent = total(&sums) + at_work(&|_| true);
            books.day = Some(Account::new(Scope::Day { until: day.ends }, ceiling, spent));
        }
        if let (Some(usd), Duty::Plan) = (config.limits.budget_usd, duty) {
            let all = SpendQuery { queue: Some(queue.to_owned()), since_restart: true, ..query.clone() };
            let spent = total(&sums(ctx, all).await?) + at_work(&|_| true);
            let ceiling = Ceiling { usd: Some(usd), tokens: None };
            books.run = Some(Account::new(Scope::Run, ceiling, spent));
        }
        let ceiling = config.budget.plan;
        if !ceiling.is_open() && specs.iter().any(|spec| spec.plan.is_some()) {
            let sums =
                sums(ctx, SpendQuery { by: SpendBy::Plan, since_restart: true, ..query.clone() }).await?;
            for plan in specs.iter().filter_map(|spec| spec.plan.clone()) {
                let settled = sums.iter().filter(|sum| sum.key == plan);
                let spent = settled.map(Spending::spent).fold(Spent::default(), |sum, more| sum + more)
                    + at_work(&|spec| spec.plan.as_ref() == Some(&plan));
                let scope = Scope::Plan(plan.clone());
                books.plans.insert(plan, Account::new(scope, ceiling, spent));
            }
        }
        let limited = |spec: &TaskSpec| spec.budget.or(config.budget.task);
        let tasks: Vec<&&TaskSpec> = specs.iter().filter(|spec| !limited(spec).is_open()).collect();
        if !tasks.is_empty() {
            let ids = Some(tasks.iter().map(|spec| spec.id.clone()).collect());
            let by_task = SpendQuery { by: SpendBy::Task, tasks: ids, since_restart: true, ..query };
            let sums = sums(ctx, by_task).await?;
            for spec in tasks {
                let settled = sums.iter().find(|sum| sum.key == spec.id.as_str()).map(Spending::spent);
                let spent = settled.unwrap_or_default() + at_work(&|other| other.id == spec.id);
                let scope = Scope::Task(spec.id.clone());
                let account = Account::new(scope, limited(spec), spent).ordered(spec.budget, &spec.source);
                books.tasks.insert(spec.id.clone(), account);
            }
        }
        Ok(books)
    }

    /// Starts a check of the ready tasks; drops what was held back before.
    pub(crate) fn begin(&mut self) {
        self.spent.clear();
        self.run_is_spent = false;
        self.lifts_at = None;
    }

    /// Why `spec` is not started, if one of its budgets is spent.
    pub(crate) fn hold(&mut self, books: &Books, ctx: &Context, spec: &TaskSpec) -> Option<String> {
        let (standing, account) = decisive(books.of(spec), &ctx.settings.config.budget.shares)?;
        if standing < BudgetStanding::Hold {
            return None;
        }
        self.run_is_spent |= account.scope == Scope::Run;
        match account.until() {
            Some(until) => self.lifts_at = Some(self.lifts_at.map_or(until, |at| at.min(until))),
            None => drop(self.spent.insert(spec.id.clone())),
        }
        let why = Halt::of(account).detail;
        if self.said.insert(account.scope.to_string()) {
            ctx.say(format!("nothing else starts under this budget: {why}"));
        }
        Some(why)
    }

    /// Stops agents whose budgets are overrun, and reports budgets that are nearly spent. Checks at most ten times a
    /// second.
    pub(crate) async fn watch(
        &mut self,
        ctx: &Context,
        queue: &str,
        duty: Duty,
        live: &[AtWork<'_>],
    ) -> Result<(), StoreError> {
        // Without running agents the run may be about to end: then a check is not postponed.
        self.is_due = !live.is_empty() && self.looked_at.is_some_and(|at| at.elapsed() < LOOK_INTERVAL);
        if self.is_due {
            return Ok(());
        }
        let ended = std::mem::take(&mut self.ended);
        let specs: Vec<&TaskSpec> = live.iter().map(|work| work.spec).chain(&ended).collect();
        let limited = |spec: &&TaskSpec| !spec.budget.is_open();
        if specs.is_empty() || !is_limited(&ctx.settings.config) && !specs.iter().any(limited) {
            return Ok(());
        }
        self.looked_at = Some(Instant::now());
        let books = self.open(ctx, queue, duty, live, &specs).await?;
        self.tell(ctx, queue, &books).await?;
        for work in live {
            if let Some((BudgetStanding::Stop, account)) =
                decisive(books.of(work.spec), &ctx.settings.config.budget.shares)
            {
                work.meter.stop(Halt::of(account));
            }
        }
        Ok(())
    }

    /// Reports each account that is close to or at its ceiling, once a day over all engines.
    pub(crate) async fn tell(&mut self, ctx: &Context, queue: &str, books: &Books) -> Result<(), StoreError> {
        let today = Day::of(clock::now()).begins.millis();
        for account in books.all() {
            let standing = account.standing(&ctx.settings.config.budget.shares);
            let (level, body) = match standing {
                BudgetStanding::Go => continue,
                BudgetStanding::Warn => {
                    let (scope, detail) = (account.scope.to_string(), account.figures());
                    ("warned", EventBody::BudgetWarned { scope, detail })
                }
                BudgetStanding::Hold | BudgetStanding::Stop => {
                    let raise = account.how_to_raise();
                    let detail =
                        format!("{}; nothing else starts under this budget; {raise}", account.figures());
                    ("spent", EventBody::BudgetSpent { scope: account.scope.to_string(), detail })
                }
            };
            let Ceiling { usd, tokens } = account.ceiling;
            let run = if account.scope == Scope::Run { queue } else { "" };
            let key = format!("budget {level} {today} {} {run} {usd:?} {tokens:?}", account.scope);
            if !self.told.insert(key.clone()) {
                continue;
            }
            let task = match &account.scope {
                Scope::Task(task) => Some(task),
                _ => None,
            };
            let (request, at) = (RequestId(key), clock::now());
            until_answered(|| ctx.services.store.append(task, None, &body, &request, at)).await?;
        }
        Ok(())
    }

    /// Whether a check was postponed.
    pub(crate) fn is_due(&self) -> bool {
        self.is_due
    }

    /// Whether a budget has lifted for which something waits.
    pub(crate) fn has_lifted(&self) -> bool {
        self.lifts_at.is_some_and(|at| at.since(clock::now()).is_zero())
    }

    /// How long until the next look.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        let look = self
            .is_due
            .then(|| LOOK_INTERVAL.saturating_sub(self.looked_at.map_or(LOOK_INTERVAL, |at| at.elapsed())));
        let lifts = self.lifts_at.map(|at| at.since(clock::now()));
        look.into_iter().chain(lifts).min()
    }
}

/// Whether the project limits anything.
pub(crate) fn is_limited(config: &Config) -> bool {
    let budget = &config.budget;
    let ceilings = [budget.task, budget.plan, budget.day];
    config.limits.budget_usd.is_some() || ceilings.iter().any(|ceiling| !ceiling.is_open())
}

async fn sums(ctx: &Context, query: SpendQuery) -> Result<Vec<Spending>, StoreError> {
    until_answered(|| ctx.services.store.spending(&query)).await
}

fn total(sums: &[Spending]) -> Spent {
    sums.iter().map(Spending::spent).fold(Spent::default(), |sum, more| sum + more)
}
