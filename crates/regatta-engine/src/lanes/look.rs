//! Shows a lane's work from outside, while its agent may be running.
//!
//! Invariant: this changes nothing of the lane, its index, its refs or the repository's objects. What has to be written
//! goes to a temporary directory.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::beneath::copy_beneath;
use super::staging::{Amount, MOST_WORK};
use super::staging::{is_below, is_marker};
use super::{Lane, Lanes};
use crate::git::{CommandPlace, DiffStyle, GitCommand, GitError, Oid, copy_index, io, oid_line};

/// How long git may take to list the files of a lane in which an agent works: a pipe under a name that git reads would
/// keep it without end.
pub(super) const LONGEST_WALK: Duration = Duration::from_secs(300);

/// How much of a lane is read at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LookLimits {
    /// Bytes in uncommitted files; with more, none is read.
    pub(crate) uncommitted: u64,
    /// Bytes of the difference.
    pub(crate) diff: u64,
}

/// What a bounded look at a lane found.
#[derive(Debug)]
pub(crate) enum Looked {
    /// The difference, and how many bytes of it were left out at its end.
    Diff { bytes: Vec<u8>, left_out: u64 },
    /// The bytes in uncommitted files; none was read.
    TooLarge { bytes: u64 },
}

impl Lanes {
    /// How the lane's files differ from `against` now: committed, staged, unstaged and untracked work together.
    pub fn diff(&self, lane: &Lane, against: &Oid, style: DiffStyle) -> Result<Vec<u8>, GitError> {
        match self.look(lane, against, style, None)? {
            Looked::Diff { bytes, .. } => Ok(bytes),
            Looked::TooLarge { .. } => unreachable!("without a limit nothing is too large"),
        }
    }

    /// The same within limits.
    pub(crate) fn diff_within(
        &self,
        lane: &Lane,
        against: &Oid,
        style: DiffStyle,
        limits: LookLimits,
    ) -> Result<Looked, GitError> {
        self.look(lane, against, style, Some(limits))
    }

    fn look(
        &self,
        lane: &Lane,
        against: &Oid,
        style: DiffStyle,
        limits: Option<LookLimits>,
    ) -> Result<Looked, GitError> {
        let scratch = self.work.scratch_path("look");
        fs::create_dir_all(scratch.join("objects")).map_err(io("create", &scratch))?;
        let looked = self.diff_in(lane, against, style, limits, &scratch);
        self.work.drop_shadow(&scratch.join("files"));
        fs::remove_dir_all(&scratch).ok();
        looked
    }

    fn diff_in(
        &self,
        lane: &Lane,
        against: &Oid,
        style: DiffStyle,
        limits: Option<LookLimits>,
        scratch: &Path,
    ) -> Result<Looked, GitError> {
        let (own, index) = (lane.git_dir.join("index"), scratch.join("index"));
        if copy_index(&own, &index)?.is_none() {
            // Without an index of its own, its HEAD is used.
            self.command(lane, scratch)?.arg("read-tree").arg(&lane.head()?).bytes()?;
        }
        let listed = |flags: &[&str]| -> Result<BTreeSet<PathBuf>, GitError> {
            let command = self.command(lane, scratch)?.within(LONGEST_WALK).args(["ls-files", "-z"]);
            let listed = command.args(flags).bytes()?;
            Ok(listed.split(|b| *b == 0).filter_map(listed_path).collect())
        };
        let brought_in = self.load_brought_in(&lane.task)?;
        let mut gone = listed(&["--deleted"])?;
        let mut there = listed(&["--modified", "--others", "--exclude-standard"])?;
        there.extend(listed(&["--unmerged"])?);
        there.retain(|path| !gone.contains(path) && !is_marker(path) && !is_below(path, &brought_in));
        let (amount, most) =
            (Amount::of(&lane.path, &there), limits.map_or(MOST_WORK, |limits| limits.uncommitted));
        if amount.bytes > most {
            return match limits {
                Some(_) => Ok(Looked::TooLarge { bytes: amount.bytes }),
                None => Err(amount.too_much()),
            };
        }
        let files = scratch.join("files");
        let left_out = copy_beneath(&lane.path, &files, &there, 2 * most)?;
        there.retain(|path| !left_out.contains(path));
        gone.extend(left_out);
        // Deletions come first and by force: a directory or a link may have replaced the file by now.
        for (flags, paths) in
            [(&["--force-remove"][..], gone), (&["--add", "--remove", "--replace"][..], there)]
        {
            let list: Vec<u8> =
                paths.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat()).collect();
            if !list.is_empty() {
                let command = self.command_in(&files, lane, scratch)?.arg("update-index").args(flags);
                command.args(["-z", "--stdin"]).stdin(list).bytes()?;
            }
        }
        let tree = oid_line(&self.command(lane, scratch)?.arg("write-tree").bytes()?)?;
        let command = style.apply(self.command(lane, scratch)?).arg(against).arg(&tree).arg("--");
        let Some(limits) = limits else {
            return Ok(Looked::Diff { bytes: command.bytes()?, left_out: 0 });
        };
        // However long it is, only the beginning is read into memory.
        let output = scratch.join("output");
        command.into_file(&output).bytes()?;
        let file = File::open(&output).map_err(io("open", &output))?;
        let len = file.metadata().map_err(io("read", &output))?.len();
        let mut bytes = Vec::new();
        file.take(limits.diff).read_to_end(&mut bytes).map_err(io("read", &output))?;
        let left_out = len.saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        Ok(Looked::Diff { bytes, left_out })
    }

    /// A command on the lane's files with the copied index; new objects go to the temporary directory.
    fn command(&self, lane: &Lane, scratch: &Path) -> Result<GitCommand, GitError> {
        self.command_in(&lane.path, lane, scratch)
    }

    /// The same on other files.
    fn command_in(&self, files: &Path, lane: &Lane, scratch: &Path) -> Result<GitCommand, GitError> {
        let (index, objects) = (scratch.join("index"), scratch.join("objects"));
        let place = CommandPlace { worktree: files, index: &index, objects: &objects, head: None };
        Ok(self
            .work
            .at_place(&place)?
            .borrowing([self.work.objects_dir()].into_iter().chain(self.stores_of(lane)))
            .env("GIT_OPTIONAL_LOCKS", "0"))
    }
}

/// A path as `ls-files` lists it: bare, or behind `mode oid stage` and a tab. A directory is a nested repository.
fn listed_path(entry: &[u8]) -> Option<PathBuf> {
    let is_staged = entry.len() > 50 && entry.starts_with(b"1") && entry.get(6) == Some(&b' ');
    let path = match entry.iter().position(|b| *b == b'\t') {
        Some(tab) if is_staged => &entry[tab + 1..],
        _ => entry,
    };
    (!path.is_empty() && !path.ends_with(b"/")).then(|| OsStr::from_bytes(path).into())
}
