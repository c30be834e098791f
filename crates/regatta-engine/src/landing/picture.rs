//! What a train is doing at this moment: not state, but users ask for it. Written to a file per lander, so that `land
//! status` can show it; the cars themselves, and what they wait for, are in the store.

use std::path::{Path, PathBuf};

use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::time::Timestamp;
use regatta_store::SessionId;
use serde::{Deserialize, Serialize};

/// A candidate under test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestNow {
    /// The commit.
    pub candidate: Oid,
    /// The commit of the target it was put on.
    pub onto: Oid,
    /// The tasks whose work is in it, in order. If empty, the target itself is tested.
    pub cars: Vec<TaskId>,
    /// When the test started.
    pub since: Timestamp,
}

/// What one lander is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainNow {
    /// Its target.
    pub target: String,
    /// Its running tests.
    pub tests: Vec<TestNow>,
}

pub(super) struct Picture {
    path: PathBuf,
    target: String,
    told: Vec<TestNow>,
}

impl Picture {
    pub(super) fn new(state_dir: &Path, session: &SessionId, target: &str) -> Self {
        let path = directory(state_dir).join(format!("{session}.json"));
        Self { path, target: target.to_owned(), told: Vec::new() }
    }

    pub(super) fn tell(&mut self, tests: Vec<TestNow>) {
        if tests == self.told {
            return;
        }
        self.told.clone_from(&tests);
        if tests.is_empty() {
            let _ = std::fs::remove_file(&self.path);
            return;
        }
        // Losing this file only loses an answer to a question.
        let now = TrainNow { target: self.target.clone(), tests };
        let text = serde_json::to_vec(&now).expect("our own values serialise");
        let _ = std::fs::create_dir_all(self.path.parent().unwrap_or(&self.path));
        let _ = crate::git::replace_file(&self.path, &text);
    }
}

impl Drop for Picture {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn directory(state_dir: &Path) -> PathBuf {
    state_dir.join("trains")
}

/// What live landers test on `target`. `is_alive` says whether a session is open.
pub fn under_test(state_dir: &Path, target: &str, is_alive: impl Fn(&str) -> bool) -> Vec<TestNow> {
    let here = trains_now(state_dir, is_alive).into_iter().filter(|now| now.target == target);
    here.flat_map(|now| now.tests).collect()
}

/// What every live lander is doing, whatever its target.
pub fn trains_now(state_dir: &Path, is_alive: impl Fn(&str) -> bool) -> Vec<TrainNow> {
    let entries = std::fs::read_dir(directory(state_dir)).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let path = entry.path();
            let session = path.file_stem()?.to_str()?.to_owned();
            is_alive(&session).then(|| std::fs::read(&path).ok())?
        })
        .filter_map(|text| serde_json::from_slice(&text).ok())
        .collect()
}
