//! One scan of all work in progress.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use regatta_core::id::TaskId;
use regatta_core::radar::{
    self, Finding, Head, Kind, Meeting, Other, Outcome, Sighting, Touch, Touched, meetings,
};
use regatta_core::repos::RepoName;
use regatta_core::time::Timestamp;
use regatta_store::{Store, StoreError};

use super::history::History;
use super::memory::{Den, RadarMemory};
use super::subjects::{Source, Subject, Traces, gather};
use crate::clock;
use crate::git::{GitError, Oid, Quarantine, merges, touched};
use crate::lanes::{Capture, Captured, Lanes};

/// Why a scan failed.
#[derive(Debug, thiserror::Error)]
pub enum RadarError {
    /// The store refused the call or is unreachable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A git operation failed.
    #[error("could not {0}")]
    Git(#[from] GitError),
    /// The target branch does not exist.
    #[error("the target branch {0} does not exist")]
    NoTarget(String),
    /// The result is no longer needed.
    #[error("given up")]
    GivenUp,
}

/// The result of a scan.
#[derive(Clone, Debug)]
pub struct Look {
    /// The sighting.
    pub sighting: Sighting,
    /// The attempt of each task's work.
    pub attempts: BTreeMap<TaskId, u32>,
    /// How many trial merges it took; the others were known.
    pub n_merged: usize,
}

/// A subject whose work was found.
struct FoundWork {
    subject: Subject,
    head: Oid,
    /// The commit its lane was made from, if known.
    made_from: Option<Oid>,
    /// Changed paths beyond `head` that could not be read.
    beyond_reading: Option<Vec<PathBuf>>,
}

/// A subject whose own changes are known.
struct Placed {
    found: FoundWork,
    base: Oid,
    /// The subjects whose work it contains, as positions in the list.
    contains: BTreeSet<usize>,
    touched: Touched,
}

/// Scans every task with work in a repository that is not on `target`. Several processes may scan; they take turns and share their
/// results. `give_up` ends it at the next step.
pub async fn look(
    store: &dyn Store,
    lanes: &Lanes,
    repo: Option<&RepoName>,
    target: &str,
    give_up: Arc<AtomicBool>,
) -> Result<Look, RadarError> {
    let at = clock::now();
    let (own, branch) = (lanes.clone(), target.to_owned());
    let traced = blocking(move || {
        let tip = own.repo().branch_tip(&branch)?.ok_or(RadarError::NoTarget(branch))?.oid().clone();
        let traces = Traces::load(&own, &tip)?;
        Ok((tip, traces))
    });
    let (tip, traces) = traced.await?;
    let (subjects, left_out) = gather(store, repo, target, traces).await?;
    let (own, target) = (lanes.clone(), target.to_owned());
    blocking(move || Looking { lanes: own, target, tip, at, left_out, give_up }.look(subjects)).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RadarError> + Send + 'static,
) -> Result<T, RadarError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(RadarError::GivenUp))
}

struct Looking {
    lanes: Lanes,
    target: String,
    tip: Oid,
    at: Timestamp,
    left_out: usize,
    give_up: Arc<AtomicBool>,
}

impl Looking {
    fn look(self, subjects: Vec<Subject>) -> Result<Look, RadarError> {
        let den = Den::enter(&self.lanes.repo().state_dir)?;
        let (mut memory, quarantine) = den.open()?;
        let mut unread = Vec::new();
        let found = self.find_all(subjects, &quarantine, &mut memory, &mut unread)?;
        let attempts =
            found.iter().map(|found| (found.subject.task.clone(), found.subject.attempt)).collect();
        let mut tasks: Vec<TaskId> = found.iter().map(|found| found.subject.task.clone()).collect();
        tasks.sort();
        let placed = self.place_all(found, &quarantine)?;
        let (findings, n_merged) = self.judge(&placed, &quarantine, &mut memory)?;
        let sighting = Sighting {
            at: self.at,
            target: self.target,
            tip: self.tip.clone(),
            tasks,
            unread,
            left_out: self.left_out,
            findings,
            more: 0,
        };
        den.close(memory, &sighting)?;
        Ok(Look { sighting, attempts, n_merged })
    }

