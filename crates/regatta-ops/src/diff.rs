//! What a task changed.

use regatta_core::attempt::Attempt;
use regatta_core::report::TaskReport;
use regatta_engine::git::{DiffStyle, GitError, Oid, Work};
use regatta_engine::hub::names;
use regatta_engine::lanes::{Lane, Lanes};
use regatta_engine::travel::{bring, is_elsewhere, last_with_lane};
use regatta_store::TaskRecord;

use crate::documents::DiffDocument;
use crate::look::status::lane_elsewhere;
use crate::look::train::shared_hub;
use crate::project::{Project, find_task};
use crate::refusal::Refusal;

/// A request for what a task changed.
#[derive(Clone, Debug)]
pub struct DiffRequest {
    /// The task, or the beginning of its id.
    pub task: String,
    /// Compare with the point where the work left this branch, tag or commit, instead of the commit it started from.
    pub against: Option<String>,
}

/// A task's work and what it is compared with, ready to be shown in any style.
pub struct TaskDiff {
    pub task: TaskRecord,
    hands: (Work, Lanes),
    sides: Sides,
}

/// The two sides of the comparison.
struct Sides {
    base: Oid,
    /// The lane, or a commit if the lane is gone.
    work: Result<Lane, Oid>,
}

impl Project {
    /// What a task changed. While its lane exists: everything in it, committed or not. Afterwards: what its last attempt
    /// committed, or what landed.
    pub async fn diff(&self, request: &DiffRequest) -> Result<TaskDiff, Refusal> {
        let store = self.store().await?;
        let task = find_task(store.as_ref(), &request.task).await?;
        let attempts = store.attempts(&task.spec.id).await?;
        let (work, lanes) = hands(self)?;
        fetch(self, &task, &attempts).await?;
        let sides = sides(self, &work, &lanes, &task, &attempts, request.against.as_deref())?;
        Ok(TaskDiff { task, hands: (work, lanes), sides })
    }
}

impl TaskDiff {
    /// The commit that the work is compared with.
    pub fn base(&self) -> &Oid {
        &self.sides.base
    }

    /// The changes in this style, byte by byte.
    pub fn bytes(&self, style: DiffStyle) -> Result<Vec<u8>, Refusal> {
        let (work, lanes) = &self.hands;
        Ok(match &self.sides.work {
            Ok(lane) => lanes.diff(lane, &self.sides.base, style)?,
            Err(head) => work.diff_styled(&self.sides.base, head, style)?,
        })
    }

    /// The changes as a document, with their text in the style that is asked for.
    pub fn document(&self, style: DiffStyle) -> Result<DiffDocument, Refusal> {
        let files = self.bytes(DiffStyle::NamesZ)?;
        let files = files.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let text = |style| Ok::<_, Refusal>(String::from_utf8_lossy(&self.bytes(style)?).into_owned());
        Ok(DiffDocument {
            base: self.sides.base.clone(),
            files: files.map(|name| String::from_utf8_lossy(name).into_owned()).collect(),
            head: self.sides.work.as_ref().err().cloned(),
            id: self.task.spec.id.clone(),
            lane: self.sides.work.as_ref().ok().map(|lane| lane.path.clone()),
            patch: if style == DiffStyle::Patch { Some(text(style)?) } else { None },
            stat: if style == DiffStyle::Stat { Some(text(style)?) } else { None },
        })
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
    project: &Project,
    work: &Work,
    lanes: &Lanes,
    task: &TaskRecord,
    attempts: &[Attempt],
    against: Option<&str>,
) -> Result<Sides, Refusal> {
    let id = &task.spec.id;
    let named = match against {
        None => None,
        Some(name) => Some(project.repo.resolve(name)?.ok_or_else(|| {
            Refusal::not_found(format!("there is no branch, tag or commit {name:?}"))
                .hinted("`git branch --all` and `git log` show what exists")
        })?),
    };
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
            "{id} has no finished work yet; its lane is on another machine: {lane}"
        ))
        .hinted(format!("`regatta logs {id}` shows what its agent does")));
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
