//! `git gc` beside the train, by git's own rule: only the process named in `gc.pid` may collect.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::git::GitError;

/// Longest wait for a running `git gc`.
const GC_PATIENCE: Duration = Duration::from_secs(10);
/// Interval between two checks for it.
const GC_INTERVAL: Duration = Duration::from_millis(1);

/// The guards that this process holds: all its tasks share one per repository.
static TAKEN: Mutex<Vec<(PathBuf, Weak<Taken>)>> = Mutex::new(Vec::new());

/// Prevents every `git gc` from starting until it is dropped; a crash ends it, too. Only taken after one has just
/// interfered: meanwhile a user's `git gc` reports that another one is running.
#[derive(Clone, Debug)]
pub(crate) struct GcGuard {
    _taken: Arc<Taken>,
}

#[derive(Debug)]
struct Taken(PathBuf);

impl GcGuard {
    /// Waits for a running `git gc`; `None` if that takes too long.
    pub(crate) fn take(common_dir: &Path) -> Option<Self> {
        let path = common_dir.join("gc.pid");
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let content = format!("{} {}", std::process::id(), host.trim());
        let begun = Instant::now();
        while begun.elapsed() < GC_PATIENCE {
            let mut taken = TAKEN.lock().expect("held for a moment only");
            taken.retain(|(_, taken)| taken.strong_count() > 0);
            let shared = taken.iter().find(|(at, _)| *at == path).and_then(|(_, taken)| taken.upgrade());
            if let Some(shared) = shared {
                return Some(Self { _taken: shared });
            }
            if !is_running(&path) && put_in_place(&path, content.as_bytes())? {
                let held = Arc::new(Taken(path.clone()));
                taken.push((path, Arc::downgrade(&held)));
                return Some(Self { _taken: held });
            }
            drop(taken);
            std::thread::sleep(GC_INTERVAL);
        }
        None
    }
}

/// Follows git's own steps: only the process with the lock file may replace `gc.pid`. Returns whether it was replaced;
/// `None` if it cannot be.
fn put_in_place(path: &Path, content: &[u8]) -> Option<bool> {
    let lock = path.with_extension("pid.lock");
    let mut file = match fs::OpenOptions::new().write(true).create_new(true).open(&lock) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Some(false),
        Err(_) => return None,
    };
    // One may have started before we had the lock. What a killed one left is replaced.
    let free = !is_running(path);
    let done = free && file.write_all(content).is_ok() && fs::rename(&lock, path).is_ok();
    if !done {
        fs::remove_file(&lock).ok();
    }
    if free && !done { None } else { Some(done) }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if pid(&self.0) == Some(std::process::id()) {
            fs::remove_file(&self.0).ok();
        }
    }
}

/// Whether a `git gc` is running.
pub(crate) fn is_at_work(common_dir: &Path) -> bool {
    is_running(&common_dir.join("gc.pid"))
}

fn pid(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.split(' ').next()?.parse().ok()
}

fn is_running(path: &Path) -> bool {
    pid(path).is_some_and(|pid| Path::new("/proc").join(pid.to_string()).exists())
}

/// Waits for a running `git gc`: it decided before the target moved which objects are unused.
pub(crate) fn wait_for_gc(common_dir: &Path) {
    let (begun, path) = (Instant::now(), common_dir.join("gc.pid"));
    let others = || pid(&path) != Some(std::process::id()) && is_running(&path);
    while begun.elapsed() < GC_PATIENCE && others() {
        std::thread::sleep(GC_INTERVAL);
    }
}

/// Detects whether a `git gc` ran since it was created, by checking two files.
#[derive(Debug)]
pub(crate) struct GcWatch {
    pid: PathBuf,
    packs: PathBuf,
    before: (bool, Option<std::time::SystemTime>),
}

impl GcWatch {
    pub(crate) fn new(common_dir: &Path) -> Self {
        let (pid, packs) = (common_dir.join("gc.pid"), common_dir.join("objects/pack"));
        let before = (pid.exists(), changed(&packs));
        Self { pid, packs, before }
    }

    /// May also return true if only packs were written.
    pub(crate) fn was_at_work(&self) -> bool {
        self.before.0 || self.pid.exists() || changed(&self.packs) != self.before.1
    }
}

/// Whether a `git gc` can have interfered since an operation began.
#[derive(Debug)]
pub(super) enum Gc {
    /// None could start.
    KeptOff,
    /// This detects it.
    Watched(GcWatch),
}

impl Gc {
    /// For an operation that starts now, under this guard if there is one.
    pub(super) fn beside(guard: Option<&GcGuard>, common_dir: &Path) -> Self {
        match guard {
            Some(_) => Self::KeptOff,
            None => Self::Watched(GcWatch::new(common_dir)),
        }
    }

    pub(super) fn explains(&self, error: &GitError) -> bool {
        match self {
            Self::KeptOff => false,
            Self::Watched(watch) => error.is_lost_object() || watch.was_at_work(),
        }
    }
}

fn changed(path: &Path) -> Option<std::time::SystemTime> {
    fs::metadata(path).and_then(|meta| meta.modified()).ok()
}