    /// A chance to stop: an engine that ends does not wait for this.
    fn go_on(&self) -> Result<(), RadarError> {
        if self.give_up.load(Ordering::Relaxed) { Err(RadarError::GivenUp) } else { Ok(()) }
    }

    /// The commit of each subject; lanes removed meanwhile are left out.
    fn find_all(
        &self,
        subjects: Vec<Subject>,
        quarantine: &Quarantine,
        memory: &mut RadarMemory,
        unread: &mut Vec<(TaskId, String)>,
    ) -> Result<Vec<FoundWork>, RadarError> {
        let mut found = Vec::new();
        let mut captures: BTreeMap<TaskId, Capture> = BTreeMap::new();
        for subject in subjects {
            self.go_on()?;
            let (head, made_from, beyond_reading) = match &subject.source {
                Source::Commit { head, base } => (head.clone(), base.clone(), None),
                Source::Lane(lane, broken) => {
                    let last = memory.lane(&subject.task);
                    let captured = match broken {
                        None => self.lanes.capture(lane, quarantine, last).map_err(|error| error.to_string()),
                        Some(why) => Err((*why).to_owned()),
                    };
                    let made_from = Some(lane.base.clone());
                    match (captured, self.lanes.kept_head(lane)) {
                        (Ok(Captured::Work(capture)), _) => {
                            let head = capture.commit.clone();
                            captures.insert(subject.task.clone(), capture);
                            (head, made_from, None)
                        }
                        (Ok(Captured::Named { head, paths, why }), _) => {
                            unread.push((subject.task.clone(), why));
                            (head, made_from, Some(paths))
                        }
                        // Committed work counts all the same.
                        (Err(why), Ok(head)) if lane.path.is_dir() => {
                            unread.push((subject.task.clone(), why));
                            (head, made_from, None)
                        }
                        (Err(_), _) => continue,
                    }
                }
            };
            found.push(FoundWork { subject, head, made_from, beyond_reading });
        }
        memory.keep_lanes(captures);
        Ok(found)
    }

    /// What each of them changed; subjects without changes are left out.
    fn place_all(&self, found: Vec<FoundWork>, quarantine: &Quarantine) -> Result<Vec<Placed>, RadarError> {
        self.go_on()?;
        let work = self.lanes.work();
        let heads: BTreeSet<Oid> = found.iter().map(|found| found.head.clone()).collect();
        let history = History::load(work, quarantine, &heads, &self.tip)?;
        let mut placed = Vec::new();
        let mut reach = Vec::new();
        for found in found {
            let base = if history.is_beyond(&found.head) {
                let beyond = history.of(&found.head);
                let base = match beyond.base(found.made_from.as_ref()) {
                    Some(base) => base.clone(),
                    // It has several roots in the target, or none.
                    None => match work.merge_base(&found.head, &self.tip)? {
                        Some(base) => base,
                        None => continue,
                    },
                };
                reach.push(Some(beyond));
                base
            } else if found.beyond_reading.is_some() || found.means_to_write() {
                reach.push(None);
                found.head.clone()
            } else {
                continue;
            };
            placed.push(Placed { found, base, contains: BTreeSet::new(), touched: Touched::new() });
        }
        let steps: Vec<(Oid, Oid)> =
            placed.iter().map(|placed| (placed.base.clone(), placed.found.head.clone())).collect();
        for (placed, touched) in placed.iter_mut().zip(touched(work, quarantine, &steps)?) {
            placed.touched = touched;
            for path in placed.found.beyond_reading.iter().flatten() {
                placed.touched.insert(path.to_string_lossy().into_owned(), Touch::Changed);
            }
        }
        for a in 0..placed.len() {
            let has = |b: &usize| {
                let (beyond, head) = (&reach[a], &placed[*b].found.head);
                *b != a && beyond.as_ref().is_some_and(|beyond| beyond.has(head))
            };
            let contains = (0..placed.len()).filter(has).collect();
            placed[a].contains = contains;
        }
        Ok(placed)
    }

