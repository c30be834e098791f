//! Rebuilds a lane's index, and compares its files with what is committed.
//!
//! Invariant: after [`Lanes::rebuild_index`], nothing that an agent wrote into its index hides a difference between the
//! lane's files and a commit: no flag (assume-unchanged, skip-worktree), no cached time or size, no extension. Only the
//! names, modes and contents of staged files are taken from the agent's index.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use regatta_core::time::Timestamp;

use super::staging::is_below;
use super::{Lane, Lanes, SalvageRef};
use crate::git::{ChangeKind, CommandPlace, GitError, Oid, copy_index, io, unique_suffix};

/// Files that were restored because they differed from the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The restored files.
    pub paths: Vec<PathBuf>,
    /// The ref with their previous content.
    pub salvaged: Option<SalvageRef>,
}

impl Lanes {
    /// Rebuilds the lane's index. No agent may be running in the lane.
    pub fn rebuild_index(&self, lane: &Lane) -> Result<(), GitError> {
        self.clear_stale_locks(lane)?;
        self.clear_traps(lane)?;
        let head = self.head_of(lane)?;
        let scratch = self.work.scratch_path("index");
        let built = self.build_index(lane, &head, &scratch).and_then(|()| {
            let index = lane.git_dir.join("index");
            let aside = lane.git_dir.join(format!("index.regatta-{}", unique_suffix()));
            copy_index(&scratch, &aside)?;
            fs::rename(&aside, &index).map_err(io("replace", &index))
        });
        fs::remove_file(&scratch).ok();
        built
    }

    fn build_index(&self, lane: &Lane, head: &Oid, scratch: &Path) -> Result<(), GitError> {
        let objects = self.work.objects_dir();
        let place = CommandPlace { worktree: &lane.path, index: scratch, objects: &objects, head: None };
        let git = || self.work.at_place(&place);
        // What Regatta's own git saw before any agent started: files untouched since need not be read.
        let manifest = self.load_record(&lane.task)?.is_some_and(|record| record.filled.is_some());
        let has_manifest = manifest && copy_index(&self.index_copy(&lane.task), scratch)?.is_some();
        let merged = if has_manifest {
            git()?.args(["read-tree", "-i", "-m"]).arg(head).run()?.code == Some(0)
        } else {
            false
        };
        if !merged {
            fs::remove_file(scratch).ok();
            git()?.arg("read-tree").arg(head).bytes()?;
        }
        let mut staged = self.staged(lane, head).unwrap_or_default();
        let brought_in = self.load_brought_in(&lane.task)?;
        staged.retain(|entry| !is_below(&entry.path, &brought_in));
        staged.extend(self.private_in(lane, head)?.into_iter().map(|path| Entry::gone(path, head)));
        if staged.is_empty() {
            return Ok(());
        }
        let lines: Vec<u8> = staged.iter().flat_map(Entry::line).collect();
        let taken = git()?.args(["update-index", "-z", "--index-info"]).stdin(lines).run()?;
        if taken.code != Some(0) {
            // Names that git itself would refuse: the files still exist, and are found by the scan.
            fs::remove_file(scratch).ok();
            git()?.arg("read-tree").arg(head).bytes()?;
        }
        Ok(())
    }

