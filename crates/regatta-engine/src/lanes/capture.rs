//! Captures a lane's current work as a commit, while its agent may be running.
//!
//! Invariant: nothing of the lane, its index, its refs or the repository's objects is changed. The commit and its
//! objects are in a quarantine, and are made by our own git from a copy of the index.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use regatta_core::hex::hex;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::beneath::copy_beneath;
use super::look::LONGEST_WALK;
use super::staging::{is_below, is_marker};
use super::{Lane, Lanes};
use crate::clock;
use crate::git::{GitError, Oid, Quarantine, copy_index, oid_line};

/// Beyond this many uncommitted paths, they are named but not read.
const MOST_PATHS: usize = 20_000;
/// Beyond this many bytes, uncommitted files are not read.
const MOST_BYTES: u64 = 64 << 20;
/// A file changed this many seconds or less before the check may change again without a visible change of its times.
const RACY: i64 = 2;

/// A lane's captured work, and the signs by which it is known to be unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Capture {
    /// The commit: the lane's HEAD, or one on top of it with the uncommitted work.
    pub(crate) commit: Oid,
    /// How many bytes were read for it.
    pub(crate) bytes: u64,
    signature: String,
}

/// The result of capturing a lane.
#[derive(Debug)]
pub(crate) enum Captured {
    /// Its work.
    Work(Capture),
    /// Its committed work, and paths with further changes that could not be read.
    Named { head: Oid, paths: Vec<PathBuf>, why: String },
}

struct Uncommitted {
    /// Deleted files.
    gone: BTreeSet<PathBuf>,
    /// Changed, new or conflicting files.
    there: BTreeSet<PathBuf>,
}

impl Lanes {
    /// The lane's current work. `last` is the previous capture, which is returned again if nothing has changed: then no
    /// file is read.
    pub(crate) fn capture(
        &self,
        lane: &Lane,
        quarantine: &Quarantine,
        last: Option<&Capture>,
    ) -> Result<Captured, GitError> {
        let head = lane.head()?;
        let index = self.work.scratch_path("radar-index");
        let captured = self.capture_at(lane, &head, quarantine, &index, last);
        fs::remove_file(&index).ok();
        fs::remove_dir_all(files_of(&index)).ok();
        captured
    }

    fn capture_at(
        &self,
        lane: &Lane,
        head: &Oid,
        quarantine: &Quarantine,
        index: &Path,
        last: Option<&Capture>,
    ) -> Result<Captured, GitError> {
        let looked_at = clock::now().seconds();
        let own = lane.git_dir.join("index");
        let stores = self.stores_of(lane);
        if lane.own {
            self.share_split_index(lane)?;
        }
        if copy_index(&own, index)?.is_none() {
            let command = quarantine.beside(&self.work, &lane.path, index, &stores).arg("read-tree");
            command.arg(head).bytes()?;
        }
        let uncommitted = self.uncommitted_in(lane, quarantine, index)?;
        let (signature, bytes, settled) = signature(lane, head, &own, &uncommitted, looked_at);
        if let Some(last) = last.filter(|last| settled && last.signature == signature) {
            return Ok(Captured::Work(last.clone()));
        }
        let n_paths = uncommitted.gone.len() + uncommitted.there.len();
        if n_paths > MOST_PATHS || bytes > MOST_BYTES {
            let why = if n_paths > MOST_PATHS {
                format!("{n_paths} uncommitted files are too many to read")
            } else {
                format!("{} MB in uncommitted files are too many to read", bytes >> 20)
            };
            return Ok(uncommitted.named(&self.head_aside(lane, head, quarantine)?, why));
        }
        let made = self.commit_of(lane, head, quarantine, index, &uncommitted).and_then(|commit| {
            self.take_aside(lane, quarantine, &commit)?;
            Ok(commit)
        });
        match made {
            // A file that may have changed while it was read is read again the next time.
            Ok(commit) => {
                let signature = if settled { signature } else { String::new() };
                Ok(Captured::Work(Capture { commit, bytes, signature }))
            }
            Err(error) if lane.path.is_dir() => {
                let head = self.head_aside(lane, head, quarantine)?;
                Ok(uncommitted.named(&head, error.to_string()))
            }
            Err(error) => Err(error),
        }
    }

