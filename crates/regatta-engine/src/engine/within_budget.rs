//! The engine and its budgets: what may start under them, and which agents are stopped for them.

use std::collections::BTreeMap;

use regatta_core::id::TaskId;
use regatta_core::spec::TaskSpec;
use regatta_store::Ready;

use super::{Engine, EngineError};
use crate::budget;
use crate::meter::Allowance;

impl Engine {
    /// Reports budgets that are nearly spent, and stops agents that overrun theirs.
    pub(super) async fn watch_budgets(&mut self) -> Result<(), EngineError> {
        if !std::mem::take(&mut self.due.budgets) && !self.budgets.is_due() {
            return Ok(());
        }
        let live = self.workers.at_work();
        Ok(self.budgets.watch(&self.ctx, &self.queue, self.duty, &live).await?)
    }

    /// Removes tasks with spent budgets from a page of ready ones, and reports them; returns what the others may cost.
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
        let live = self.workers.at_work();
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
