//! What a task changed.

use std::path::PathBuf;
use std::sync::Arc;

use regatta_core::attempt::{Attempt, Place};
use regatta_core::plain::clean_line;
use regatta_core::report::TaskReport;
use regatta_core::verdict::Verdict;
use regatta_engine::git::{DiffStyle, GitError, Oid, Work};
use regatta_engine::hub::names;
use regatta_engine::lanes::{Lane, Lanes};
use regatta_engine::remote::{DiffElsewhere, NotServed, WantedDiff, diff_elsewhere};
use regatta_engine::travel::{bring, is_elsewhere, last_with_lane};
use regatta_store::{Store, TaskRecord};

use crate::documents::DiffDocument;
use crate::elsewhere::{Kept, hearing, not_served};
use crate::look::status::lane_elsewhere;
use crate::look::train::shared_hub;
use crate::project::{Project, find_task};
use crate::refusal::{Refusal, RefusalKind};

/// A request for what a task changed.
#[derive(Clone, Debug)]
pub struct DiffRequest {
    /// The task, or the beginning of its id.
    pub task: String,
    /// Compare with the point where the work left this branch, tag or commit, instead of the commit it started from.
    pub against: Option<String>,
    /// The format of the text.
    pub style: DiffStyle,
    /// Whether a document will be made of it, which names the changed files as well.
    pub document: bool,
}

impl DiffRequest {
    /// The changes as a patch.
    pub fn patch(task: impl Into<String>) -> Self {
        Self { task: task.into(), against: None, style: DiffStyle::Patch, document: false }
    }
}

/// What a task changed.
pub struct TaskDiff {
    pub task: TaskRecord,
    /// The commit that the work is compared with.
    pub base: Oid,
    pub style: DiffStyle,
    /// The changes in that style, byte by byte.
    pub text: Vec<u8>,
    /// The changed files, if a document is made of it.
    pub files: Vec<String>,
    /// Where the work is.
    pub place: WorkPlace,
}

/// Where the work of a task is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkPlace {
    /// In its lane.
    Lane(PathBuf),
    /// In a commit; its lane is gone.
    Commit(Oid),
    /// In its lane on another node.
    Elsewhere {
        /// The node's name.
        node: String,
        lane: PathBuf,
        /// How many bytes of it were not sent.
        cut: u64,
        /// Whether secrets in it are masked.
        is_masked: bool,
    },
}

/// The two sides of the comparison.
struct Sides {
    base: Oid,
    /// The lane, or a commit if the lane is gone.
    work: Result<Lane, Oid>,
}

impl Project {
    /// What a task changed. While its lane exists: everything in it, committed or not. Afterwards: what its last attempt
    /// committed, or what landed. A lane on another machine is asked for through the store.
    pub async fn diff(&self, request: &DiffRequest) -> Result<TaskDiff, Refusal> {
        self.diff_hearing(request, &|_| {}).await
    }

    /// The same. `hear` gets a sentence if another machine is asked for the work and does not answer soon.
    pub async fn diff_hearing(
        &self,
        request: &DiffRequest,
        hear: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<TaskDiff, Refusal> {
        let store = self.store().await?;
        let task = find_task(store.as_ref(), &request.task).await?;
        let attempts = store.attempts(&task.spec.id).await?;
        let project = &self.of_task(&task.spec)?;
        let against = match &request.against {
            None => None,
            Some(name) => Some(project.repo.resolve(name)?.ok_or_else(|| {
                Refusal::not_found(format!("there is no branch, tag or commit {name:?}"))
                    .hinted("`git branch --all` and `git log` show what exists")
            })?),
        };
        let mut refused = None;
        if let Some((attempt, place)) = unfinished_elsewhere(&attempts) {
            let asked = ask(&store, &task, attempt, place, against.as_ref(), request);
            let asking = Kept::Work.asking((&task.spec.id, attempt.n), place);
            match hearing(asked, || hear(&asking)).await? {
                Asked::Found(diff) => return Ok(*diff),
                Asked::NoLane => {}
                // What it committed may be at the hub.
                Asked::Refused(refusal) => match attempt.head {
                    Some(_) => refused = Some(refusal),
                    None => return Err(refusal),
                },
            }
        }
        let (work, lanes) = hands(project)?;
        let fetched = fetch(self, &task, &attempts).await;
        if let Some(refusal) = refused.filter(|_| fetched.is_err()) {
            return Err(refusal);
        }
        fetched?;
        let sides = sides(&work, &lanes, &task, &attempts, against)?;
        let bytes = |style| {
            Ok::<_, Refusal>(match &sides.work {
                Ok(lane) => lanes.diff(lane, &sides.base, style)?,
                Err(head) => work.diff_styled(&sides.base, head, style)?,
            })
        };
        let mut files = Vec::new();
        if request.document {
            let names = bytes(DiffStyle::NamesZ)?;
            let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
            files.extend(names.map(|name| String::from_utf8_lossy(name).into_owned()));
        }
        let text = bytes(request.style)?;
        let place = match sides.work {
            Ok(lane) => WorkPlace::Lane(lane.path),
            Err(head) => WorkPlace::Commit(head),
        };
        Ok(TaskDiff { task, base: sides.base, style: request.style, text, files, place })
    }
}

impl TaskDiff {
    /// The changes as a document, with their text in the style that was asked for.
    pub fn document(&self) -> DiffDocument {
        let text = |style| (self.style == style).then(|| String::from_utf8_lossy(&self.text).into_owned());
        let mut document = DiffDocument {
            base: self.base.clone(),
            cut_bytes: None,
            files: self.files.clone(),
            head: None,
            id: self.task.spec.id.clone(),
            lane: None,
            node: None,
            patch: text(DiffStyle::Patch),
            stat: text(DiffStyle::Stat),
        };
        match &self.place {
            WorkPlace::Lane(lane) => document.lane = Some(lane.clone()),
            WorkPlace::Commit(head) => document.head = Some(head.clone()),
            WorkPlace::Elsewhere { node, lane, cut, .. } => {
                document.lane = Some(lane.clone());
                document.node = Some(node.clone());
                document.cut_bytes = (*cut > 0).then_some(*cut);
            }
        }
        document
    }

