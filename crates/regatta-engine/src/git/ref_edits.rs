//! Which refs our git processes are editing, on disk: what a killed one left locked can be told from what others hold.
//!
//! A record is written before `git update-ref` starts and goes when that ended by itself. One that is still there
//! belongs to an edit under way, or to one whose git, or whose Regatta, was killed.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::unique_suffix;
use crate::process::Identity;

/// Records older than this explain no lock any more, in seconds.
const FORGOTTEN: i64 = 24 * 3600;

/// One edit under way.
pub(super) struct RefEditRecord {
    path: PathBuf,
}

impl RefEditRecord {
    /// Where a repository keeps them; `None` where there is no state directory yet.
    pub(super) fn dir(state_dir: &Path) -> Option<PathBuf> {
        state_dir.is_dir().then(|| state_dir.join("ref-edits"))
    }

    /// Records an edit. A record that cannot be written only means that a lock would have to be removed by hand.
    pub(super) fn begin(dir: &Path) -> Option<Self> {
        let own = Identity::of(std::process::id()).ok()?;
        fs::create_dir_all(dir).ok()?;
        let path = dir.join(format!("{}-{}", own.starttime, unique_suffix()));
        fs::write(&path, serde_json::to_vec(&own).ok()?).ok()?;
        Some(Self { path })
    }

    /// Git ended by itself, and took its locks along.
    pub(super) fn done(self) {
        fs::remove_file(&self.path).ok();
    }

    /// Git was killed; whatever it locked until now may be locked still.
    pub(super) fn killed(self) {
        fs::rename(&self.path, self.path.with_extension("killed")).ok();
    }
}

/// Whether a lock was made during an edit of ours that was killed.
pub(super) fn left_behind(dir: &Path, lock: &Path, meta: &fs::Metadata) -> bool {
    let name = lock.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let below_heads = lock.ancestors().any(|above| above.ends_with("refs/heads"));
    // All that an edit of branches locks; the user's index is never among it.
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

/// Whether the Regatta that began an edit is still there.
fn is_alive(record: &Path) -> bool {
    let text = fs::read_to_string(record).unwrap_or_default();
    serde_json::from_str::<Identity>(&text).is_ok_and(|begun_by| !begun_by.seems_gone())
}
