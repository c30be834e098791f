//! `git gc` beside the train, by git's own rule: only the process that is named in `gc.pid` collects.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::git::unique_suffix;

/// Longest wait for a `git gc` that runs.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks for it.
const LOOK: Duration = Duration::from_millis(1);

/// Keeps every `git gc` from beginning, until it is dropped; a crash ends it, too. Only taken where one has just been in
/// the way: a user's `git gc` says meanwhile that another one runs.
#[derive(Debug)]
pub(crate) struct GcGuard(PathBuf);

impl GcGuard {
    /// Waits for a `git gc` that runs; `None` where that takes too long.
    pub(crate) fn take(common_dir: &Path) -> Option<Self> {
        let path = common_dir.join("gc.pid");
        let aside = common_dir.join(format!("gc.pid.regatta-{}", unique_suffix()));
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        fs::write(&aside, format!("{} {}", std::process::id(), host.trim())).ok()?;
        let begun = Instant::now();
        let taken = loop {
            match fs::hard_link(&aside, &path) {
                Ok(()) => break true,
                Err(error) if error.kind() == ErrorKind::AlreadyExists && begun.elapsed() < PATIENCE => {
                    match is_running(&path) {
                        true => std::thread::sleep(LOOK),
                        // What a killed one left.
                        false => drop(fs::remove_file(&path)),
                    }
                }
                Err(_) => break false,
            }
        };
        fs::remove_file(&aside).ok();
        taken.then_some(Self(path))
    }
}

impl Drop for GcGuard {
    fn drop(&mut self) {
        if pid(&self.0) == Some(std::process::id()) {
            fs::remove_file(&self.0).ok();
        }
    }
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

fn changed(path: &Path) -> Option<std::time::SystemTime> {
    fs::metadata(path).and_then(|meta| meta.modified()).ok()
}
