//! Removes a lane once nothing in it can be lost.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use regatta_core::attempt::Attempt;
use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;

use super::lane_head::someone_stands_in;
use super::removal::remove_tree;
use super::{Lane, Lanes, SalvageRef, heal};
use crate::failpoint;
use crate::git::{GitError, absent_is_none, gigabytes, io, unique_suffix};

/// What to do with work that is still in the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetireMode {
    /// Keep the lane.
    IfClean,
    /// Save the work, then remove the lane.
    SalvageFirst,
    /// Its commits are in the target, maybe as others: only uncommitted work keeps the lane.
    Landed,
}

/// The result for the lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Retired {
    /// It was removed; the ref holds its remaining work.
    Removed { salvaged: Option<SalvageRef> },
    /// It was kept, for this reason.
    Kept(KeptBecause),
    /// It did not exist.
    NoLane,
}

/// Why a lane was not removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptBecause {
    /// Uncommitted work, and the mode was [`RetireMode::IfClean`].
    Uncommitted { paths: Vec<PathBuf> },
    /// Commits that no ref reaches, and the mode was [`RetireMode::IfClean`].
    Unreferenced,
    /// Nested repositories that the agent created: their content cannot be salvaged from here.
    NestedRepository { paths: Vec<PathBuf> },
    /// A submodule with uncommitted work.
    DirtySubmodule { path: PathBuf },
    /// There is more work than is read.
    TooMuch { path: PathBuf, bytes: u64 },
}

impl fmt::Display for KeptBecause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let some = |paths: &[PathBuf]| {
            let shown: Vec<String> = paths.iter().take(3).map(|path| path.display().to_string()).collect();
            let more = if paths.len() > 3 { format!(" and {} more", paths.len() - 3) } else { String::new() };
            shown.join(", ") + &more
        };
        match self {
            KeptBecause::Uncommitted { paths } => write!(f, "uncommitted work in {}", some(paths)),
            KeptBecause::Unreferenced => f.write_str("commits that no branch holds"),
            KeptBecause::NestedRepository { paths } => {
                write!(f, "repositories of its own in {}", some(paths))
            }
            KeptBecause::DirtySubmodule { path } => {
                write!(f, "uncommitted work in the submodule {}", path.display())
            }
            KeptBecause::TooMuch { path, bytes } => {
                let gb = gigabytes(*bytes);
                write!(f, "{gb:.1} GB of uncommitted work, too much to save, most of it {}", path.display())
            }
        }
    }
}

/// How often to recreate a directory that other processes keep removing.
const SWEPT: u32 = 20;

impl Lanes {
    /// Removes the lane of a task, never its unsaved work.
    pub fn retire(&self, task: &TaskId, mode: RetireMode, at: Timestamp) -> Result<Retired, GitError> {
        let Some(record) = self.load_record(task)? else { return Ok(Retired::NoLane) };
        let mut lane = self.lane(task, &record);
        if !record.ready {
            self.unregister(&lane)?;
            return Ok(Retired::Removed { salvaged: None });
        }
        self.clear_traps(&lane)?;
        if heal::ailment(&lane, &record).is_some() {
            self.heal(&mut lane, &record)?;
        }
        self.damage(&lane)?;
        if let Some(why) = self.obstacle(&lane, mode)? {
            return Ok(Retired::Kept(why));
        }
        self.keep_submodule_work(&lane)?;
        self.save_own_refs(&lane)?;
        let why = "before the lane went";
        let salvaged = match mode {
            RetireMode::Landed => None,
            RetireMode::IfClean => self.keep_clean(&lane, why, at)?,
            RetireMode::SalvageFirst => self.salvage(&lane, why, at)?,
        };
        failpoint::reach("lane-saved");
        self.let_go(&lane)?;
        if mode == RetireMode::Landed {
            self.forget_brought_in(task)?;
        }
        Ok(Retired::Removed { salvaged })
    }

    /// Why [`Lanes::retire`] would keep the lane; `None` if it would remove it. Changes nothing, so a broken lane,
    /// which would be healed first, has to be checked again afterwards.
    pub fn would_stay(&self, task: &TaskId, mode: RetireMode) -> Result<Option<KeptBecause>, GitError> {
        match self.load_record(task)? {
            Some(record) if record.ready => self.obstacle(&self.lane(task, &record), mode),
            _ => Ok(None),
        }
    }

    /// How to remove the lane of a task that landed some time ago, given its attempts: what was committed in the lane
    /// since then has not landed.
    pub fn landed_mode(&self, task: &TaskId, attempts: &[Attempt]) -> Result<RetireMode, GitError> {
        let Some(head) = self.find(task)?.and_then(|lane| lane.head().ok()) else {
            return Ok(RetireMode::Landed);
        };
        let mut known = attempts.iter().flat_map(|made| [&made.head, &made.base]).flatten();
        let has_landed =
            known.any(|commit| *commit == head) || (self.work.exists(&head)? && self.is_held(&head)?);
        Ok(if has_landed { RetireMode::Landed } else { RetireMode::IfClean })
    }

