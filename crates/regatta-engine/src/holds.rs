//! Why ready tasks are not started: not state, but users ask for it. Written to a file per engine, so that `status` can
//! show it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use regatta_core::id::TaskId;
use regatta_store::SessionId;

use crate::files::{self, Durability};

/// One engine's list of held tasks.
pub(crate) struct Holds {
    path: PathBuf,
    told: BTreeMap<TaskId, String>,
}

impl Holds {
    pub(crate) fn new(state_dir: &Path, session: &SessionId) -> Self {
        Self { path: directory(state_dir).join(format!("{session}.json")), told: BTreeMap::new() }
    }

    /// Takes in the list; returns what is new in it.
    pub(crate) fn tell(&mut self, held: BTreeMap<TaskId, String>) -> Vec<(TaskId, String)> {
        if held == self.told {
            return Vec::new();
        }
        // Losing this file only loses an answer to a question.
        let _ = self.write(&held);
        let news = held.iter().filter(|(task, why)| self.told.get(*task) != Some(*why));
        let news = news.map(|(task, why)| (task.clone(), why.clone())).collect();
        self.told = held;
        news
    }

    pub(crate) fn all(&self) -> &BTreeMap<TaskId, String> {
        &self.told
    }

    pub(crate) fn any(&self) -> bool {
        !self.told.is_empty()
    }

    pub(crate) fn is_held(&self, task: &TaskId) -> bool {
        self.told.contains_key(task)
    }

    fn write(&self, held: &BTreeMap<TaskId, String>) -> std::io::Result<()> {
        if held.is_empty() {
            return std::fs::remove_file(&self.path);
        }
        if let Some(dir) = self.path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let text = serde_json::to_vec(held).expect("our own values serialise");
        files::replace(&self.path, &text, Durability::Volatile)
    }
}

impl Drop for Holds {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn directory(state_dir: &Path) -> PathBuf {
    state_dir.join("holds")
}

/// Why live engines do not start the tasks they hold, by task. `is_alive` says whether a session is open.
pub fn all_held(state_dir: &Path, is_alive: impl Fn(&str) -> bool) -> BTreeMap<TaskId, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory(state_dir)).into_iter().flatten().flatten() {
        let path = entry.path();
        let session = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".json"));
        if !session.is_some_and(&is_alive) {
            continue;
        }
        let held = std::fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
        found.extend(held.unwrap_or_else(BTreeMap::<TaskId, String>::new));
    }
    found
}

/// Why a live engine does not start `task`, if it holds it.
pub fn why_held(state_dir: &Path, task: &TaskId, is_alive: impl Fn(&str) -> bool) -> Option<String> {
    all_held(state_dir, is_alive).remove(task)
}
