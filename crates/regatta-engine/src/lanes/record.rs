//! Regatta's records of lanes, kept in its own directory where agents do not write.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use regatta_core::id::TaskId;
use serde::{Deserialize, Serialize};

use super::Lanes;
use super::pool::{Filled, SetUp};
use crate::git::{GitError, Oid, Repo, SALVAGE, absent_is_none, io, replace_file};

/// Facts that must not be read back from a place the agent can write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaneRecord {
    pub(crate) base: Oid,
    /// Name of the directory below `.git/worktrees`.
    pub(crate) admin: String,
    /// Whether the lane has its own git directory inside that. Lanes of older versions share the project's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) own: bool,
    /// A digest of the refs that its own git directory started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refs: Option<String>,
    /// True once the first checkout is complete. Until then no agent ran here.
    pub(crate) ready: bool,
    /// True while the files of a lane whose directory was gone are restored: what is there then is ours, not work.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) healing: bool,
    /// The content of a relative `core.hooksPath` in this lane before the agent started.
    pub(crate) hooks: BTreeMap<String, String>,
    /// The place of the lane in its bay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bay: Option<PathBuf>,
    /// The directory below `.readers`, for the checkout of a read-only task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reader: Option<String>,
    /// Grows with every lane that is made while there is a pool: a lane with another fence is gone.
    #[serde(default)]
    pub(crate) fence: u64,
    /// What the manifest of its files is based on; without it they are not reused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) filled: Option<Filled>,
    /// The setup that succeeded in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) setup: Option<SetUp>,
}

impl LaneRecord {
    /// The record of a lane that is about to be made.
    pub(super) fn begun(base: &Oid, reader: Option<String>) -> Self {
        Self {
            base: base.clone(),
            admin: String::new(),
            own: true,
            refs: None,
            ready: false,
            healing: false,
            hooks: BTreeMap::new(),
            bay: None,
            reader,
            fence: 0,
            filled: None,
            setup: None,
        }
    }
}

pub(super) fn records_dir(repo: &Repo) -> PathBuf {
    repo.state_dir.join("lanes")
}

pub(super) fn record_path(repo: &Repo, task: &TaskId) -> PathBuf {
    records_dir(repo).join(format!("{task}.json"))
}

/// Whether a task may have a lane: a record exists. Runs no git.
pub fn has_lane(repo: &Repo, task: &TaskId) -> bool {
    // If its existence cannot be checked, assume a record; opening it reports why it cannot be read.
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
        // A file that a power cut left empty counts as missing.
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

    /// Forgets the brought-in paths. They outlive the lane until its work has landed, or a new lane is made: finished
    /// work may land much later. While saved work of the task exists they are kept: it may contain them, and is pushed
    /// to the hub at any time.
    pub(super) fn forget_brought_in(&self, task: &TaskId) -> Result<(), GitError> {
        if !self.brought_in_path(task).exists() {
            return Ok(());
        }
        if self.repo.refs_below(&format!("{SALVAGE}{task}/"))?.is_empty() {
            self.drop_brought_in(task);
        }
        Ok(())
    }

    /// Removes the list of a checkout that never has saved work.
    pub(super) fn drop_brought_in(&self, task: &TaskId) {
        fs::remove_file(self.brought_in_path(task)).ok();
    }

    /// Paths that were brought into the task's lane: they must not land.
    pub(crate) fn brought_in(&self, task: &TaskId) -> Result<BTreeSet<PathBuf>, GitError> {
        self.load_brought_in(task)
    }

    /// Paths that were brought into lanes of the task; `None` if that is not known.
    pub(crate) fn known_brought_in(&self, task: &TaskId) -> Result<Option<BTreeSet<PathBuf>>, GitError> {
        let path = self.brought_in_path(task);
        let Some(bytes) = absent_is_none(fs::read(&path)).map_err(io("read", &path))? else {
            return Ok(None);
        };
        let paths = bytes.split(|b| *b == 0).filter(|path| !path.is_empty());
        Ok(Some(paths.map(|path| OsStr::from_bytes(path).into()).collect()))
    }

    /// Paths copied or linked into the lane, which are never part of its work.
    pub(super) fn load_brought_in(&self, task: &TaskId) -> Result<BTreeSet<PathBuf>, GitError> {
        Ok(self.known_brought_in(task)?.unwrap_or_default())
    }

    pub(super) fn save_brought_in(&self, task: &TaskId, paths: &BTreeSet<PathBuf>) -> Result<(), GitError> {
        let list = paths.iter().map(|path: &PathBuf| Path::as_os_str(path).as_bytes()).collect::<Vec<_>>();
        let dir = self.records_dir();
        fs::create_dir_all(&dir).map_err(io("create", &dir))?;
        replace_file(&self.brought_in_path(task), &list.join(&0))
    }
}
