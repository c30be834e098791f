//! Lanes: one linked worktree per task, on a detached HEAD.
//!
//! Invariant: no work is ever lost. Every step here that could drop a file or a commit first puts it under
//! `refs/regatta/salvage/`, and nothing unsaved is removed.
//!
//! Each lane has its own git directory, a plain repository that borrows the project's objects (see `own.rs`). An agent's
//! refs, stashes and objects stay there; what it committed is taken over by its content (see `take_over.rs`). HEAD is
//! detached at first; Regatta itself moves the visible branch, `regatta/<id>`. The work of a lane is its HEAD, even on a
//! branch that the agent created. Calls that change a lane assume that no agent runs in it.

mod alone;
mod assets;
mod beneath;
mod branch;
mod bring_in;
mod capture;
mod commit;
mod commit_hooks;
mod elsewhere;
mod gate;
mod heal;
mod index;
mod lane_head;
mod look;
mod message;
mod moved;
mod own;
mod own_refs;
mod pool;
mod prepare;
mod reader;
mod record;
mod register;
mod removal;
mod retire;
mod salvage;
mod secrets;
mod staging;
mod submodules;
mod take_over;
mod traps;
mod unfinished;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use regatta_core::id::TaskId;

use crate::git::{FileLock, GitError, Oid, Repo, Work, absent_is_none, io, replace_file};

pub use alone::Alone;
pub use branch::BranchMove;
pub use bring_in::{BroughtIn, Includes};
pub(crate) use capture::{Capture, Captured};
pub use commit::{CommitOutcome, CommitRequest, Committed};
pub use commit_hooks::{HookCall, HookResult, Hooks};
pub use gate::Leased;
pub use index::Restored;
pub(crate) use look::{LookLimits, Looked};
pub use pool::{PoolOptions, PooledLane};
pub use prepare::Fresh;
pub use record::has_lane;
pub(crate) use removal::remove_tree;
pub use retire::{KeptBecause, RetireMode, Retired};
pub use salvage::SalvageRef;
pub(crate) use traps::remove_traps;

/// All lanes of one repository.
#[derive(Clone, Debug)]
pub struct Lanes {
    repo: Repo,
    work: Work,
    root: PathBuf,
    /// The place of a lane in its bay, if its repository has siblings.
    bay: Option<PathBuf>,
    /// How trees are kept for later lanes; `None` keeps none.
    pool: Option<Arc<PoolOptions>>,
}

/// One task's worktree.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Its task.
    pub task: TaskId,
    /// Its directory.
    pub path: PathBuf,
    /// The directory with it and its siblings, if it has any.
    pub bay: Option<PathBuf>,
    /// The commit it was made from, recorded at that time: reading it later would be too late.
    pub base: Oid,
    /// Problems that did not prevent the lane: submodules that could not be filled.
    pub warnings: Vec<String>,
    /// Its registration below `.git/worktrees`.
    admin: PathBuf,
    git_dir: PathBuf,
    own: bool,
    repo: Repo,
    /// The fence of its record; differs if another lane was made in its place since. Always 0 without a pool.
    fence: u64,
    /// The key of a successful earlier setup in its tree whose result still exists.
    set_up: Option<String>,
    /// A reader's or a gate's checkout is not removed while this lock is held.
    _held: Option<Arc<FileLock>>,
}

/// A line of `regatta lane list`.
#[derive(Clone, Debug)]
pub struct LaneInfo {
    /// Its task.
    pub task: TaskId,
    /// Its directory.
    pub path: PathBuf,
    /// The recorded base.
    pub base: Oid,
    /// HEAD, if it can be read.
    pub head: Option<Oid>,
    /// Whether its first checkout is complete: before that, no agent ran here.
    pub ready: bool,
    /// Why [`Lanes::prepare`] would have to heal it.
    pub broken: Option<&'static str>,
    /// Its purpose.
    pub purpose: LanePurpose,
}

/// The purpose of a checkout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LanePurpose {
    /// One task's work.
    Task,
    /// A task that only reads.
    Reader,
    /// One run of a gate.
    Gate,
}

impl LanePurpose {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            LanePurpose::Task => "task",
            LanePurpose::Reader => "reader",
            LanePurpose::Gate => "gate",
        }
    }
}

impl Lane {
    /// The commit of this lane's work.
    pub fn head(&self) -> Result<Oid, GitError> {
        self.load_head()?.ok_or_else(|| GitError::NoLane {
            task: format!("{} (its HEAD is on an unborn branch)", self.task),
        })
    }

    /// The branch that the agent checked out in it, if any: Regatta leaves a lane's HEAD detached.
    pub fn branch(&self) -> Result<Option<String>, GitError> {
        Ok(match self.load_head_ref()? {
            crate::git::HeadRef::Symbolic(name) => name.strip_prefix("refs/heads/").map(str::to_owned),
            crate::git::HeadRef::Detached(_) => None,
        })
    }

    /// Whether a setup with this key succeeded in its tree, and its result still exists.
    pub fn is_set_up(&self, key: &str) -> bool {
        self.set_up.as_deref() == Some(key)
    }

    /// Its git directory: a sandbox must let the agent write there.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// Its registration below `.git/worktrees`, which contains its git directory.
    pub fn admin_dir(&self) -> &Path {
        &self.admin
    }
}

