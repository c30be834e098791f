//! Determines which of a lane's files are the task's work, and puts exactly those into an index.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::{Lane, Lanes};
use crate::git::{ChangeKind, CommandPlace, GitError, Oid, Status, is_state};
use crate::landing::gc::GcGuard;

/// The most uncommitted work of a lane that is read, in bytes. A sparse file of any size costs an agent nothing, and
/// keeps git busy for as long as a real one.
pub(super) const MOST_WORK: u64 = 16 << 30;

/// How much there is to read.
pub(super) struct Amount {
    pub(super) bytes: u64,
    largest: PathBuf,
}

impl Amount {
    /// The sizes of these files of a directory.
    pub(super) fn of<'a>(dir: &Path, files: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        let (mut bytes, mut largest) = (0_u64, (0, Path::new("")));
        for file in files {
            let meta = fs::symlink_metadata(dir.join(file)).ok();
            let size = meta.filter(fs::Metadata::is_file).map_or(0, |meta| meta.len());
            bytes = bytes.saturating_add(size);
            largest = largest.max((size, file));
        }
        Self { bytes, largest: largest.1.to_owned() }
    }

    pub(super) fn too_much(self) -> GitError {
        GitError::TooMuch { path: self.largest, bytes: self.bytes, most: MOST_WORK }
    }
}

/// Files at the root of a lane in which an agent reports to Regatta: they are read as evidence and belong to no commit.
/// Other files with similar names are work.
pub(super) fn is_marker(path: &Path) -> bool {
    let name = path.as_os_str().as_bytes();
    let is_report = (name.starts_with(b"PARCEL_DONE-") || name.starts_with(b"REGATTA_DONE-"))
        && name.ends_with(b".md")
        && !name.contains(&b'/');
    is_report || is_state(path)
}

impl Lanes {
    /// The lane's uncommitted work.
    pub fn uncommitted(&self, lane: &Lane) -> Result<Vec<PathBuf>, GitError> {
        let status = self.own_status(lane, &self.head_of(lane)?, &[])?;
        Ok(status.changes.into_iter().map(|change| change.path).collect())
    }

    /// The lane's uncommitted work, without brought-in files, markers and `also_not`.
    pub(super) fn own_status(
        &self,
        lane: &Lane,
        head: &Oid,
        also_not: &[PathBuf],
    ) -> Result<Status, GitError> {
        let brought_in = self.load_brought_in(&lane.task)?;
        let status = self.work.status(&lane.path, &lane.git_dir, head)?;
        Ok(status.filtered(|path| {
            !is_marker(path)
                && !is_below(path, &brought_in)
                && !also_not.iter().any(|not| path.starts_with(not))
        }))
    }

    /// Refuses more work than is read.
    pub(super) fn check_amount(&self, lane: &Lane, status: &Status) -> Result<(), GitError> {
        let amount = Amount::of(&lane.path, status.changes.iter().map(|change| &change.path));
        if amount.bytes > MOST_WORK { Err(amount.too_much()) } else { Ok(()) }
    }

    /// Puts every change of `status` into the index at `index`, path by path: no second scan, and no pattern that a
    /// file name could be mistaken for.
    pub(super) fn stage(&self, lane: &Lane, index: &Path, status: &Status) -> Result<(), GitError> {
        self.check_amount(lane, status)?;
        match self.stage_once(lane, index, status) {
            // A `git gc` removes empty object directories while others write into them.
            Err(error) if error.is_lost_object() => {
                let _nobody_collects = GcGuard::take(&self.repo.common_dir);
                self.stage_once(lane, index, status)
            }
            staged => staged,
        }
    }

    fn stage_once(&self, lane: &Lane, index: &Path, status: &Status) -> Result<(), GitError> {
        let objects = self.work.objects_dir();
        let place = CommandPlace { worktree: &lane.path, index, objects: &objects, head: None };
        let list = |gone: bool| {
            let wanted = status.changes.iter().filter(|change| (change.kind == ChangeKind::Deleted) == gone);
            wanted
                .flat_map(|change| [change.path.as_os_str().as_bytes(), b"\0"].concat())
                .collect::<Vec<u8>>()
        };
        // Deletions come first and by force: a directory or a link may have replaced the file.
        for (flags, paths) in
            [(&["--force-remove"][..], list(true)), (&["--add", "--remove", "--replace"][..], list(false))]
        {
            if !paths.is_empty() {
                let command = self.work.at_place(&place)?.durable().arg("update-index").args(flags);
                command.args(["-z", "--stdin"]).stdin(paths).bytes()?;
            }
        }
        Ok(())
    }
}

/// Whether `path` is in `set` or below one of its paths.
pub(super) fn is_below(path: &Path, set: &BTreeSet<PathBuf>) -> bool {
    !set.is_empty() && path.ancestors().any(|above| set.contains(above))
}
