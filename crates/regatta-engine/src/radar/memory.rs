//! Results of earlier scans: pairs that need no second merge, lanes that need no second read, and the last sighting.
//!
//! Files are replaced, never changed in place, and losing one only costs time.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use regatta_core::id::TaskId;
use regatta_core::radar::{Outcome, Sighting};
use serde::{Deserialize, Serialize};

use crate::git::{FileLock, GitError, Oid, Quarantine, replace_file};
use crate::lanes::Capture;

/// Maximum number of remembered pairs.
const MOST_PAIRS: usize = 10_000;
/// The amount after which captured lanes are dropped: counts one for each commit, and one for each 64 KiB read.
const MOST_MADE: u64 = 5_000;
/// Maximum number of findings kept for `status` and `list`.
const MOST_FINDINGS: usize = 1_000;
/// The memory of another version is ignored.
const VERSION: u32 = 1;

/// How pairs of commits merge, and what lanes contained.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RadarMemory {
    version: u32,
    /// Grows with every scan.
    look: u64,
    /// The amount written to the quarantine since it was empty.
    made: u64,
    lanes: BTreeMap<TaskId, Capture>,
    pairs: BTreeMap<String, Known>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Known {
    outcome: Outcome,
    /// The last scan that used it.
    look: u64,
}

/// The radar's own directory, locked for this process.
pub(super) struct Den {
    dir: PathBuf,
    state_dir: PathBuf,
    _alone: FileLock,
}

impl Den {
    /// Waits until no other process scans.
    pub(super) fn enter(state_dir: &Path) -> Result<Self, GitError> {
        let dir = state_dir.join("radar");
        let alone = FileLock::wait(dir.join("lock"))?;
        Ok(Self { dir, state_dir: state_dir.to_owned(), _alone: alone })
    }

    /// What is remembered, and the quarantine for new objects.
    pub(super) fn open(&self) -> Result<(RadarMemory, Quarantine), GitError> {
        let bytes = fs::read(self.dir.join("memory.json")).unwrap_or_default();
        let mut memory: RadarMemory = serde_json::from_slice(&bytes).unwrap_or_default();
        if memory.version != VERSION {
            memory = RadarMemory { version: VERSION, ..RadarMemory::default() };
        }
        // Captured lanes are in there; how pairs merge is valid without it.
        if memory.made > MOST_MADE || !self.dir.join("objects").is_dir() {
            fs::remove_dir_all(self.dir.join("objects")).ok();
            memory.made = 0;
            memory.lanes.clear();
        }
        memory.look += 1;
        Ok((memory, Quarantine::open(&self.dir)?))
    }

    /// Stores the results.
    pub(super) fn close(self, mut memory: RadarMemory, sighting: &Sighting) -> Result<(), GitError> {
        memory.forget_old();
        let json = serde_json::to_vec(&memory).expect("our own values serialise");
        replace_file(&self.dir.join("memory.json"), &json)?;
        let mut sighting = sighting.clone();
        sighting.more += sighting.findings.len().saturating_sub(MOST_FINDINGS);
        sighting.findings.truncate(MOST_FINDINGS);
        let json = serde_json::to_vec(&sighting).expect("our own values serialise");
        replace_file(&sighting_path(&self.state_dir), &json)
    }
}

impl RadarMemory {
    pub(super) fn lane(&self, task: &TaskId) -> Option<&Capture> {
        self.lanes.get(task)
    }

    /// Takes in the current content of lanes. A lane that is new or has changed was written to the quarantine.
    pub(super) fn keep_lanes(&mut self, lanes: BTreeMap<TaskId, Capture>) {
        let new = lanes.iter().filter(|(task, capture)| self.lanes.get(*task) != Some(*capture));
        self.made += new.map(|(_, capture)| 1 + (capture.bytes >> 16)).sum::<u64>();
        self.lanes = lanes;
    }

    pub(super) fn outcome(&mut self, a: &Oid, b: &Oid) -> Option<&Outcome> {
        let known = self.pairs.get_mut(&key(a, b))?;
        known.look = self.look;
        Some(&known.outcome)
    }

    pub(super) fn learn(&mut self, a: &Oid, b: &Oid, outcome: Outcome) {
        self.pairs.insert(key(a, b), Known { outcome, look: self.look });
    }

    /// The least recently used pairs are dropped first.
    fn forget_old(&mut self) {
        if self.pairs.len() > MOST_PAIRS {
            let mut looks: Vec<u64> = self.pairs.values().map(|known| known.look).collect();
            looks.sort_unstable_by(|a, b| b.cmp(a));
            let oldest_kept = looks[MOST_PAIRS / 2];
            self.pairs.retain(|_, known| known.look > oldest_kept || known.look == self.look);
        }
    }
}

/// A pair is the same in either order.
fn key(a: &Oid, b: &Oid) -> String {
    let (a, b) = if a <= b { (a, b) } else { (b, a) };
    format!("{a} {b}")
}

fn sighting_path(state_dir: &Path) -> PathBuf {
    state_dir.join("radar.json")
}

/// The last sighting of any process, without a scan. `None` if there was none.
pub fn last_sighting(state_dir: &Path) -> Option<Sighting> {
    serde_json::from_slice(&fs::read(sighting_path(state_dir)).ok()?).ok()
}
