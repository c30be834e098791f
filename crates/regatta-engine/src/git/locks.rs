//! Lock files that a killed git left behind.
//!
//! Invariant: a lock is removed only when no process can hold it. No process has the file open; every git process that
//! could work on this repository started after the lock was created (git closes a lock file long before it is done with
//! it); the lock is old enough; and it is still the same file when it is removed. A lock on the user's own refs is
//! removed only if, in addition, one of our own git processes died while it edited refs.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::worktrees::registration_of;
use super::{FileLock, LANE_PREFIX, checkout_path, ref_edits};
use crate::process::identity::Stat;

/// Minimum age for removing a lock of our own.
const OURS_AFTER: Duration = Duration::from_secs(1);
/// Minimum age for removing a lock on the user's refs.
const USERS_AFTER: Duration = Duration::from_secs(2);
/// Upper bound on the difference between file times and process times.
const SLACK: Duration = Duration::from_secs(1);
/// Maximum depth of the search for locks below a git directory.
const DEPTH: u8 = 8;

/// A lock file that was found, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleLock {
    /// Its path.
    pub path: PathBuf,
    /// Whether it is on one of Regatta's own refs or lanes.
    pub ours: bool,
}

/// The lock file named in git's error message.
pub(super) fn named_in(stderr: &str) -> Option<PathBuf> {
    let end = stderr.find(".lock': File exists")? + ".lock".len();
    let begin = stderr[..end].rfind('\'')? + 1;
    Some(PathBuf::from(&stderr[begin..end]))
}

/// Removes a lock that no process can hold. `edits` is the directory with the records of our own ref edits.
pub(super) fn clear(lock: &Path, edits: Option<&Path>) -> bool {
    let Some((place, meta)) = place_of(lock) else { return false };
    let allowed = if is_ours(&place) {
        age(&meta) >= OURS_AFTER
    } else {
        age(&meta) >= USERS_AFTER && edits.is_some_and(|edits| ref_edits::left_behind(edits, &place, &meta))
    };
    allowed && !may_be_held(&place, &meta) && remove(&place, &meta)
}

/// Removes a lock in a lane, where neither the user nor another agent works.
pub(crate) fn clear_in_lane(lock: &Path) -> bool {
    clear(lock, None)
}

/// Every lock in the repository that no process holds.
pub(super) fn stale_below(common_dir: &Path) -> Vec<StaleLock> {
    let mut found = Vec::new();
    collect(common_dir, DEPTH, &mut found);
    found.sort();
    let stale = |path: PathBuf| {
        let (place, meta) = place_of(&path)?;
        let stale = age(&meta) >= USERS_AFTER && !may_be_held(&place, &meta);
        stale.then(|| StaleLock { ours: is_ours(&place), path })
    };
    found.into_iter().filter_map(stale).collect()
}

/// Every file below `dir` that is named like a lock, ours and others'.
pub(crate) fn locks_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(dir, DEPTH, &mut found);
    found
}

fn collect(dir: &Path, depth: u8, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let name = entry.file_name();
        if kind.is_dir() && depth > 0 && name != "objects" && name != "logs" {
            collect(&entry.path(), depth - 1, found);
        } else if kind.is_file() && name.as_encoded_bytes().ends_with(b".lock") {
            found.push(entry.path());
        }
    }
}

/// The real path of the lock, and its current metadata.
fn place_of(lock: &Path) -> Option<(PathBuf, fs::Metadata)> {
    let place = fs::canonicalize(lock.parent()?).ok()?.join(lock.file_name()?);
    let meta = place.symlink_metadata().ok().filter(fs::Metadata::is_file)?;
    Some((place, meta))
}

/// Whether it locks one of Regatta's own refs or lanes, judging by its place below the git directory.
fn is_ours(place: &Path) -> bool {
    let parts: Vec<&str> = place.iter().map(|part| part.to_str().unwrap_or_default()).collect();
    parts.windows(2).any(|pair| match *pair {
        ["refs", "regatta"] => true,
        ["worktrees", lane] => lane.starts_with(LANE_PREFIX),
        _ => false,
    }) || parts.windows(3).any(|three| three == ["refs", "heads", "regatta"])
}

fn age(meta: &fs::Metadata) -> Duration {
    let made = meta.modified().ok();
    made.and_then(|made| SystemTime::now().duration_since(made).ok()).unwrap_or_default()
}

/// Whether a process has the file open, or is a git that started before the lock was created and may work here.
fn may_be_held(place: &Path, meta: &fs::Metadata) -> bool {
    let (Ok(made), Ok(processes)) = (meta.modified(), fs::read_dir("/proc")) else { return true };
    let roots = roots_around(place);
    processes.flatten().any(|process| {
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { return false };
        // Only the user who created a lock can hold it.
        if process.metadata().is_ok_and(|owner| owner.uid() != meta.uid()) {
            return false;
        }
        let dir = process.path();
        has_open(&dir, meta) || (is_git(&dir) && began_before(pid, made + SLACK) && works_in(&dir, &roots))
    })
}

