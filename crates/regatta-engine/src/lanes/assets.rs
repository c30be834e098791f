//! The `.claude` of a parallel-orchestra project, copied to the root of a lane as that tool copies it.
//!
//! Left out, as there: `CLAUDE.md`, `settings.json`, `logs`, `memory`, and of `reports` everything but
//! `plan-report-*.md`. Unlike there, nothing replaces a tracked file, and no copied file is ever committed: see
//! `bring_in`.

use std::fs;
use std::path::{Path, PathBuf};

use super::bring_in::is_tracked;
use super::{Lane, Lanes};
use crate::git::{GitError, absent_is_none, io};

/// Names that are not copied.
const LEFT_OUT: [&str; 4] = ["CLAUDE.md", "settings.json", "logs", "memory"];
/// Maximum depth of directories.
const DEEPEST: usize = 16;

impl Lanes {
    /// Copies the files of `from` to the lane's `.claude`. Does nothing if `from` does not exist.
    pub(crate) fn bring_assets(&self, lane: &Lane, from: &Path) -> Result<Vec<PathBuf>, GitError> {
        let mut found = Vec::new();
        walk(from, Path::new(""), 0, &mut found)?;
        let tracked = self.tracked_in_base(lane)?;
        let place = |path: &PathBuf| Path::new(".claude").join(path);
        found.retain(|path| {
            let at = place(path);
            !is_tracked(&at, &tracked) && lane.path.join(&at).symlink_metadata().is_err()
        });
        if found.is_empty() {
            return Ok(found);
        }
        // Recorded before anything is written: a crash in between must not turn a secret into work.
        let mut brought_in = self.load_brought_in(&lane.task)?;
        brought_in.extend(found.iter().map(place));
        self.save_brought_in(&lane.task, &brought_in)?;
        let mut copied = Vec::new();
        for path in found {
            if let Ok(to) = self.free_place(lane, &place(&path), &tracked)? {
                let from = from.join(&path);
                fs::copy(&from, &to).map_err(io("copy", &from))?;
                copied.push(to);
            }
        }
        Ok(copied)
    }
}

/// Regular files below `root`, relative to it. Links are not followed.
fn walk(root: &Path, below: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), GitError> {
    let dir = root.join(below);
    let Some(entries) = absent_is_none(fs::read_dir(&dir)).map_err(io("read", &dir))? else { return Ok(()) };
    for entry in entries {
        let entry = entry.map_err(io("read", &dir))?;
        let kind = entry.file_type().map_err(io("read", &dir))?;
        let path = below.join(entry.file_name());
        if is_left_out(&path) {
            continue;
        }
        if kind.is_dir() && depth < DEEPEST {
            walk(root, &path, depth + 1, found)?;
        } else if kind.is_file() {
            found.push(path);
        }
    }
    Ok(())
}

fn is_left_out(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if name.eq_ignore_ascii_case(".git") {
        return true;
    }
    match path.parent() {
        Some(parent) if parent == Path::new("") => LEFT_OUT.contains(&name),
        Some(parent) if parent == Path::new("reports") => {
            !(name.starts_with("plan-report-") && name.ends_with(".md"))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_the_project_alone_is_left_out() {
        let left_out = |path: &str| is_left_out(Path::new(path));
        for path in
            ["CLAUDE.md", "settings.json", "logs", "memory", "reports/test-report-1.md", "skills/.git"]
        {
            assert!(left_out(path), "{path}");
        }
        for path in
            ["agents", "agents/CLAUDE.md", "settings.local.json", "reports", "reports/plan-report-1.md"]
        {
            assert!(!left_out(path), "{path}");
        }
    }
}
