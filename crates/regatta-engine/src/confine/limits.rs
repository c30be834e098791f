//! How many processes and how much memory the program may have.
//!
//! `RLIMIT_NPROC` counts per user and user namespace, so at the full level it counts this sandbox alone. Root is exempt
//! from it; for root the number of pids of the namespace is limited where the kernel can. Memory is limited by a cgroup
//! of its own where this user may make one. In every case the program is the first to go when memory runs out.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use regatta_core::sandbox::Confinement;
use rustix::process::{Resource, Rlimit, setrlimit};

use super::report::Weaker;

/// Higher than what a desktop gives its programs, lower than "always".
const OOM_SCORE: &str = "500";
/// The lowest number of pids that a namespace may be limited to.
const FEWEST_PIDS: u64 = 400;

/// Lets the kernel end this process, and what it starts, before other programs.
pub(super) fn first_to_go() {
    // Refused only where it is higher already.
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
}

/// Limits the number of processes of the namespaces that this process is the first of.
pub(super) fn processes(document: &Confinement, has_own_proc: bool) -> Option<Weaker> {
    let most = document.processes?;
    let refused = |error: io::Error| Some(Weaker::Processes { why: error.to_string() });
    if rustix::process::geteuid().is_root() {
        if !has_own_proc {
            return refused(rustix::io::Errno::ROFS.into());
        }
        // Before that it is the machine's, which root could change from here.
        let is_own = kernel_at_least(6, 14);
        let limited = if is_own { pid_max(most) } else { Err(io::ErrorKind::Unsupported.into()) };
        return limited.err().and_then(refused);
    }
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    setrlimit(Resource::Nproc, limit).err().and_then(|error| refused(error.into()))
}

/// Whether the running kernel has this version or a later one.
fn kernel_at_least(major: u32, minor: u32) -> bool {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (major, minor)
}

/// Since Linux 6.14 each pid namespace has its own.
fn pid_max(most: u64) -> io::Result<()> {
    fs::write("/proc/sys/kernel/pid_max", most.max(FEWEST_PIDS).to_string())
}

/// A cgroup of its own with this much memory, if there is one that this user may make.
pub(super) fn cgroup(document: &Confinement) -> Option<PathBuf> {
    let memory = document.memory?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let name = format!("regatta-{}", std::process::id());
    cgroup_below(Path::new("/sys/fs/cgroup"), Path::new(own), &name, memory, document.processes)
}

/// Tries this process's own cgroup, and the one above it: a cgroup that has processes cannot distribute memory.
fn cgroup_below(root: &Path, own: &Path, name: &str, memory: u64, processes: Option<u64>) -> Option<PathBuf> {
    for parent in own.ancestors().take(2) {
        let parent = root.join(parent);
        if !parent.join("cgroup.controllers").exists() {
            continue;
        }
        let made = parent.join(name);
        // Left by an earlier process with this number; one in use cannot be removed.
        let _ = fs::remove_dir(&made);
        if fs::create_dir(&made).is_err() {
            continue;
        }
        if made.join("memory.max").exists() && fs::write(made.join("memory.max"), memory.to_string()).is_ok()
        {
            // Otherwise it would only become slow. Both are missing on some kernels.
            let _ = fs::write(made.join("memory.swap.max"), "0");
            let _ = fs::write(made.join("memory.oom.group"), "1");
            if let Some(processes) = processes {
                let _ = fs::write(made.join("pids.max"), processes.to_string());
            }
            return Some(made);
        }
        let _ = fs::remove_dir(&made);
    }
    None
}

/// Moves this process into a cgroup; false if that is refused.
pub(super) fn enter(cgroup: &Path) -> bool {
    fs::write(cgroup.join("cgroup.procs"), "0").is_ok()
}

/// Removes a cgroup whose processes have ended.
pub(crate) fn remove(cgroup: &Path) {
    let _ = fs::remove_dir(cgroup);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_that_cannot_limit_memory_is_not_left_behind() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("user.slice/app.scope");
        fs::create_dir_all(&own).unwrap();
        for dir in [own.as_path(), own.parent().unwrap()] {
            fs::write(dir.join("cgroup.controllers"), "cpu\n").unwrap();
        }
        assert_eq!(cgroup_below(root.path(), Path::new("user.slice/app.scope"), "regatta-7", 1, None), None);
        assert!(!own.join("regatta-7").exists() && !root.path().join("user.slice/regatta-7").exists());
        // A machine without the unified hierarchy.
        assert_eq!(cgroup_below(root.path(), Path::new("elsewhere"), "regatta-7", 1, None), None);
    }

    #[test]
    fn versions_of_kernels_are_compared_as_numbers() {
        assert!(kernel_at_least(3, 9) && !kernel_at_least(1000, 0));
    }
}