    /// All meetings, with a trial merge for pairs that were never tried.
    fn judge(
        &self,
        placed: &[Placed],
        quarantine: &Quarantine,
        memory: &mut RadarMemory,
    ) -> Result<(Vec<Finding>, usize), RadarError> {
        self.go_on()?;
        let work = self.lanes.work();
        let heads: Vec<Head<'_>> = placed.iter().map(Placed::as_head).collect();
        let mut met: Vec<(usize, Option<usize>, Meeting)> = Vec::new();
        for ((a, b), meeting) in meetings(&heads) {
            // A task built on another's work meets it but never conflicts with it.
            if !placed[a].contains.contains(&b) && !placed[b].contains.contains(&a) {
                met.push((a, Some(b), meeting));
            }
        }
        for (a, meeting) in self.meetings_with_target(placed, quarantine)? {
            met.push((a, None, meeting));
        }
        let head = |n: Option<usize>| n.map_or(&self.tip, |n| &placed[n].found.head);
        let is_whole = |n: Option<usize>| n.is_none_or(|n| placed[n].found.beyond_reading.is_none());
        let may_merge = |a: usize, b: Option<usize>, meeting: &Meeting| {
            is_whole(Some(a)) && is_whole(b) && !matches!(meeting, Meeting::Declared(_))
        };
        let mut untried: Vec<(Oid, Oid)> = Vec::new();
        for (a, b, meeting) in &met {
            let (one, other) = (head(Some(*a)), head(*b));
            let pair = if one <= other { (one.clone(), other.clone()) } else { (other.clone(), one.clone()) };
            if may_merge(*a, *b, meeting) && one != other && memory.outcome(one, other).is_none() {
                untried.push(pair);
            }
        }
        untried.sort();
        untried.dedup();
        for ((a, b), outcome) in untried.iter().zip(merges(work, quarantine, &untried)?) {
            if let Some(outcome) = outcome {
                memory.learn(a, b, outcome);
            }
        }
        let mut findings = Vec::new();
        for (a, b, meeting) in met {
            let (one, other) = (head(Some(a)), head(b));
            let outcome = if !may_merge(a, b, &meeting) {
                None
            } else if one == other {
                Some(Outcome::Clean)
            } else {
                memory.outcome(one, other).cloned()
            };
            let with = match b {
                Some(b) => Other::Task(placed[b].found.subject.task.clone()),
                None => Other::Target(self.target.clone()),
            };
            let finding = Finding::of(&placed[a].found.subject.task, with, meeting, outcome);
            // Work that merges into the target is the normal case, and not reported.
            findings.extend(finding.filter(|finding| b.is_some() || finding.kind != Kind::Merges));
        }
        radar::sort(&mut findings);
        Ok((findings, untried.len()))
    }

    /// Subjects that meet what the target received since.
    fn meetings_with_target(
        &self,
        placed: &[Placed],
        quarantine: &Quarantine,
    ) -> Result<Vec<(usize, Meeting)>, RadarError> {
        let bases: BTreeSet<&Oid> =
            placed.iter().map(|placed| &placed.base).filter(|base| **base != self.tip).collect();
        let steps: Vec<(Oid, Oid)> = bases.iter().map(|base| ((*base).clone(), self.tip.clone())).collect();
        let since: BTreeMap<&Oid, Touched> =
            bases.into_iter().zip(touched(self.lanes.work(), quarantine, &steps)?).collect();
        let mut met = Vec::new();
        for (n, placed) in placed.iter().enumerate() {
            let Some(since) = since.get(&placed.base) else { continue };
            let target = Head { touched: since, writes: &[] };
            let work = Head { touched: &placed.touched, writes: &[] };
            met.extend(meetings(&[work, target]).into_iter().map(|(_, meeting)| (n, meeting)));
        }
        Ok(met)
    }
}

impl FoundWork {
    /// Whether its agent may still write what it declared.
    fn means_to_write(&self) -> bool {
        matches!(self.subject.source, Source::Lane(..)) && !self.subject.writes.is_empty()
    }
}

impl Placed {
    fn as_head(&self) -> Head<'_> {
        Head { touched: &self.touched, writes: &self.found.subject.writes }
    }
}
