//! What a task changed.

use regatta_core::attempt::Attempt;
use regatta_core::report::TaskReport;
use regatta_engine::git::{DiffStyle, Oid, Work};
use regatta_engine::lanes::{Lane, Lanes};
use regatta_store::TaskRecord;

use crate::documents::DiffDocument;
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
    let lane = lanes.find(id)?.filter(|lane| lane.path.is_dir());
    if let Some(lane) = lane {
        let base = match named {
            Some(named) => lanes.forked_from(&lane, &named)?.unwrap_or(named),
            None => lane.base.clone(),
        };
        return Ok(Sides { base, work: Ok(lane) });
    }
    let committed = attempts.iter().rev().find_map(|attempt| attempt.base.clone().zip(attempt.head.clone()));
    if let Some((base, head)) = committed
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
