//! What the machine provides: directories, disk space, the means to end processes.

use std::path::Path;

use rustix::fs::{Access, access, statvfs};

use super::Finding;
use crate::project::Project;

const GIB: u64 = 1024 * 1024 * 1024;
/// With less free space than this, a run is about to fail.
const LITTLE: u64 = GIB / 10;
/// With less free space than this, or less than a twentieth, a run may fail.
const ENOUGH: u64 = 2 * GIB;

/// Checks `.regatta` and the line that keeps it out of git.
pub(super) fn state_dir(project: &Project, fix: bool) -> Vec<Finding> {
    let dir = &project.repo.state_dir;
    let exclude = project.repo.common_dir.join("info/exclude");
    let excluded =
        std::fs::read_to_string(exclude).unwrap_or_default().lines().any(|line| line == "/.regatta/");
    let place = dir.display();
    let finding = match (dir.is_dir(), excluded) {
        (false, _) if std::fs::symlink_metadata(dir).is_ok() => Finding::error(
            "state",
            format!("{place} is not a directory, so Regatta cannot keep its state there"),
        )
        .hinted(format!("look at it, and move it aside: mv {place} {place}.old")),
        (true, _) if access(dir, Access::READ_OK | Access::EXEC_OK).is_err() => {
            Finding::error("state", format!("{place} cannot be read"))
                .hinted(format!("`ls -ld {place}` shows whose it is; if it is yours: chmod u+rwx {place}"))
        }
        (true, true) if access(dir, Access::WRITE_OK).is_err() => {
            Finding::error("state", format!("{place} cannot be written"))
                .hinted(format!("make it yours: chown -R \"$USER\" {place}"))
        }
        (true, true) => Finding::ok("state", format!("{place}, kept out of git")),
        (false, _) => Finding::warning("state", format!("{place} does not exist yet")),
        (true, false) => Finding::warning("state", format!("{place} is not in .git/info/exclude")),
    };
    if finding.status == super::Level::Ok || finding.status == super::Level::Error {
        return vec![finding];
    }
    if !fix {
        return vec![finding.hinted("`regatta doctor --fix` fixes it, and so does a run")];
    }
    vec![match project.make_state_dir() {
        Ok(()) => finding.fixed(),
        Err(error) => Finding::from_error("state", error),
    }]
}

/// Free space for the state and for the lanes.
pub(super) fn disk(project: &Project) -> Vec<Finding> {
    let lanes = project.lanes_root();
    [("disk", project.repo.state_dir.as_path()), ("lanes disk", lanes.as_path())]
        .into_iter()
        .filter_map(|(check, path)| Some(room(check, path.ancestors().find(|path| path.is_dir())?)))
        .collect()
}

fn room(check: &'static str, dir: &Path) -> Finding {
    let stat = match statvfs(dir) {
        Ok(stat) => stat,
        Err(error) => return Finding::warning(check, format!("{}: {error}", dir.display())),
    };
    let (free, all) = (stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize);
    let text = format!("{:.1} GiB free at {}", free as f64 / GIB as f64, dir.display());
    let hint = "free some space; `regatta lane list` shows the lanes, each a full checkout";
    match free {
        free if free < LITTLE => Finding::error(check, text).hinted(hint),
        free if free < ENOUGH.max(all / 20) => Finding::warning(check, text).hinted(hint),
        _ => Finding::ok(check, text),
    }
}

/// How the processes of an agent are found when they have to be ended.
pub(super) fn kill_level() -> Finding {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group =
        own.lines().find_map(|line| line.strip_prefix("0::")).map(|path| format!("/sys/fs/cgroup{path}"));
    let delegated =
        group.is_some_and(|group| access(Path::new(&group).join("cgroup.procs"), Access::WRITE_OK).is_ok());
    let also = if delegated { "; separate cgroups would also be possible" } else { "" };
    Finding::ok("processes", format!("process trees are ended by sub-reaper and marker{also}"))
}