fn has_open(process: &Path, meta: &fs::Metadata) -> bool {
    let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let mut open = files.filter_map(|file| fs::metadata(file.path()).ok());
    open.any(|file| (file.dev(), file.ino()) == (meta.dev(), meta.ino()))
}

fn is_git(process: &Path) -> bool {
    let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
    name.trim_end() == "git" || name.starts_with("git-")
}

/// A process that has ended, or cannot be inspected any more, holds nothing.
fn began_before(pid: u32, at: SystemTime) -> bool {
    let Ok(stat) = Stat::load(pid) else { return false };
    let ticks = rustix::param::clock_ticks_per_second().max(1);
    let began = Duration::from_millis(stat.starttime.saturating_mul(1000) / ticks);
    let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let up = Duration::from_secs(u64::try_from(up.tv_sec).unwrap_or(0));
    !stat.is_dead() && SystemTime::now().checked_sub(up.saturating_sub(began)).is_none_or(|began| began < at)
}

/// Whether a process works on this repository; if that is unknown, it may.
fn works_in(process: &Path, roots: &[PathBuf]) -> bool {
    let Ok(dir) = fs::read_link(process.join("cwd")) else { return true };
    let environ = fs::read(process.join("environ")).unwrap_or_default();
    let named = environ.split(|byte| *byte == 0).filter_map(|variable| {
        let value =
            variable.strip_prefix(b"GIT_DIR=").or_else(|| variable.strip_prefix(b"GIT_INDEX_FILE="))?;
        Some(PathBuf::from(String::from_utf8_lossy(value).into_owned()))
    });
    named.chain([dir]).any(|place| roots.iter().any(|root| place.starts_with(root)))
}

/// The git directory that contains a lock, and all its worktrees.
fn roots_around(place: &Path) -> Vec<PathBuf> {
    let is_common = |dir: &&Path| dir.join("objects").is_dir() && dir.join("refs").exists();
    let Some(common) = place.ancestors().skip(1).find(is_common) else {
        return vec![PathBuf::from("/")];
    };
    let mut roots = vec![common.to_owned()];
    roots.extend(registration_of(common).and_then(checkout_path));
    if common.file_name().is_some_and(|name| name == ".git") {
        roots.extend(common.parent().map(Path::to_owned));
    }
    let linked = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten();
    roots.extend(linked.filter_map(|admin| checkout_path(&admin.path())));
    roots
}

/// Removes exactly the file that was judged: if two processes do this at once, the second finds it gone.
fn remove(place: &Path, judged: &fs::Metadata) -> bool {
    let Ok(Some(held)) = FileLock::if_free_at(place) else { return false };
    let same = place.symlink_metadata().is_ok_and(|now| {
        (now.dev(), now.ino(), now.mtime(), now.mtime_nsec())
            == (judged.dev(), judged.ino(), judged.mtime(), judged.mtime_nsec())
    });
    held.is_at(place) && same && fs::remove_file(place).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_that_git_names_is_found() {
        let said = "fatal: cannot lock ref 'refs/regatta/salvage/a/1': Unable to create '/r/.git/refs/regatta/salvage/a/1.lock': File exists.\n\nAnother git process";
        assert_eq!(named_in(said), Some(PathBuf::from("/r/.git/refs/regatta/salvage/a/1.lock")));
        assert_eq!(named_in("fatal: bad object"), None);
    }

    #[test]
    fn only_our_refs_and_lanes_are_ours() {
        for ours in [
            "/r/.git/refs/regatta/keep/a/1.lock",
            "/r/.git/refs/heads/regatta/a.lock",
            "/r/.git/worktrees/regatta-a/index.lock",
        ] {
            assert!(is_ours(Path::new(ours)), "{ours}");
        }
        for theirs in [
            "/r/.git/refs/heads/main.lock",
            "/r/.git/HEAD.lock",
            "/r/.git/packed-refs.lock",
            "/r/.git/worktrees/mine/index.lock",
            "/regatta/.git/index.lock",
        ] {
            assert!(!is_ours(Path::new(theirs)), "{theirs}");
        }
    }

    #[test]
    fn a_lock_that_is_open_is_held_and_one_that_nobody_has_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        for sub in ["objects", "refs/regatta"] {
            fs::create_dir_all(dir.path().join(sub)).expect("a directory");
        }
        let lock = dir.path().join("refs/regatta/x.lock");
        let file = fs::File::create(&lock).expect("a file");
        file.set_modified(SystemTime::now() - Duration::from_secs(60)).expect("old");
        assert!(!clear(&lock, None), "this process has it open");
        drop(file);
        assert!(clear(&lock, None));
        assert!(!lock.exists());
    }
}
