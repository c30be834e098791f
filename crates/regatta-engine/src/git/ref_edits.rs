//! Records on disk of the refs that our git processes are editing: they distinguish locks left by a killed git from
//! locks held by others.
//!
//! A record is written before `git update-ref` starts and removed when that ends by itself. A remaining record belongs
//! to a running edit, or to one whose git, or whose Regatta, was killed.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::unique_suffix;
use crate::process::Identity;

/// Age in seconds beyond which a record no longer explains a lock.
const FORGOTTEN: i64 = 24 * 3600;

/// The record of one edit.
pub(super) struct RefEditRecord {
    path: PathBuf,
}

impl RefEditRecord {
    /// The directory of a repository's records; `None` while there is no state directory.
    pub(super) fn dir(state_dir: &Path) -> Option<PathBuf> {
        state_dir.is_dir().then(|| state_dir.join("ref-edits"))
    }

    /// Records an edit. If the record cannot be written, a leftover lock would have to be removed by hand.
    pub(super) fn begin(dir: &Path) -> Option<Self> {
        let own = Identity::of(std::process::id()).ok()?;
        fs::create_dir_all(dir).ok()?;
        let path = dir.join(format!("{}-{}", own.starttime, unique_suffix()));
        fs::write(&path, serde_json::to_vec(&own).ok()?).ok()?;
        Some(Self { path })
    }

    /// Git ended by itself and removed its locks.
    pub(super) fn done(self) {
        fs::remove_file(&self.path).ok();
    }

    /// Git was killed; its locks may remain.
    pub(super) fn killed(self) {
        fs::rename(&self.path, self.path.with_extension("killed")).ok();
    }
}

/// Whether a lock was created during an edit of ours that was killed.
pub(super) fn left_behind(dir: &Path, lock: &Path, meta: &fs::Metadata) -> bool {
    let name = lock.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let below_heads = lock.ancestors().any(|above| above.ends_with("refs/heads"));
    // Everything that an edit of branches locks; this never includes the user's index.
    if !below_heads && !matches!(name, "HEAD.lock" | "packed-refs.lock") {
        return false;
    }
    let made = stamp(meta.mtime(), meta.mtime_nsec());
    let mut explained = false;
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, Ok(record)) = (entry.path(), entry.metadata()) else { continue };
        let begun = stamp(record.mtime(), record.mtime_nsec());
        if made - begun > i128::from(FORGOTTEN) * 1_000_000_000 {
            fs::remove_file(&path).ok();
            continue;
        }
        let until = match path.extension() {
            // The change time is that of the rename, after git had died.
            Some(_) => Some(stamp(record.ctime(), record.ctime_nsec())),
            None if is_alive(&path) => continue,
            None => None,
        };
        explained |= begun <= made && until.is_none_or(|until| made <= until);
    }
    explained
}

fn stamp(seconds: i64, nanos: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(nanos)
}

/// Whether the Regatta process that started an edit is still alive.
fn is_alive(record: &Path) -> bool {
    let text = fs::read_to_string(record).unwrap_or_default();
    serde_json::from_str::<Identity>(&text).is_ok_and(|begun_by| !begun_by.seems_gone())
}