    /// What the agent staged, as far as its index is readable.
    fn staged(&self, lane: &Lane, head: &Oid) -> Result<Vec<Entry>, GitError> {
        let index = lane.git_dir.join("index");
        if !index.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
            return Ok(Vec::new());
        }
        let copy = self.work.scratch_path("staged-index");
        let staged = self.staged_in(lane, head, &copy);
        fs::remove_file(&copy).ok();
        let mut staged = staged?;
        self.take_staged(lane, &mut staged)?;
        Ok(staged)
    }

    /// Reads staged files from a copy of the index: of a lane with its own git directory as Regatta's git would.
    fn staged_in(&self, lane: &Lane, head: &Oid, copy: &Path) -> Result<Vec<Entry>, GitError> {
        if lane.own {
            copy_index(&lane.git_dir.join("index"), copy)?;
            self.share_split_index(lane)?;
        }
        let git = || {
            if !lane.own {
                let command = self.repo.real_in(&lane.git_dir).env("GIT_WORK_TREE", &lane.path);
                return Ok::<_, GitError>(command.cwd(&lane.path));
            }
            let objects = self.work.objects_dir();
            let place = CommandPlace { worktree: &lane.path, index: copy, objects: &objects, head: None };
            Ok(self.work.at_place(&place)?.borrowing(self.stores_of(lane)))
        };
        let flags = ["--cached", "--raw", "-z", "--no-abbrev", "--no-renames", "--ita-visible-in-index"];
        let listed = git()?.arg("diff-index").args(flags).arg(head).arg("--").bytes()?;
        let (mut entries, mut unmerged) = (Vec::new(), false);
        let mut fields = listed.split(|byte| *byte == 0);
        while let (Some(facts), Some(path)) = (fields.next().filter(|facts| !facts.is_empty()), fields.next())
        {
            let facts = String::from_utf8_lossy(facts).into_owned();
            let path = PathBuf::from(OsStr::from_bytes(path));
            // `:<mode> <mode> <oid> <oid> <status>`
            match facts.split(' ').collect::<Vec<_>>()[..] {
                [_, _, _, _, "U"] => {
                    unmerged = true;
                    entries.push(Entry::gone(path, head));
                }
                [_, _, _, _, "D"] => entries.push(Entry::gone(path, head)),
                [_, mode, _, oid, _] => entries.push(Entry { what: format!("{mode} {oid}"), path }),
                _ => {}
            }
        }
        if unmerged {
            let listed = git()?.args(["ls-files", "--unmerged", "-z"]).bytes()?;
            for line in listed.split(|byte| *byte == 0) {
                let Some(tab) = line.iter().position(|byte| *byte == b'\t') else { continue };
                let what = String::from_utf8_lossy(&line[..tab]).into_owned();
                entries.push(Entry { what, path: OsStr::from_bytes(&line[tab + 1..]).into() });
            }
        }
        Ok(entries)
    }

    /// An index that an agent split refers to a second file, which git looks for beside its HEAD.
    pub(super) fn share_split_index(&self, lane: &Lane) -> Result<(), GitError> {
        for entry in fs::read_dir(&lane.git_dir).into_iter().flatten().flatten() {
            if entry.file_name().as_bytes().starts_with(b"sharedindex.") {
                copy_index(&entry.path(), &self.work.beside_head(&lane.path, &entry.file_name())?)?;
            }
        }
        Ok(())
    }

    /// Takes over the staged content. What the agent's store does not have, or not as its id says, was not staged.
    fn take_staged(&self, lane: &Lane, staged: &mut Vec<Entry>) -> Result<(), GitError> {
        if !self.has_new_objects(lane) || staged.is_empty() {
            return Ok(());
        }
        let oids: Vec<Oid> = staged.iter().filter_map(Entry::content).collect();
        if oids.is_empty() || self.take_commits(lane, &oids.iter().collect::<Vec<_>>()).is_ok() {
            return Ok(());
        }
        staged.retain(|entry| match entry.content() {
            Some(oid) => self.take_commits(lane, &[&oid]).is_ok(),
            None => true,
        });
        Ok(())
    }

    /// Brought-in files in `head` that the lane's base does not track: the agent committed them.
    fn private_in(&self, lane: &Lane, head: &Oid) -> Result<Vec<PathBuf>, GitError> {
        let brought_in = self.load_brought_in(&lane.task)?;
        if brought_in.is_empty() || *head == lane.base {
            return Ok(Vec::new());
        }
        let mut added = self.work.paths_added(&lane.base, head)?;
        added.retain(|path| is_below(path, &brought_in));
        Ok(added)
    }

    /// Makes the lane's tracked files exactly those of `head`. Differences are saved first; `None` if there were none.
    pub fn restore(&self, lane: &Lane, head: &Oid, at: Timestamp) -> Result<Option<Restored>, GitError> {
        let mut status = self.work.status(&lane.path, &lane.git_dir, head)?;
        let brought_in = self.load_brought_in(&lane.task)?;
        status
            .changes
            .retain(|change| change.kind != ChangeKind::Untracked && !is_below(&change.path, &brought_in));
        if status.changes.is_empty() {
            return Ok(None);
        }
        let salvaged = self.salvage(lane, "its files were not what it committed", at)?;
        let git = || self.work.at(&lane.path, &lane.git_dir, None);
        git()?.args(["read-tree", "--reset", "-u"]).arg(head).bytes()?;
        let paths = status.changes.into_iter().map(|change| change.path).collect();
        Ok(Some(Restored { paths, salvaged }))
    }
}

/// A line for `git update-index --index-info`.
struct Entry {
    what: String,
    path: PathBuf,
}

impl Entry {
    /// `like` is any id of the repository: all have the same length.
    fn gone(path: PathBuf, like: &Oid) -> Self {
        Self { what: format!("0 {}", "0".repeat(like.as_str().len())), path }
    }

    /// The staged content; `None` for a deletion and for the commit of a submodule.
    fn content(&self) -> Option<Oid> {
        let mut words = self.what.split(' ');
        let mode = words.next().filter(|mode| *mode != "0" && *mode != "160000")?;
        let oid = words.next().filter(|_| !mode.is_empty())?;
        Oid::parse(oid).ok().filter(|oid| oid.as_str().bytes().any(|digit| digit != b'0'))
    }

    fn line(&self) -> Vec<u8> {
        [self.what.as_bytes(), b"\t", self.path.as_os_str().as_bytes(), b"\0"].concat()
    }
}
