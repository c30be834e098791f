//! **The lane itself shows whether a process works in it.** The shim locks one file per task, in the repository's own
//! git directory, through a descriptor that the whole tree inherits. The kernel keeps the lock for exactly as long as
//! one process has it open: across the deaths of shims and engines, pid namespaces, host names, and whatever a user
//! deletes of `.regatta`. No tree is started while the lock is held: the holding tree is ended first.
//!
//! Some programs close unknown descriptors before they start others. What such a program left is found by the marker in
//! its environment.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::Signal;

use super::tree::{self, MARKER, Member, Sent};

/// How long a shim waits for a lock that another process only checks.
const LOOKED_AT: Duration = Duration::from_secs(2);
/// How long a killed process may take to disappear.
const GOING: Duration = Duration::from_secs(15);
/// Interval between two checks.
const HOLD_INTERVAL: Duration = Duration::from_millis(20);

/// The result of clearing a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vacated {
    /// No process is left; this many were ended.
    Free(usize),
    /// A process holds it that cannot be seen or ended from here.
    Held,
}

/// Takes the lock for a tree: every process that inherits the descriptor holds it.
pub(crate) fn take(path: &Path) -> Result<File, String> {
    let at = |error: io::Error| format!("{}: {error}", path.display());
    let begun = Instant::now();
    loop {
        if let Some(file) = lock(path).map_err(at)? {
            fcntl_setfd(&file, FdFlags::empty()).map_err(|error| at(error.into()))?;
            return Ok(file);
        }
        if begun.elapsed() > LOOKED_AT {
            return Err(format!("another process tree works in this lane ({} is locked)", path.display()));
        }
        std::thread::sleep(HOLD_INTERVAL);
    }
}

/// The lock, if it is free.
fn lock(path: &Path) -> io::Result<Option<File>> {
    if let Some(dir) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    // An agent inherits the descriptor: it is to hold the lock, not to write.
    let mut access = OFlags::RDONLY;
    loop {
        let flags = access | OFlags::CREATE | OFlags::CLOEXEC;
        let file = File::from(open(path, flags, Mode::RUSR | Mode::WUSR)?);
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // A network file system locks only what can be written to.
            Err(Errno::BADF) if access == OFlags::RDONLY => access = OFlags::WRONLY | OFlags::APPEND,
            // The previous holder may have deleted the file that we opened.
            Ok(()) if is_at(&file, path) => return Ok(Some(file)),
            Ok(()) | Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let place = |meta: fs::Metadata| (meta.dev(), meta.ino());
    let (ours, there) = (file.metadata().map(place), fs::metadata(path).map(place));
    matches!((ours, there), (Ok(ours), Ok(there)) if ours == there)
}

/// Whether a tree holds it.
pub(crate) fn is_held(path: &Path) -> bool {
    path.exists() && matches!(lock(path), Ok(None))
}

/// Removes the file once it is not needed.
pub(crate) fn discard(path: &Path) {
    if path.exists()
        && let Ok(Some(_held)) = lock(path)
    {
        // Removed while it is locked: see `lock`.
        let _ = fs::remove_file(path);
    }
}

/// Ends the processes that hold the lock at `path`, or carry the marker of a run of `task` in `lane`. Blocks; takes
/// milliseconds if there are none.
pub(crate) fn vacate(
    path: &Path,
    task: &str,
    lane: Option<&Path>,
    look_for_marks: bool,
) -> io::Result<Vacated> {
    let mut killed: HashSet<Member> = HashSet::new();
    let begun = Instant::now();
    let look_for_marks = look_for_marks || path.exists();
    let of_lane = |member: Member| lane.is_none_or(|lane| carries(member, "REGATTA_LANE=", lane));
    let run = format!("{MARKER}={task}.").into_bytes();
    loop {
        let is_free = lock(path)?.is_some();
        let mut found = if is_free { HashSet::new() } else { holders(path) };
        if look_for_marks && lane.is_some() {
            let marked = tree::carrying(|entry| entry.starts_with(&run));
            found.extend(marked.into_iter().filter(|member| of_lane(*member)));
        }
        found.retain(|member| member.signal(Signal::STOP) == Sent::Delivered);
        for member in &found {
            if member.signal(Signal::KILL) == Sent::Delivered {
                killed.insert(*member);
            }
        }
        if is_free && found.is_empty() {
            return Ok(Vacated::Free(killed.len()));
        }
        if begun.elapsed() > GOING {
            return Ok(Vacated::Held);
        }
        std::thread::sleep(HOLD_INTERVAL);
    }
}

fn carries(member: Member, name: &str, path: &Path) -> bool {
    let mut wanted = name.as_bytes().to_vec();
    wanted.extend(path.as_os_str().as_bytes());
    let environ = fs::read(format!("/proc/{}/environ", member.pid)).unwrap_or_default();
    environ.split(|byte| *byte == 0).any(|entry| entry == wanted)
}

/// All other processes that have the file at `path` open.
fn holders(path: &Path) -> HashSet<Member> {
    let place = |path: &Path| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    let Some(wanted) = place(path) else { return HashSet::new() };
    let has_it = |pid: u32| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.into_iter().any(|entry| place(&entry.path()) == Some(wanted))
    };
    tree::everybody_else().filter(|member| has_it(member.pid)).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_tree_holds_its_lane_until_its_last_process_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("locks/t.lock");
        assert_eq!(vacate(&path, "t", None, true).unwrap(), Vacated::Free(0));
        fs::create_dir_all(dir.path().join("locks")).unwrap();
        // The shell ends at once, and what it started lives on with the descriptor. This process never has it: children
        // of other tests would inherit it.
        let script = "exec 9>>\"$0\"; flock 9; sleep 600 & sleep 600 &";
        let mut shell = Command::new("sh").args(["-c", script]).arg(&path).spawn().unwrap();
        shell.wait().unwrap();
        assert!(is_held(&path));
        discard(&path);
        assert!(path.exists(), "nobody takes away what is held");
        assert_eq!(vacate(&path, "t", None, true).unwrap(), Vacated::Free(2));
        assert!(!is_held(&path));
        discard(&path);
        assert!(!path.exists());
        let mut held = lock(&dir.path().join("another")).unwrap().unwrap();
        assert!(io::Write::write(&mut held, b"x").is_err(), "who inherits it cannot write");
    }

    #[test]
    fn who_closed_the_descriptor_is_found_by_its_mark() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.lock");
        let start = |lane: &str, run: &str| {
            let mut command = Command::new("sleep");
            command.arg("600").env(MARKER, run).env("REGATTA_LANE", lane).spawn().unwrap()
        };
        let (mut ours, mut elsewhere, mut other) =
            (start("/lanes/t", "t.3.run-1"), start("/other/t", "t.3.run-1"), start("/lanes/t", "u.1.run-1"));
        // Its environment is visible only once it has become `sleep`.
        while !carries_name(ours.id()) || !carries_name(elsewhere.id()) || !carries_name(other.id()) {
            std::thread::sleep(HOLD_INTERVAL);
        }
        assert_eq!(vacate(&path, "t", Some(Path::new("/lanes/t")), true).unwrap(), Vacated::Free(1));
        ours.wait().unwrap();
        for stranger in [&mut elsewhere, &mut other] {
            assert!(stranger.try_wait().unwrap().is_none(), "not ours to end");
            stranger.kill().unwrap();
            stranger.wait().unwrap();
        }
    }

    fn carries_name(pid: u32) -> bool {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep"))
    }
}
