//! Why a daemon in the background ended before its store knew it: left in a file for the process that started it.

use std::path::{Path, PathBuf};

use regatta_engine::files::{self, Durability};
use serde::{Deserialize, Serialize};

use crate::refusal::{Refusal, RefusalKind};

/// The file in the state directory.
const FILE: &str = "daemon.error";

/// A refusal as a file.
#[derive(Debug, Serialize, Deserialize)]
pub struct StartError {
    kind: RefusalKind,
    message: String,
    hint: String,
}

impl StartError {
    /// Leaves a refusal for the process that waits for this daemon. The same is in the log.
    pub fn leave(state_dir: &Path, refusal: &Refusal) {
        let mut message = refusal.message.clone();
        for diagnostic in &refusal.diagnostics {
            message.push_str(&format!("\n{diagnostic}"));
        }
        let error = Self { kind: refusal.kind, message, hint: refusal.hint() };
        let text = serde_json::to_string(&error).unwrap_or_default();
        // If this cannot be written, the other process names the log.
        let _ = files::replace(&path(state_dir), text.as_bytes(), Durability::Volatile);
    }

    /// Takes the refusal that a daemon has left.
    pub(crate) fn take(state_dir: &Path) -> Option<Refusal> {
        let text = std::fs::read_to_string(path(state_dir)).ok()?;
        Self::remove(state_dir);
        let Self { kind, message, hint } = serde_json::from_str(&text).ok()?;
        Some(Refusal::new(kind, message).hinted(hint))
    }

    /// Removes what an earlier daemon has left.
    pub(crate) fn remove(state_dir: &Path) {
        let _ = std::fs::remove_file(path(state_dir));
    }
}

fn path(state_dir: &Path) -> PathBuf {
    state_dir.join(FILE)
}