    /// What a reader has to know about work on another machine, in sentences.
    pub fn notes(&self) -> Vec<String> {
        let id = &self.task.spec.id;
        let WorkPlace::Elsewhere { node, cut, is_masked, .. } = &self.place else { return Vec::new() };
        let mut notes = Vec::new();
        if *cut > 0 {
            let style = match self.style {
                DiffStyle::Patch => "; `--stat` is shorter",
                _ => "",
            };
            notes.push(format!(
                "the diff is cut: {} MB more are on {node}, where `regatta diff {id}` shows all of it{style}",
                mega(*cut)
            ));
        }
        if *is_masked {
            notes.push(format!(
                "secrets in the diff are masked; `regatta diff {id}` on {node} shows the files as they are"
            ));
        }
        notes
    }
}

/// Bytes as megabytes, with one digit behind the point.
fn mega(bytes: u64) -> String {
    let tenths = bytes.div_ceil(100_000);
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// The last attempt with a lane, if its lane is in another clone and its work is not finished: finished work is at the
/// hub.
fn unfinished_elsewhere(attempts: &[Attempt]) -> Option<(&Attempt, &Place)> {
    let last = last_with_lane(attempts).filter(|last| is_elsewhere(last))?;
    let is_finished = last.head.is_some() && last.verdict.is_some_and(Verdict::is_good);
    if is_finished { None } else { Some((last, last.place.as_ref()?)) }
}

/// The answer of another machine.
enum Asked {
    Found(Box<TaskDiff>),
    /// Its lane is gone.
    NoLane,
    Refused(Refusal),
}

async fn ask(
    store: &Arc<dyn Store>,
    task: &TaskRecord,
    attempt: &Attempt,
    place: &Place,
    against: Option<&Oid>,
    request: &DiffRequest,
) -> Result<Asked, Refusal> {
    let (id, n, node) = (&task.spec.id, attempt.n, &place.node);
    let wanted =
        WantedDiff { style: request.style.into(), files: request.document, against: against.cloned() };
    let there = format!("`regatta diff {id}` on {node} shows it");
    match diff_elsewhere(store, place, id, n, &wanted).await {
        Ok(DiffElsewhere::Found { base, lane, text, files, cut, is_masked }) => {
            let place = WorkPlace::Elsewhere { node: node.clone(), lane, cut, is_masked };
            let task = task.clone();
            Ok(Asked::Found(Box::new(TaskDiff { task, base, style: request.style, text, files, place })))
        }
        Ok(DiffElsewhere::NoLane) => Ok(Asked::NoLane),
        Ok(DiffElsewhere::UnknownCommit) => {
            let commit = against.map_or_else(String::new, |commit| commit.short().to_string());
            Err(Refusal::not_found(format!(
                "the work of {id} is on {node}, which does not have the commit {commit} to compare it with"
            ))
            .hinted("push the commit to the target at the hub, or leave out --against"))
        }
        Ok(DiffElsewhere::TooLarge { bytes }) => {
            let why = format!(
                "the lane of {id} on {node} has {} MB in uncommitted files, more than is read for another machine",
                mega(bytes)
            );
            Ok(Asked::Refused(Refusal::refused(why).hinted(there)))
        }
        Ok(DiffElsewhere::Failed { why }) => {
            let why = clean_line(&why);
            Err(Refusal::new(RefusalKind::Git, format!("{node} could not compare the lane of {id}: {why}"))
                .hinted(there))
        }
        Err(NotServed::Store(error)) => Err(error.into()),
        Err(error) => {
            let whose = (id, n);
            let refusal = not_served(store.as_ref(), Kept::Work, whose, place, Some(attempt), &error);
            Ok(Asked::Refused(refusal.await))
        }
    }
}

fn hands(project: &Project) -> Result<(Work, Lanes), Refusal> {
    // Without a snapshot no agent has run here, so one can still be taken.
    let work = project.work()?;
    let lanes = Lanes::new(&project.repo, &work, &project.lanes_root())?;
    Ok((work, lanes))
}

/// The work that a task ended with, and the commit it started from.
fn committed(attempts: &[Attempt]) -> Option<(Oid, Oid)> {
    attempts.iter().rev().find_map(|attempt| attempt.base.clone().zip(attempt.head.clone()))
}

/// Fetches work that another clone has done.
pub(crate) async fn fetch(project: &Project, task: &TaskRecord, attempts: &[Attempt]) -> Result<(), Refusal> {
    let work = project.work()?;
    let Some((base, head)) = committed(attempts) else { return Ok(()) };
    if !attempts.iter().any(is_elsewhere) || (work.has_commit(&head)? && work.has_commit(&base)?) {
        return Ok(());
    }
    let Some(hub) = shared_hub(project)? else { return Ok(()) };
    let id = task.spec.id.clone();
    let branch = project.target().ok().map(|target| names::branch(&target));
    let fetched = tokio::task::spawn_blocking(move || {
        if let Some(branch) = branch {
            hub.fetch(&[&branch])?;
        }
        bring(&work, &hub, &[(id.clone(), head), (id, base)])
    });
    match fetched.await.expect("fetching does not panic") {
        // What landed is on the target; its own commits are not kept.
        Err(GitError::NotAtHub { .. }) if TaskReport::landed_commit(&task.state).is_some() => Ok(()),
        fetched => Ok(fetched?),
    }
}

fn sides(
    work: &Work,
    lanes: &Lanes,
    task: &TaskRecord,
    attempts: &[Attempt],
    named: Option<Oid>,
) -> Result<Sides, Refusal> {
    let id = &task.spec.id;
    let elsewhere = lane_elsewhere(last_with_lane(attempts));
    let lane = lanes.find(id)?.filter(|lane| lane.path.is_dir() && elsewhere.is_none());
    if let Some(lane) = lane {
        let base = match named {
            Some(named) => lanes.forked_from(&lane, &named)?.unwrap_or(named),
            None => lane.base.clone(),
        };
        return Ok(Sides { base, work: Ok(lane) });
    }
    if let Some((base, head)) = committed(attempts)
        && work.has_commit(&head)?
        && work.has_commit(&base)?
    {
        return Ok(Sides { base: since(work, named, &head, || base)?, work: Err(head) });
    }
    // Git has pruned the lane's own commits; the landed one stays on the target.
    if let Some(commit) = TaskReport::landed_commit(&task.state) {
        let parent = work.parent_of(&commit)?.unwrap_or_else(|| commit.clone());
        return Ok(Sides { base: since(work, named, &commit, || parent)?, work: Err(commit) });
    }
    if let Some(lane) = elsewhere {
        return Err(Refusal::not_found(format!(
            "{id} left nothing: its lane on another machine is gone, and it committed no work: {lane}"
        ))
        .hinted(format!("`regatta logs {id}` shows what its agent did")));
    }
    Err(match task.attempts {
        0 => Refusal::not_found(format!("{id} has not been started, so there is nothing to compare")),
        _ => Refusal::not_found(format!("{id} left nothing: its lane is gone and it committed no work")),
    }
    .hinted(format!("`regatta status {id}` shows what happened to it")))
}

/// The point where `head` left `named`, so that later work of others on it is not shown as this task's. Unrelated
/// histories are compared as they are.
fn since(
    work: &Work,
    named: Option<Oid>,
    head: &Oid,
    otherwise: impl FnOnce() -> Oid,
) -> Result<Oid, Refusal> {
    let Some(named) = named else { return Ok(otherwise()) };
    Ok(work.merge_base(&named, head)?.unwrap_or(named))
}
