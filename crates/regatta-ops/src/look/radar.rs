//! Which tasks would conflict.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use regatta_core::id::TaskId;
use regatta_core::radar::Sighting;
use regatta_engine::lanes::Lanes;
use regatta_engine::radar::{RadarError, look};
use regatta_store::Store;

use crate::changes::StoreChanges;
use crate::project::Project;
use crate::refusal::{Refusal, RefusalKind};

/// Minimum time between two scans of a watch.
const PAUSE: Duration = Duration::from_secs(1);
/// Time between two scans without a change of the store, if the settings name none.
const INTERVAL: Duration = Duration::from_secs(30);

/// Scans the work in all lanes, on all branches and on the target.
pub async fn look_now(store: &dyn Store, lanes: &Lanes, project: &Project) -> Result<Sighting, Refusal> {
    let looked = look(store, lanes, None, &project.target()?, Arc::new(AtomicBool::new(false))).await;
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

/// Scans again and again.
pub struct RadarWatch<'a> {
    project: &'a Project,
    store: &'a dyn Store,
    only: &'a BTreeSet<TaskId>,
    changes: StoreChanges,
    is_first: bool,
    last: Option<Sighting>,
}

impl<'a> RadarWatch<'a> {
    /// Keeps findings about `only`; all if it is empty.
    pub async fn new(
        project: &'a Project,
        store: &'a dyn Store,
        only: &'a BTreeSet<TaskId>,
    ) -> Result<Self, Refusal> {
        let changes = StoreChanges::of(store).await?;
        Ok(Self { project, store, only, changes, is_first: true, last: None })
    }

    /// Scans until the result differs from the last one: when the store changed, and when the interval is over.
    pub async fn next(&mut self) -> Result<&Sighting, Refusal> {
        let interval = self.project.config.radar.interval.unwrap_or(INTERVAL).max(PAUSE);
        loop {
            if !std::mem::take(&mut self.is_first) {
                tokio::time::sleep(PAUSE).await;
                self.changes.next_within(interval - PAUSE).await?;
            }
            let Some(now) = radar(self.project, self.store, self.only).await? else { continue };
            if !self.last.as_ref().is_some_and(|last| is_same(last, &now)) {
                return Ok(self.last.insert(now));
            }
        }
    }
}

fn is_same(last: &Sighting, now: &Sighting) -> bool {
    (&last.findings, &last.unread, &last.tasks) == (&now.findings, &now.unread, &now.tasks)
}
