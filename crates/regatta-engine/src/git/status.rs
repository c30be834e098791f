//! Uncommitted changes in a worktree, regardless of the user's own status settings.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::worktrees::is_in_lane;
use super::{CommandPlace, GitError, Oid, Work};

/// How a path differs from HEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Tracked; content, mode or type differ.
    Changed,
    /// Tracked, and gone from the worktree or from the index.
    Deleted,
    /// Not tracked and not ignored.
    Untracked,
    /// In conflict.
    Unmerged,
}

/// One path that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Relative to the worktree.
    pub path: PathBuf,
    /// The kind of difference.
    pub kind: ChangeKind,
    /// The index differs from HEAD *and* the file differs from the index: three states to keep.
    pub staged_otherwise: bool,
}

/// All differences from HEAD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Files, in git's order.
    pub changes: Vec<Change>,
    /// Untracked directories that are repositories themselves; git does not see their content here.
    pub nested: Vec<PathBuf>,
}

impl Status {
    /// True if there is nothing to save.
    pub fn is_clean(&self) -> bool {
        self.changes.is_empty() && self.nested.is_empty()
    }

    /// Keeps only the paths that `keep` accepts.
    pub(crate) fn filtered(mut self, keep: impl Fn(&Path) -> bool) -> Self {
        self.changes.retain(|change| keep(&change.path));
        self.nested.retain(|path| keep(path));
        self
    }
}

impl Work {
    /// Tracked and untracked differences from `head`. Submodules count by their commit; changes inside one are examined
    /// separately, because git would use the submodule's own (agent-writable) configuration for that.
    pub(crate) fn status(&self, worktree: &Path, git_dir: &Path, head: &Oid) -> Result<Status, GitError> {
        let (index, objects) = (git_dir.join("index"), self.objects_dir());
        self.status_at(&CommandPlace { worktree, index: &index, objects: &objects, head: Some(head) })
    }

    /// The same with a given index.
    pub(crate) fn status_at(&self, place: &CommandPlace<'_>) -> Result<Status, GitError> {
        let flags = ["--porcelain=v2", "-z", "--untracked-files=all", "--ignored=no", "--no-renames"];
        // In a user's checkout not even the index is touched; in a lane, a refreshed index speeds up the next call.
        let lane = is_in_lane(place.index);
        let command = self.at_place(place)?.env("GIT_OPTIONAL_LOCKS", if lane { "1" } else { "0" });
        parse(&command.arg("status").args(flags).arg("--ignore-submodules=dirty").bytes()?)
    }
}

/// Parses `git status --porcelain=v2 -z`.
fn parse(listed: &[u8]) -> Result<Status, GitError> {
    let mut status = Status::default();
    for line in listed.split(|b| *b == 0).filter(|line| !line.is_empty()) {
        let odd = || GitError::Unexpected {
            command: "git status".into(),
            what: format!("line {:?}", String::from_utf8_lossy(line)),
        };
        let (kind, fields) = match line[0] {
            b'1' => (ChangeKind::Changed, 9),
            b'u' => (ChangeKind::Unmerged, 11),
            b'?' => (ChangeKind::Untracked, 2),
            b'#' | b'!' => continue,
            _ => return Err(odd()),
        };
        // The path comes last and may contain spaces, so the line is split a fixed number of times.
        let mut parts = line.splitn(fields, |b| *b == b' ');
        let xy = parts.nth(1).ok_or_else(odd)?;
        let path = if fields == 2 { xy } else { parts.last().ok_or_else(odd)? };
        if kind == ChangeKind::Untracked {
            match path.strip_suffix(b"/") {
                Some(dir) => status.nested.push(OsStr::from_bytes(dir).into()),
                None => status.changes.push(change(path, kind, false)),
            }
            continue;
        }
        let (x, y) = (xy[0], *xy.get(1).ok_or_else(odd)?);
        let gone = kind == ChangeKind::Changed && (y == b'D' || (x == b'D' && y == b'.'));
        let kind = if gone { ChangeKind::Deleted } else { kind };
        status.changes.push(change(path, kind, x != b'.' && y != b'.'));
    }
    Ok(status)
}

fn change(path: &[u8], kind: ChangeKind, staged_otherwise: bool) -> Change {
    Change { path: OsStr::from_bytes(path).into(), kind, staged_otherwise }
}
