//! Which tasks would conflict.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use regatta_core::id::TaskId;
use regatta_core::radar::Sighting;
use regatta_engine::lanes::Lanes;
use regatta_engine::radar::{RadarError, look};
use regatta_store::Store;

use crate::project::Project;
use crate::refusal::{Refusal, RefusalKind};

/// Scans the work in all lanes, on all branches and on the target.
pub async fn look_now(store: &dyn Store, lanes: &Lanes, project: &Project) -> Result<Sighting, Refusal> {
    let looked = look(store, lanes, &project.target()?, Arc::new(AtomicBool::new(false))).await;
    looked.map(|look| look.sighting).map_err(|error| match error {
        RadarError::Git(error) => error.into(),
        RadarError::Store(error) => error.into(),
        RadarError::NoTarget(branch) => {
            Refusal::not_found(format!("the target branch {branch} does not exist"))
                .hinted("name another: `target:` in regatta.yaml, or REGATTA_TARGET")
        }
        RadarError::GivenUp => Refusal::new(RefusalKind::Interrupted, "given up"),
    })
}

/// Keeps only findings about these tasks; all if none is named.
pub fn restrict(sighting: &mut Sighting, only: &BTreeSet<TaskId>) {
    if !only.is_empty() {
        sighting.findings.retain(|finding| only.iter().any(|task| finding.other(task).is_some()));
        sighting.unread.retain(|(task, _)| only.contains(task));
    }
}

/// Scans now and keeps findings about `only`; `None` before the first run.
pub async fn radar(
    project: &Project,
    store: &dyn Store,
    only: &BTreeSet<TaskId>,
) -> Result<Option<Sighting>, Refusal> {
    let Some(lanes) = project.lanes()? else { return Ok(None) };
    let mut sighting = look_now(store, &lanes, project).await?;
    restrict(&mut sighting, only);
    Ok(Some(sighting))
}
