//! The engine and its budgets: what may start under them, and who is stopped for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use regatta_core::id::TaskId;
use regatta_core::spec::TaskSpec;
use regatta_store::Ready;
use tokio::sync::watch;

use super::{Engine, EngineError, Live};
use crate::budget::{self, AtWork};
use crate::meter::{Allowance, Meter};
use crate::worker::Stop;

impl Engine {
    /// Takes a worker in, with what it is stopped by and what it uses.
    pub(super) fn enter(
        &mut self,
        spec: TaskSpec,
        attempt: u32,
        allowance: Option<Allowance>,
    ) -> (watch::Receiver<Option<Stop>>, Arc<Meter>) {
        let (stop, receiver) = watch::channel(None);
        let meter = Meter::new(self.budgets.ticked.clone(), allowance);
        self.worked = true;
        self.radar.stir();
        self.notifier.working();
        self.reserved.insert(spec.id.clone(), spec.clone());
        self.live.insert(spec.id.clone(), Live { spec, attempt, meter: meter.clone(), stop });
        (receiver, meter)
    }

    /// What is at work, for whoever adds up what it uses.
    fn at_work(live: &BTreeMap<TaskId, Live>) -> Vec<AtWork<'_>> {
        live.values()
            .map(|live| AtWork { spec: &live.spec, attempt: live.attempt, meter: &live.meter })
            .collect()
    }

    /// Tells of budgets that are nearly spent, and stops agents that overrun theirs.
    pub(super) async fn watch_budgets(&mut self) -> Result<(), EngineError> {
        let live = Self::at_work(&self.live);
        Ok(self.budgets.watch(&self.ctx, &self.queue, self.duty, &live).await?)
    }

    /// Takes those out of a page of ready tasks whose budgets are spent, and says so; what the others may cost is the
    /// answer.
    pub(super) async fn within_budget(
        &mut self,
        page: &mut Vec<Ready>,
        held: &mut BTreeMap<TaskId, String>,
    ) -> Result<BTreeMap<TaskId, Allowance>, EngineError> {
        let config = &self.ctx.settings.config;
        let limited = |ready: &Ready| !ready.spec.budget.is_open();
        if !budget::is_limited(config) && !page.iter().any(limited) {
            return Ok(BTreeMap::new());
        }
        let live = Self::at_work(&self.live);
        let specs: Vec<&TaskSpec> = page.iter().map(|ready| &ready.spec).collect();
        let books = self.budgets.open(&self.ctx, &self.queue, self.duty, &live, &specs).await?;
        let allowances = specs.iter().filter_map(|spec| Some((spec.id.clone(), books.allowance(spec)?)));
        let allowances = allowances.collect();
        let n_held = held.len();
        page.retain(|ready| match self.budgets.hold(&books, &self.ctx, &ready.spec) {
            Some(why) => {
                held.insert(ready.spec.id.clone(), why);
                false
            }
            None => true,
        });
        if held.len() > n_held {
            self.budgets.tell(&self.ctx, &self.queue, &books).await?;
        }
        Ok(allowances)
    }
}