    fn commit_of(
        &self,
        lane: &Lane,
        head: &Oid,
        quarantine: &Quarantine,
        index: &Path,
        uncommitted: &Uncommitted,
    ) -> Result<Oid, GitError> {
        let stores = self.stores_of(lane);
        let files = files_of(index);
        let left_out = copy_beneath(&lane.path, &files, &uncommitted.there, 2 * MOST_BYTES)?;
        let there: BTreeSet<PathBuf> = uncommitted.there.difference(&left_out).cloned().collect();
        let gone: BTreeSet<PathBuf> = uncommitted.gone.union(&left_out).cloned().collect();
        let command = || quarantine.beside(&self.work, &files, index, &stores);
        // Deletions come first and by force: a directory or a link may have replaced the file by now.
        for (flags, paths) in
            [(&["--force-remove"][..], &gone), (&["--add", "--remove", "--replace"][..], &there)]
        {
            let list: Vec<u8> =
                paths.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat()).collect();
            if !list.is_empty() {
                command().arg("update-index").args(flags).args(["-z", "--stdin"]).stdin(list).bytes()?;
            }
        }
        let tree = oid_line(&command().arg("write-tree").bytes()?)?;
        let own = self.reading(lane).args([
            "rev-parse",
            "--verify",
            "--end-of-options",
            &format!("{head}^{{tree}}"),
        ]);
        let own =
            if self.has_new_objects(lane) { oid_line(&own.bytes()?)? } else { self.work.tree_of(head)? };
        if tree == own {
            return Ok(head.clone());
        }
        // The same work always makes the same commit.
        let mut commit = command().arg("commit-tree").arg(&tree).arg("-p").arg(head);
        for role in ["AUTHOR", "COMMITTER"] {
            for (what, value) in [("NAME", "Regatta"), ("EMAIL", "regatta@localhost"), ("DATE", "@0 +0000")] {
                commit = commit.env(&format!("GIT_{role}_{what}"), value);
            }
        }
        oid_line(&commit.args(["--no-gpg-sign", "-F", "-"]).stdin("not committed yet\n").bytes()?)
    }

    /// The lane's HEAD if it can be copied, else the newest commit that was taken over.
    fn head_aside(&self, lane: &Lane, head: &Oid, quarantine: &Quarantine) -> Result<Oid, GitError> {
        match self.take_aside(lane, quarantine, head) {
            Ok(()) => Ok(head.clone()),
            Err(_) => self.kept_head(lane),
        }
    }

    /// Copies what the commit needs of the lane's own objects to the quarantine, by their content: what is merged there
    /// does not depend on the lane.
    fn take_aside(&self, lane: &Lane, quarantine: &Quarantine, commit: &Oid) -> Result<(), GitError> {
        if !self.has_new_objects(lane) {
            return Ok(());
        }
        self.check_store(lane)?;
        self.transfer(lane, quarantine.objects(), &[&self.work.objects_dir()], &[commit])
    }

    /// Files that differ from the index, in one walk, without reading any that its times show to be unchanged.
    fn uncommitted_in(
        &self,
        lane: &Lane,
        quarantine: &Quarantine,
        index: &Path,
    ) -> Result<Uncommitted, GitError> {
        let flags = ["--modified", "--deleted", "--others", "--unmerged", "--exclude-standard"];
        let stores = self.stores_of(lane);
        let command =
            quarantine.beside(&self.work, &lane.path, index, &stores).args(["ls-files", "-z", "-t"]);
        let listed = command.args(flags).within(LONGEST_WALK).bytes()?;
        let brought_in = self.load_brought_in(&lane.task)?;
        let (mut gone, mut there) = (BTreeSet::new(), BTreeSet::new());
        for entry in listed.split(|b| *b == 0) {
            let Some((tag, path)) = tagged(entry) else { continue };
            if !is_marker(&path) && !is_below(&path, &brought_in) {
                if tag == b'R' {
                    gone.insert(path)
                } else {
                    there.insert(path)
                };
            }
        }
        // Deleted files are listed as changed, too.
        there.retain(|path| !gone.contains(path));
        Ok(Uncommitted { gone, there })
    }
}

impl Uncommitted {
    fn named(self, head: &Oid, why: String) -> Captured {
        let paths = self.gone.into_iter().chain(self.there).collect();
        Captured::Named { head: head.clone(), paths, why }
    }
}

/// Where the files that an index is made of are copied to.
fn files_of(index: &Path) -> PathBuf {
    index.with_extension("files")
}

/// The tag and the path of `? <path>` or `<tag> <mode> <oid> <stage> TAB <path>`. A directory is a nested repository.
fn tagged(entry: &[u8]) -> Option<(u8, PathBuf)> {
    let (tag, rest) = (*entry.first()?, entry.get(2..)?);
    let path = match tag {
        b'?' => rest,
        _ => &rest[rest.iter().position(|b| *b == b'\t')? + 1..],
    };
    (!path.is_empty() && !path.ends_with(b"/")).then(|| (tag, OsStr::from_bytes(path).into()))
}

/// The signs by which the work is recognised, how much there is to read, and whether the signs are reliable.
fn signature(
    lane: &Lane,
    head: &Oid,
    index: &Path,
    uncommitted: &Uncommitted,
    looked_at: i64,
) -> (String, u64, bool) {
    let racy_from = looked_at - RACY;
    let mut digest = Sha256::new();
    let (mut bytes, mut settled) = (0, true);
    digest.update(head.as_str());
    let mut add = |digest: &mut Sha256, path: &Path, counts: bool| match fs::symlink_metadata(path) {
        Ok(meta) => {
            let size = if meta.is_file() && counts { meta.len() } else { 0 };
            bytes += size;
            settled &= meta.mtime() < racy_from && meta.ctime() < racy_from;
            for number in [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()] {
                digest.update(number.to_le_bytes());
            }
            for number in [meta.len(), meta.ino(), u64::from(meta.mode())] {
                digest.update(number.to_le_bytes());
            }
        }
        Err(_) => digest.update(b"absent"),
    };
    add(&mut digest, index, false);
    for (mark, paths) in [(b"-", &uncommitted.gone), (b"+", &uncommitted.there)] {
        for path in paths {
            digest.update(mark);
            digest.update(path.as_os_str().as_bytes());
            digest.update(b"\0");
            add(&mut digest, &lane.path.join(path), true);
        }
    }
    (hex(&digest.finalize()), bytes, settled)
}
