//! Finds the lanes of a project that was moved or renamed while nothing ran.
//!
//! The root of the lanes is on record. If it has changed and the lanes are still at the old place, they are moved to
//! the new root. Files inside the lanes that name the old place are healed with each lane.

use std::fs;
use std::path::{Path, PathBuf};

use super::Lanes;
use super::lane_head::someone_stands_in;
use crate::git::{GitError, absent_is_none, git_dir_of, io, replace_file};

impl Lanes {
    /// Moves the lanes along if the project was moved without them, and returns a note about it. Called when an engine
    /// starts.
    pub fn follow_project(&self) -> Result<Option<String>, GitError> {
        use std::os::unix::ffi::OsStrExt as _;
        let record = self.records_dir().join("root");
        let known = absent_is_none(fs::read(&record)).map_err(io("read", &record))?;
        let old = known.map(|bytes| PathBuf::from(std::ffi::OsStr::from_bytes(&bytes)));
        let told = match &old {
            Some(old) if *old == self.root => return Ok(None),
            Some(old) if self.has_our_lanes(old)? => Some(self.move_here(old)?),
            _ => None,
        };
        let dir = self.records_dir();
        fs::create_dir_all(&dir).map_err(io("create", &dir))?;
        replace_file(&record, self.root.as_os_str().as_bytes())?;
        Ok(told)
    }

    /// Whether recorded lanes are at the old place and do not belong to a repository that still exists: a copy of a
    /// project leaves the lanes of the original alone.
    fn has_our_lanes(&self, old: &Path) -> Result<bool, GitError> {
        for info in self.list()? {
            let lane = old.join(info.task.as_str());
            if lane.is_dir() && git_dir_of(&lane)?.is_none_or(|git_dir| !git_dir.exists()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn move_here(&self, old: &Path) -> Result<String, GitError> {
        let by_hand = |why: &str| GitError::LaneInTheWay {
            path: self.root.clone(),
            why: format!(
                "the project was moved, but its lanes are still in {0}: {why}; move them: mv {0} {1}",
                old.display(),
                self.root.display()
            ),
        };
        let is_free = fs::read_dir(&self.root).map_or(true, |mut entries| entries.next().is_none());
        if !is_free {
            return Err(by_hand("both directories exist"));
        }
        if someone_stands_in(old) {
            return Err(by_hand("a process works there"));
        }
        fs::remove_dir(&self.root).ok();
        fs::rename(old, &self.root).map_err(|error| by_hand(&error.to_string()))?;
        Ok(format!(
            "the project was moved: its lanes are in {} now, not in {}",
            self.root.display(),
            old.display()
        ))
    }
}
