//! The subjects of a scan: all work that is not on the target and may still land.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use regatta_core::id::TaskId;
use regatta_core::repos::RepoName;
use regatta_core::state::TaskState;
use regatta_core::writes::WritePath;
use regatta_store::{Store, StoreError, TaskRecord};

use super::RadarError;
use crate::context::train_of;
use crate::git::{Oid, Repo};
use crate::lanes::{Lane, Lanes};
use crate::persist::until_answered;

/// Maximum number of tasks per scan, running ones first. The number of pairs grows with its square.
pub(super) const MOST_SUBJECTS: usize = 128;
/// Maximum number of branches considered, newest first.
const MOST_BRANCHES: usize = 1024;

/// A task with work that is not on the target.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) task: TaskId,
    pub(super) attempt: u32,
    pub(super) writes: Vec<WritePath>,
    pub(super) source: Source,
}

/// The location of its work.
#[derive(Debug)]
pub(super) enum Source {
    /// In its lane, committed or not: an agent is running there, or will be again. A damaged lane has only its commits.
    Lane(Box<Lane>, Option<&'static str>),
    /// In the commit `head`, made from `base` if that is known.
    Commit { head: Oid, base: Option<Oid> },
}

/// What is on disk of tasks with work.
pub(super) struct Traces {
    all: Lanes,
    lanes: BTreeMap<TaskId, (Lane, Option<&'static str>)>,
    branches: BTreeMap<TaskId, Oid>,
}

impl Traces {
    pub(super) fn load(lanes: &Lanes, tip: &Oid) -> Result<Self, RadarError> {
        let mut found = BTreeMap::new();
        for info in lanes.list()?.into_iter().filter(|info| info.ready) {
            if let Some(lane) = lanes.find(&info.task)? {
                found.insert(info.task, (lane, info.broken));
            }
        }
        Ok(Self { all: lanes.clone(), lanes: found, branches: branches(lanes.repo(), tip)? })
    }
}

fn branches(repo: &Repo, tip: &Oid) -> Result<BTreeMap<TaskId, Oid>, RadarError> {
    let prefix = "refs/heads/regatta/";
    let listed = repo.unmerged_below(prefix, tip, MOST_BRANCHES)?;
    let named = listed
        .into_iter()
        .filter_map(|(name, oid)| Some((TaskId::parse(name.strip_prefix(prefix)?).ok()?, oid)));
    Ok(named.collect())
}

/// The tasks to scan, and how many more there are.
pub(super) async fn gather(
    store: &dyn Store,
    repo: Option<&RepoName>,
    target: &str,
    mut traces: Traces,
) -> Result<(Vec<Subject>, usize), RadarError> {
    let train = train_of(repo, target);
    let cars = until_answered(|| store.cars(&train)).await?;
    let bases: BTreeMap<TaskId, Oid> = cars.into_iter().map(|car| (car.task, car.request.base)).collect();
    let names: BTreeSet<TaskId> =
        traces.lanes.keys().chain(traces.branches.keys()).chain(bases.keys()).cloned().collect();
    let mut found = Vec::new();
    for name in names {
        let record = match until_answered(|| store.task(&name)).await {
            Ok(record) => record,
            // A checkout of a gate or a reader, or a user's own branch.
            Err(StoreError::NotFound(_)) => continue,
            Err(error) => return Err(error.into()),
        };
        if record.spec.repo.as_ref() != repo {
            continue;
        }
        let base = bases.get(&name).cloned();
        if let Some((rank, source)) = source(&record, &mut traces, base) {
            let subject = Subject {
                task: record.spec.id,
                attempt: record.attempts,
                writes: record.spec.writes,
                source,
            };
            found.push((rank, Reverse(record.updated_at), subject));
        }
    }
    found.sort_by(|a, b| (a.0, a.1, &a.2.task).cmp(&(b.0, b.1, &b.2.task)));
    let left_out = found.len().saturating_sub(MOST_SUBJECTS);
    found.truncate(MOST_SUBJECTS);
    Ok((found.into_iter().map(|(.., subject)| subject).collect(), left_out))
}

/// Where the work of a task is, if it may still land, and its rank.
fn source(record: &TaskRecord, traces: &mut Traces, base: Option<Oid>) -> Option<(u8, Source)> {
    if record.spec.read_only || record.attempts == 0 {
        return None;
    }
    let commit = |head: Oid, base| Some(Source::Commit { head, base });
    let in_lane = |traces: &mut Traces| {
        let found = traces.lanes.remove(&record.spec.id);
        found.map(|(lane, broken)| Source::Lane(Box::new(lane), broken))
    };
    let (rank, source) = match &record.state {
        TaskState::Claimed { .. } | TaskState::Running { .. } | TaskState::Judging { .. } => {
            (0, in_lane(traces))
        }
        TaskState::Landing { head, .. } => (1, commit(head.clone(), base)),
        // It continues in its lane with the existing work.
        TaskState::Pending { .. } | TaskState::Parked { .. } => (2, in_lane(traces)),
        TaskState::Blocked { .. } => {
            let lane = traces.lanes.remove(&record.spec.id).map(|(lane, _)| lane);
            let head = traces.branches.get(&record.spec.id).cloned();
            let head = head.or_else(|| traces.all.kept_head(lane.as_ref()?).ok());
            (2, head.and_then(|head| commit(head, lane.map(|lane| lane.base))))
        }
        // Left for a user to land.
        TaskState::Done { head: Some(head), .. } => {
            let is_there = traces.branches.contains_key(&record.spec.id);
            (3, if is_there { commit(head.clone(), None) } else { None })
        }
        TaskState::Done { head: None, .. }
        | TaskState::Landed { .. }
        | TaskState::Failed { .. }
        | TaskState::Cancelled { .. }
        | TaskState::Skipped { .. } => return None,
    };
    Some((rank, source?))
}
