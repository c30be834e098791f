//! What Regatta remembers about a lane, kept in its own directory where agents do not write.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use regatta_core::id::TaskId;
use serde::{Deserialize, Serialize};

use super::Lanes;
use super::pool::{Filled, SetUp};
use crate::git::{GitError, Oid, Repo, absent_is_none, io, replace_file};

/// The facts that must not be read back from a place the agent can write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaneRecord {
    pub(crate) base: Oid,
    /// Name of the directory below `.git/worktrees`.
    pub(crate) admin: String,
    /// Set once the first checkout is complete. Until then no agent was ever here.
    pub(crate) ready: bool,
    /// Set while the files of a lane whose directory was gone are brought back: what is there then is ours, not work.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) healing: bool,
    /// What a relative `core.hooksPath` held in this lane before the agent began.
    pub(crate) hooks: BTreeMap<String, String>,
    /// The directory below `.readers`, for a lane shared by read-only tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reader: Option<String>,
    /// Grows with every lane that is made: whoever has another one has a lane that is gone.
    #[serde(default)]
    pub(crate) fence: u64,
    /// What the manifest of its files rests on; without it they are not used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) filled: Option<Filled>,
    /// The setup that went well in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) setup: Option<SetUp>,
}

impl LaneRecord {
    /// Of a lane that is about to be made.
    pub(super) fn begun(base: &Oid, reader: Option<String>) -> Self {
        let (admin, hooks) = Default::default();
        let base = base.clone();
        Self { base, admin, ready: false, healing: false, hooks, reader, fence: 0, filled: None, setup: None }
    }
}

pub(super) fn records_dir(repo: &Repo) -> PathBuf {
    repo.state_dir.join("lanes")
}

pub(super) fn record_path(repo: &Repo, task: &TaskId) -> PathBuf {
    records_dir(repo).join(format!("{task}.json"))
}

/// Whether a task may have a lane: a record of one exists. Runs no git.
pub fn has_lane(repo: &Repo, task: &TaskId) -> bool {
    // A record that cannot be looked for may be there; opening it says why it cannot be read.
    record_path(repo, task).try_exists().unwrap_or(true)
}

impl Lanes {
    pub(super) fn records_dir(&self) -> PathBuf {
        records_dir(&self.repo)
    }

    pub(super) fn record_path(&self, task: &TaskId) -> PathBuf {
        record_path(&self.repo, task)
    }

    /// The manifest of the lane's files.
    pub(super) fn index_copy(&self, task: &TaskId) -> PathBuf {
        self.records_dir().join(format!("{task}.index"))
    }

    fn brought_in_path(&self, task: &TaskId) -> PathBuf {
        self.records_dir().join(format!("{task}.brought-in"))
    }

    pub(super) fn load_record(&self, task: &TaskId) -> Result<Option<LaneRecord>, GitError> {
        let path = self.record_path(task);
        let Some(bytes) = absent_is_none(fs::read(&path)).map_err(io("read", &path))? else {
            return Ok(None);
        };
        // A file that a power cut left empty says as much as none.
        Ok(serde_json::from_slice(&bytes).ok())
    }

    pub(super) fn save_record(&self, task: &TaskId, record: &LaneRecord) -> Result<(), GitError> {
        let dir = self.records_dir();
        fs::create_dir_all(&dir).map_err(io("create", &dir))?;
        let json = serde_json::to_vec(record).expect("a record of strings is valid JSON");
        replace_file(&self.record_path(task), &json)
    }

    pub(super) fn forget_record(&self, task: &TaskId) {
        fs::remove_file(self.records_dir().join(format!("{task}.exclude"))).ok();
        fs::remove_file(self.index_copy(task)).ok();
        fs::remove_file(self.record_path(task)).ok();
    }

    /// Forgets what was brought in. Until its work has landed, or a new lane is made, that outlives the lane: work that
    /// is done may land much later.
    pub(super) fn forget_brought_in(&self, task: &TaskId) {
        fs::remove_file(self.brought_in_path(task)).ok();
    }

    /// Paths that were brought into the task's lane: they must not land.
    pub(crate) fn brought_in(&self, task: &TaskId) -> Result<BTreeSet<PathBuf>, GitError> {
        self.load_brought_in(task)
    }

    /// Paths copied or linked into the lane, which are never part of its work.
    pub(super) fn load_brought_in(&self, task: &TaskId) -> Result<BTreeSet<PathBuf>, GitError> {
        let path = self.brought_in_path(task);
        let bytes = absent_is_none(fs::read(&path)).map_err(io("read", &path))?.unwrap_or_default();
        Ok(bytes.split(|b| *b == 0).filter(|p| !p.is_empty()).map(|p| OsStr::from_bytes(p).into()).collect())
    }

    pub(super) fn save_brought_in(&self, task: &TaskId, paths: &BTreeSet<PathBuf>) -> Result<(), GitError> {
        let list = paths.iter().map(|path: &PathBuf| Path::as_os_str(path).as_bytes()).collect::<Vec<_>>();
        let dir = self.records_dir();
        fs::create_dir_all(&dir).map_err(io("create", &dir))?;
        replace_file(&self.brought_in_path(task), &list.join(&0))
    }
}
