//! Finds processes that still use a directory.

use std::fs;
use std::path::Path;

/// A visible process, other than this one, that has its working directory or root in `dir`, runs a program from it or
/// has a file of it open.
pub(super) fn holder(dir: &Path) -> Option<u32> {
    // Without /proc this is unknown: assume that one does.
    let Ok(processes) = fs::read_dir("/proc") else { return Some(0) };
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id()).find(|pid| holds(*pid, dir))
}

fn holds(pid: u32, dir: &Path) -> bool {
    let process = Path::new("/proc").join(pid.to_string());
    let leads_here = |link: &Path| fs::read_link(link).is_ok_and(|target| target.starts_with(dir));
    ["cwd", "root", "exe"].iter().any(|name| leads_here(&process.join(name)))
        || fs::read_dir(process.join("fd")).is_ok_and(|fds| fds.flatten().any(|fd| leads_here(&fd.path())))
}
