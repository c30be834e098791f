//! Tasks that wait until fewer pull requests are open.

use std::collections::BTreeMap;

use regatta_core::id::TaskId;
use regatta_store::Ready;

use super::{Engine, EngineError};
use crate::landing::pulls;

impl Engine {
    /// Removes tasks from a page of ready ones whose work would have to wait for its pull request, if the settings hold
    /// them. The agent of an open pull request still answers.
    pub(super) async fn behind_open_pulls(
        &mut self,
        page: &mut Vec<Ready>,
        held: &mut BTreeMap<TaskId, String>,
    ) -> Result<(), EngineError> {
        let land = &self.ctx.settings.config.land;
        let proposes = |ready: &Ready| !ready.spec.read_only && land.is_by_pull_request(&ready.spec);
        if !land.pr.hold_starts || land.pr.max_open == 0 || !page.iter().any(proposes) {
            return Ok(());
        }
        let open = pulls::all_open(&self.ctx).await?;
        let mut any = false;
        page.retain(|ready| {
            let Ok(yard) = self.ctx.of(ready.spec.repo.as_ref()) else { return true };
            let train = yard.repository.train();
            let of_train = || open.iter().filter(|record| record.train == train);
            let is_open = of_train().any(|record| record.task == ready.spec.id);
            let Some(why) = pulls::too_many(of_train().count(), land.pr.max_open) else { return true };
            if is_open || !proposes(ready) {
                return true;
            }
            any = true;
            self.standby.is_behind_writes(ready.spec.id.clone());
            held.insert(ready.spec.id.clone(), why);
            false
        });
        if any {
            // A pull request whose task was given up can be closed without an event.
            self.standby.looks_again();
        }
        Ok(())
    }
}
