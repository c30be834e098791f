//! Tasks that wait for work in the repositories that theirs builds on.

use std::collections::BTreeMap;

use regatta_core::id::TaskId;
use regatta_core::repos::{OpenTask, Wait, upstream};
use regatta_core::state::StateName;
use regatta_store::{Ready, TaskQuery};

use super::{Engine, EngineError};
use crate::persist::until_answered;

impl Engine {
    /// Removes tasks from a page of ready ones that wait for work in a repository that theirs builds on.
    pub(super) async fn behind_upstream(
        &mut self,
        page: &mut Vec<Ready>,
        held: &mut BTreeMap<TaskId, String>,
    ) -> Result<(), EngineError> {
        let repos = &self.ctx.settings.config.repos;
        let waits = |row: &&regatta_core::repos::RepoConfig| {
            row.wait != Wait::Never && self.ctx.graph().direct(&row.name).next().is_some()
        };
        if page.is_empty() || !repos.iter().any(|row| waits(&row)) {
            return Ok(());
        }
        let states = StateName::all_that(|name| name.is_busy() || name == StateName::Pending);
        let query = TaskQuery { states, ..TaskQuery::default() };
        let records = until_answered(|| self.ctx.services.store.tasks(&query)).await?;
        let open: BTreeMap<TaskId, OpenTask> = records
            .into_iter()
            .map(|record| {
                let (state, waiting_on) = (record.state.kind(), record.waiting_on);
                (
                    record.spec.id,
                    OpenTask { repo: record.spec.repo, state, deps: record.spec.deps, waiting_on },
                )
            })
            .collect();
        let ctx = self.ctx.clone();
        page.retain(|ready| {
            let found = upstream(&ctx.settings.config.repos, ctx.graph(), &ready.spec, &open);
            let Some((repo, task)) = found else { return true };
            let why = format!("{task} works in {repo}, which its repository builds on");
            self.standby.is_behind_writes(ready.spec.id.clone());
            held.insert(ready.spec.id.clone(), why);
            false
        });
        Ok(())
    }
}