impl Lanes {
    /// The lanes of `repo` below `lanes_root`, which must be outside the checkout and the git directory.
    pub fn new(repo: &Repo, work: &Work, lanes_root: &Path) -> Result<Self, GitError> {
        let root = resolved(lanes_root)?;
        let outside = [&repo.toplevel, &repo.root, &repo.common_dir];
        for dir in outside.into_iter().chain(repo.main_worktree.as_ref()) {
            let inside = resolved(dir)?;
            if root.starts_with(&inside) {
                return Err(GitError::LanesInside { lanes: root, inside });
            }
        }
        Ok(Self { repo: repo.clone(), work: work.clone(), root, bay: None, pool: None })
    }

    /// The same lanes with a pool.
    #[must_use]
    pub fn with_pool(mut self, options: PoolOptions) -> Self {
        self.pool = Some(Arc::new(options));
        self
    }

    /// The same lanes, of which new ones are in bays, at this place.
    #[must_use]
    pub(crate) fn in_bays(mut self, place: Option<PathBuf>) -> Self {
        self.bay = place;
        self
    }

    /// Where a new lane of `task` is.
    fn new_path(&self, task: &TaskId) -> PathBuf {
        let path = self.root.join(task.as_str());
        self.bay.as_ref().map_or_else(|| path.clone(), |place| path.join(place))
    }

    /// `<repo>.lanes` beside the project.
    pub fn default_root(repo: &Repo) -> PathBuf {
        let mut name = repo.root.file_name().unwrap_or("repo".as_ref()).to_owned();
        name.push(".lanes");
        repo.root.with_file_name(name)
    }

    /// The directory of the lanes.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The repository they belong to.
    pub(crate) fn repo(&self) -> &Repo {
        &self.repo
    }

    /// Git on content, safe from what agents plant.
    pub(crate) fn work(&self) -> &Work {
        &self.work
    }

    /// Every lane with a record.
    pub fn list(&self) -> Result<Vec<LaneInfo>, GitError> {
        let dir = self.records_dir();
        let mut found = Vec::new();
        let Some(entries) = absent_is_none(fs::read_dir(&dir)).map_err(io("list", &dir))? else {
            return Ok(found);
        };
        for entry in entries {
            let name = entry.map_err(io("list", &dir))?.file_name();
            let task = name
                .to_str()
                .and_then(|name| name.strip_suffix(".json"))
                .and_then(|id| TaskId::parse(id).ok());
            let Some(task) = task else { continue };
            let Some(record) = self.load_record(&task)? else { continue };
            let lane = self.lane(&task, &record);
            let broken = heal::ailment(&lane, &record);
            found.push(LaneInfo {
                head: lane.head().ok(),
                task,
                path: lane.path,
                base: record.base.clone(),
                ready: record.ready,
                broken,
                purpose: match &record.reader {
                    None => LanePurpose::Task,
                    Some(_) if reader::is_gate(&record) => LanePurpose::Gate,
                    Some(_) => LanePurpose::Reader,
                },
            });
        }
        found.sort_by(|a, b| a.task.cmp(&b.task));
        Ok(found)
    }

    /// Detaches the lane from the branch its agent checked out; the commit stays the same.
    pub fn detach(&self, lane: &Lane) -> Result<(), GitError> {
        let head = lane.head()?;
        if lane.own {
            return replace_file(&lane.git_dir.join("HEAD"), format!("{head}\n").as_bytes());
        }
        let command = self.repo.real_in(&lane.git_dir).args(["update-ref", "--no-deref", "HEAD"]);
        command.arg(&head).bytes().map(drop)
    }

    /// The lane of a task, if it has one, without creating or healing anything.
    pub fn find(&self, task: &TaskId) -> Result<Option<Lane>, GitError> {
        Ok(self.load_record(task)?.map(|record| self.lane(task, &record)))
    }

    fn lane(&self, task: &TaskId, record: &record::LaneRecord) -> Lane {
        let path = match &record.reader {
            Some(name) => self.root.join(".readers").join(name),
            None => self.root.join(task.as_str()),
        };
        let (path, bay) = match &record.bay {
            Some(place) => (path.join(place), Some(path)),
            None => (path, None),
        };
        let admin = self.repo.common_dir.join("worktrees").join(&record.admin);
        let (own, fence, warnings) = (record.own, record.fence, Vec::new());
        let git_dir = if own { admin.join(own::OWN) } else { admin.clone() };
        let (task, base, repo) = (task.clone(), record.base.clone(), self.repo.clone());
        Lane { task, path, bay, base, warnings, admin, git_dir, own, repo, fence, set_up: None, _held: None }
    }
}

/// The real location of a path, even if its last parts do not exist yet.
fn resolved(path: &Path) -> Result<PathBuf, GitError> {
    let path = std::path::absolute(path).map_err(io("resolve", path))?;
    let path = crate::git::normal_path(&path);
    let mut missing = Vec::new();
    let mut existing = path.as_path();
    loop {
        match fs::canonicalize(existing) {
            Ok(mut real) => {
                real.extend(missing.iter().rev());
                return Ok(real);
            }
            Err(error) => match (existing.parent(), existing.file_name()) {
                (Some(parent), Some(name)) => {
                    missing.push(name.to_owned());
                    existing = parent;
                }
                _ => return Err(io("resolve", &path)(error)),
            },
        }
    }
}
