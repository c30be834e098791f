//! Every worktree of a repository, read from git's own files.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::{GitError, Repo, absent_is_none, io, refs};

/// Prefix of the admin directories of Regatta's own lanes.
pub(crate) const LANE_PREFIX: &str = "regatta-";

/// One worktree and its HEAD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkout {
    /// Its directory.
    pub path: PathBuf,
    /// Its own git directory.
    pub git_dir: PathBuf,
    /// The full name of the branch it is on.
    pub on: Option<String>,
    /// Whether it is a lane of Regatta's.
    pub is_lane: bool,
}

/// An operation that a user has started and not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Merge,
    Rebase,
    CherryPick,
    Revert,
    ApplyMailbox,
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Merge => "merge",
            Self::Rebase => "rebase",
            Self::CherryPick => "cherry-pick",
            Self::Revert => "revert",
            Self::ApplyMailbox => "am",
        })
    }
}

impl Operation {
    /// The unfinished operation in the worktree with this git directory.
    pub(crate) fn under_way(git_dir: &Path) -> Option<Self> {
        let there = |name: &str| git_dir.join(name).exists();
        match () {
            () if there("rebase-merge") => Some(Self::Rebase),
            () if there("rebase-apply/applying") => Some(Self::ApplyMailbox),
            () if there("rebase-apply") => Some(Self::Rebase),
            () if there("MERGE_HEAD") => Some(Self::Merge),
            () if there("CHERRY_PICK_HEAD") => Some(Self::CherryPick),
            () if there("REVERT_HEAD") => Some(Self::Revert),
            () => None,
        }
    }
}

impl Checkout {
    /// Whether it is on this branch, or in the middle of rebasing it.
    pub(crate) fn holds(&self, full_name: &str) -> bool {
        let rebasing =
            |dir: &str| fs::read_to_string(self.git_dir.join(dir).join("head-name")).unwrap_or_default();
        self.on.as_deref() == Some(full_name)
            || ["rebase-merge", "rebase-apply"].iter().any(|dir| rebasing(dir).trim() == full_name)
    }
}

impl Repo {
    /// The main worktree and every linked one whose directory still exists.
    pub fn checkouts(&self) -> Result<Vec<Checkout>, GitError> {
        let mut found = Vec::new();
        if let Some(path) = &self.main_worktree {
            let on = self.symbolic_head(&self.common_dir)?;
            found.push(Checkout { path: path.clone(), git_dir: self.common_dir.clone(), on, is_lane: false });
        }
        let admin_root = self.common_dir.join("worktrees");
        let Some(entries) = absent_is_none(fs::read_dir(&admin_root)).map_err(io("list", &admin_root))?
        else {
            return Ok(found);
        };
        for entry in entries {
            let git_dir = entry.map_err(io("list", &admin_root))?.path();
            // A worktree that is being removed may vanish between two reads.
            let Some(path) = checkout_path(&git_dir) else { continue };
            let Ok(on) = self.symbolic_head(&git_dir) else { continue };
            let is_lane =
                git_dir.file_name().is_some_and(|name| name.as_bytes().starts_with(LANE_PREFIX.as_bytes()));
            if path.is_dir() {
                found.push(Checkout { path, git_dir, on, is_lane });
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    fn symbolic_head(&self, git_dir: &Path) -> Result<Option<String>, GitError> {
        refs::symbolic_target(self, git_dir, "HEAD")
    }
}

/// Whether a file is in the git directory of a lane, shared or its own.
pub(crate) fn is_in_lane(file: &Path) -> bool {
    let is_lane = |dir: &Path| {
        dir.file_name().is_some_and(|name| name.as_bytes().starts_with(LANE_PREFIX.as_bytes()))
            && dir.parent().is_some_and(|above| above.file_name() == Some("worktrees".as_ref()))
    };
    file.ancestors().skip(1).take(2).any(is_lane)
}

/// The registration that contains a lane's own git directory; `None` for any other git directory.
pub(crate) fn registration_of(git_dir: &Path) -> Option<&Path> {
    let admin = git_dir.parent().filter(|_| git_dir.file_name() == Some("git".as_ref()))?;
    (is_in_lane(git_dir) && admin.join("commondir").is_file() && admin.join("gitdir").is_file())
        .then_some(admin)
}

/// The worktree directory that an admin directory belongs to.
pub(crate) fn checkout_path(admin: &Path) -> Option<PathBuf> {
    let dot_git = read_path(&admin.join("gitdir"))?;
    let dot_git = if dot_git.is_relative() { normal(&admin.join(dot_git)) } else { dot_git };
    dot_git.parent().map(Path::to_owned)
}

/// The git directory of the worktree at `path`: `.git` itself, or the one named in the `.git` file.
pub(crate) fn git_dir_of(path: &Path) -> Result<Option<PathBuf>, GitError> {
    let dot_git = path.join(".git");
    let Some(meta) = absent_is_none(fs::symlink_metadata(&dot_git)).map_err(io("look at", &dot_git))? else {
        return Ok(None);
    };
    if meta.is_dir() {
        return Ok(Some(dot_git));
    }
    if meta.is_symlink() {
        return Ok(fs::canonicalize(&dot_git).ok());
    }
    let content = fs::read(&dot_git).map_err(io("read", &dot_git))?;
    let Some(target) = content.strip_prefix(b"gitdir: ") else { return Ok(None) };
    let target = PathBuf::from(OsStr::from_bytes(target.trim_ascii_end()));
    Ok(Some(if target.is_relative() { normal(&path.join(target)) } else { target }))
}

fn read_path(file: &Path) -> Option<PathBuf> {
    let content = fs::read(file).ok()?;
    Some(PathBuf::from(OsStr::from_bytes(content.trim_ascii_end())))
}

/// Resolves `..` and `.` lexically, without following links.
pub(crate) fn normal(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = out.pop(),
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}
