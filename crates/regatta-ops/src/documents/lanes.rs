//! Lanes, saved work, and tasks that were taken back.

use std::path::PathBuf;

use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;
use regatta_engine::git::{Oid, Salvage};
use regatta_engine::lanes::{LaneInfo, LanePurpose, PooledLane};
use regatta_store::SessionId;
use serde::Serialize;

/// A lane, as in `lane list --json`: in use, or in the pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum LaneDocument {
    /// In use.
    Used(UsedLaneDocument),
    /// Free for the next task.
    Pooled(PooledLaneDocument),
}

/// A lane in use.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UsedLaneDocument {
    /// The commit it started from.
    pub base: Oid,
    /// What is wrong with it.
    pub broken: Option<&'static str>,
    /// What it is for.
    #[serde(rename = "for")]
    pub purpose: LanePurpose,
    /// Its commit now.
    pub head: Option<Oid>,
    /// Its directory.
    pub path: PathBuf,
    pub task: TaskId,
}

/// A lane in the pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PooledLaneDocument {
    /// Its last base commit.
    pub base: Oid,
    /// Always null, as are `head` and `task`.
    pub broken: Option<&'static str>,
    /// Always null.
    pub head: Option<Oid>,
    /// The process that puts it in or takes it out.
    pub held_by: Option<u32>,
    /// Its directory.
    pub path: PathBuf,
    /// Its number.
    pub pooled: u64,
    /// Always null.
    pub task: Option<TaskId>,
}

impl From<LaneInfo> for LaneDocument {
    fn from(lane: LaneInfo) -> Self {
        let LaneInfo { task, path, base, head, broken, purpose, .. } = lane;
        LaneDocument::Used(UsedLaneDocument { base, broken, purpose, head, path, task })
    }
}

impl From<PooledLane> for LaneDocument {
    fn from(lane: PooledLane) -> Self {
        let PooledLane { number, path, base, held_by, .. } = lane;
        let (broken, head, task) = (None, None, None);
        LaneDocument::Pooled(PooledLaneDocument { base, broken, head, held_by, path, pooled: number, task })
    }
}

/// Where a task works, as in `lane path --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LanePathDocument {
    /// The commit it started from.
    pub base: Oid,
    /// The directory.
    pub path: PathBuf,
    pub task: TaskId,
}

/// The document of `lane retire --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RetiredDocument {
    /// Whether there was a lane to remove.
    pub removed: bool,
    /// The ref that holds the work from the lane, if that was saved.
    pub salvaged: Option<String>,
    pub task: TaskId,
}

/// The document of `lane sweep --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SweptDocument {
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// What happened to each lane.
    pub lanes: Vec<SweptLaneDocument>,
    /// How many directories of removed lanes were deleted.
    pub leftovers: usize,
    /// How many lanes of the pool were removed.
    pub pooled: usize,
}

/// What happened to one lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SweptLaneDocument {
    /// Whether it goes.
    pub goes: bool,
    pub task: TaskId,
    /// The reason.
    pub why: String,
}

/// Saved work, as in `salvage list --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SavedDocument {
    /// The clone that saved it, if it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clone: Option<String>,
    pub commit: Oid,
    /// Its number among those of its task.
    pub number: u64,
    /// The ref that holds it.
    #[serde(rename = "ref")]
    pub reference: String,
    /// When it was saved.
    pub saved_at: Timestamp,
    pub task: TaskId,
    /// Why it was saved.
    pub why: String,
}

impl From<&Salvage> for SavedDocument {
    fn from(salvage: &Salvage) -> Self {
        Self {
            clone: salvage.by.clone(),
            commit: salvage.oid.clone(),
            number: salvage.number,
            reference: salvage.name.clone(),
            saved_at: salvage.at,
            task: salvage.task.clone(),
            why: salvage.subject.clone(),
        }
    }
}

/// The document of `salvage show --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SavedPatchDocument {
    /// The commit it is compared with.
    pub base: Oid,
    /// The clone that saved it, if it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clone: Option<String>,
    pub commit: Oid,
    /// Its number among those of its task.
    pub number: u64,
    /// The work as a patch.
    pub patch: String,
    /// The ref that holds it.
    #[serde(rename = "ref")]
    pub reference: String,
    /// When it was saved.
    pub saved_at: Timestamp,
    pub task: TaskId,
    /// Why it was saved.
    pub why: String,
}

/// The document of `salvage restore --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RestoredDocument {
    /// The branch that holds the work now.
    pub branch: String,
    pub commit: Oid,
    /// The ref that it was saved under.
    #[serde(rename = "ref")]
    pub reference: String,
}

/// The document of `reclaim --json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReclaimedDocument {
    /// Processes whose tasks are left to the engine that adopts them.
    pub left: Vec<GoneDocument>,
    /// Processes whose tasks were taken back.
    pub reclaimed: Vec<GoneDocument>,
}

/// A process that is gone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GoneDocument {
    /// Its process id.
    pub pid: u32,
    pub session: SessionId,
    /// The tasks it held.
    pub tasks: Vec<TaskId>,
    /// What it was, for people.
    pub what: String,
    /// Why its tasks were left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}
