//! `git gc` beside the train, by git's own rule: only the process that is named in `gc.pid` collects.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::git::GitError;

/// Longest wait for a `git gc` that runs.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks for it.
const LOOK: Duration = Duration::from_millis(1);

/// Those that this process has taken: any number of its tasks share one.
static TAKEN: Mutex<Vec<(PathBuf, Weak<Taken>)>> = Mutex::new(Vec::new());

/// Keeps every `git gc` from beginning, until it is dropped; a crash ends it, too. Only taken where one has just been in
/// the way: a user's `git gc` says meanwhile that another one runs.
#[derive(Clone, Debug)]
pub(crate) struct GcGuard {
    _taken: Arc<Taken>,
}

#[derive(Debug)]
struct Taken(PathBuf);

impl GcGuard {
    /// Waits for a `git gc` that runs; `None` where that takes too long.
    pub(crate) fn take(common_dir: &Path) -> Option<Self> {
        let path = common_dir.join("gc.pid");
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let content = format!("{} {}", std::process::id(), host.trim());
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
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
            std::thread::sleep(LOOK);
        }
        None
    }
}

/// By git's own steps: only the process that has the lock file may replace `gc.pid`. Whether it was done; `None` where it
/// cannot be.
fn put_in_place(path: &Path, content: &[u8]) -> Option<bool> {
    let lock = path.with_extension("pid.lock");
    let mut file = match fs::OpenOptions::new().write(true).create_new(true).open(&lock) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Some(false),
        Err(_) => return None,
    };
    // One may have begun before the lock was ours. What a killed one left is replaced.
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

/// Whether a `git gc` runs now.
pub(crate) fn is_at_work(common_dir: &Path) -> bool {
    is_running(&common_dir.join("gc.pid"))
}

fn pid(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.split(' ').next()?.parse().ok()
}

fn is_running(path: &Path) -> bool {
    pid(path).is_some_and(|pid| Path::new("/proc").join(pid.to_string()).exists())
}

/// Waits for a `git gc` that runs now: it decided before the target moved what nobody needs.
pub(crate) fn wait_for_gc(common_dir: &Path) {
    let (begun, path) = (Instant::now(), common_dir.join("gc.pid"));
    let others = || pid(&path) != Some(std::process::id()) && is_running(&path);
    while begun.elapsed() < PATIENCE && others() {
        std::thread::sleep(LOOK);
    }
}

/// Tells whether a `git gc` was at work since it was made, at the price of a look at two files.
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

    /// It may say yes where only packs were written.
    pub(crate) fn was_at_work(&self) -> bool {
        self.before.0 || self.pid.exists() || changed(&self.packs) != self.before.1
    }
}

/// Whether a `git gc` can have been in the way of something since it began.
#[derive(Debug)]
pub(super) enum Gc {
    /// None could begin.
    KeptOff,
    /// This tells.
    Watched(GcWatch),
}

impl Gc {
    /// Something begins now, under this guard if there is one.
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