    fn obstacle(&self, lane: &Lane, mode: RetireMode) -> Result<Option<KeptBecause>, GitError> {
        if let Some(path) = self.dirty_submodule(lane)? {
            return Ok(Some(KeptBecause::DirtySubmodule { path }));
        }
        let head = self.head_of(lane)?;
        let status = self.own_status(lane, &head, &[])?;
        if !status.nested.is_empty() {
            return Ok(Some(KeptBecause::NestedRepository { paths: status.nested }));
        }
        if mode == RetireMode::SalvageFirst {
            return match self.check_amount(lane, &status) {
                Err(GitError::TooMuch { path, bytes, .. }) => Ok(Some(KeptBecause::TooMuch { path, bytes })),
                checked => checked.map(|()| None),
            };
        }
        if !status.changes.is_empty() {
            let paths = status.changes.into_iter().map(|change| change.path).collect();
            return Ok(Some(KeptBecause::Uncommitted { paths }));
        }
        let unreferenced = mode == RetireMode::IfClean && !self.is_kept(lane, &head)?;
        Ok(unreferenced.then_some(KeptBecause::Unreferenced))
    }

    /// Whether a visible process has its working directory in the lane.
    pub fn in_use(&self, lane: &Lane) -> bool {
        std::env::current_dir().is_ok_and(|dir| dir.starts_with(&lane.path)) || someone_stands_in(&lane.path)
    }

    /// Removes a lane whose work is saved: first out of the way by a rename, then from git, then from the disk.
    pub(super) fn unregister(&self, lane: &Lane) -> Result<(), GitError> {
        let aside = {
            let _one_at_a_time = self.lock_admin()?;
            let aside = self.set_aside(&lane.path, ".trash")?;
            failpoint::reach("lane-set-aside");
            if lane.admin.is_dir() {
                remove_tree(&lane.admin).map_err(io("remove", &lane.admin))?;
            }
            if let Some(worktrees) = lane.admin.parent() {
                fs::remove_dir(worktrees).ok();
            }
            self.forget_record(&lane.task);
            aside
        };
        failpoint::reach("lane-retired");
        self.work.drop_shadow(&lane.path);
        aside.map_or(Ok(()), |aside| self.delete_aside(&aside))?;
        self.leave_bay(lane)
    }

    /// Removes the bay of a lane that is gone. What was changed in its siblings has been saved.
    pub(super) fn leave_bay(&self, lane: &Lane) -> Result<(), GitError> {
        match &lane.bay {
            Some(bay) if bay.exists() => self.trash(bay),
            _ => Ok(()),
        }
    }

    /// Moves a path out of the way and deletes it.
    pub(super) fn trash(&self, path: &Path) -> Result<(), GitError> {
        self.set_aside(path, ".trash")?.map_or(Ok(()), |aside| self.delete_aside(&aside))
    }

    /// Moves a path out of the way that is not ours to delete, to `<lanes>/.kept`.
    pub(super) fn keep_aside(&self, path: &Path) -> Result<(), GitError> {
        self.set_aside(path, ".kept").map(drop)
    }

    pub(super) fn set_aside(&self, path: &Path, below: &str) -> Result<Option<PathBuf>, GitError> {
        if path.symlink_metadata().is_err() {
            return Ok(None);
        }
        let dir = self.root.join(below);
        // A directory that is removed at the moment it is checked counts as existing.
        let make = || match fs::create_dir_all(&dir) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            made => made.map_err(io("create", &dir)),
        };
        make()?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let aside = dir.join(format!("{name}-{}", unique_suffix()));
        for _ in 0..SWEPT {
            match absent_is_none(fs::rename(path, &aside)).map_err(io("set aside", path))? {
                Some(()) => return Ok(Some(aside)),
                None if path.symlink_metadata().is_err() => return Ok(None),
                // Another process has just removed the empty directory.
                None => make()?,
            }
        }
        fs::rename(path, &aside).map_err(io("set aside", path))?;
        Ok(Some(aside))
    }

    pub(super) fn delete_aside(&self, aside: &Path) -> Result<(), GitError> {
        // If two processes delete the same, it is gone for both.
        let meta = absent_is_none(aside.symlink_metadata()).map_err(io("look at", aside))?;
        let removed = match meta {
            Some(meta) if meta.is_dir() => remove_tree(aside),
            Some(_) => fs::remove_file(aside),
            None => Ok(()),
        };
        absent_is_none(removed).map_err(io("delete", aside))?;
        fs::remove_dir(self.root.join(".trash")).ok();
        Ok(())
    }

    /// Deletes what an interrupted removal left. Called when the engine starts.
    pub fn empty_trash(&self) -> Result<(), GitError> {
        let trash = self.root.join(".trash");
        let Ok(entries) = fs::read_dir(&trash) else { return Ok(()) };
        entries.flatten().try_for_each(|entry| self.delete_aside(&entry.path()))
    }
}
