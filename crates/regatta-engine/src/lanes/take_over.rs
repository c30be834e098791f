//! Takes over what an agent committed or staged in its lane's own git directory.
//!
//! Invariant: nothing in the project's object store comes from a lane unchecked. Objects arrive by their content (see
//! `git/transfer.rs`), and are complete there without the lane. What the agent wrote beside its objects (replaced
//! objects, grafts, shallow marks, borrowed stores) has no say.

use std::fs;
use std::path::{Path, PathBuf};

use super::own::is_real_dir;
use super::staging::MOST_WORK;
use super::{Lane, Lanes};
use crate::git::{GitCommand, GitError, Oid, RefList, Transfer, io, read_plain, replace_file};
use crate::landing::gc::{GcGuard, GcWatch, wait_for_gc};

/// Maximum number of branches that are passed as known.
const MAX_KNOWN: usize = 256;
/// Largest file of shallow marks that is read.
const MAX_SHALLOW: u64 = 16 << 20;

impl Lanes {
    /// The lane's HEAD, with everything that it needs in the project's store. Runs no git if it is there already.
    pub(super) fn head_of(&self, lane: &Lane) -> Result<Oid, GitError> {
        let head = lane.head()?;
        if lane.own {
            self.take_head(lane, &head)?;
        }
        Ok(head)
    }

    /// See `head_of`.
    pub fn take_over(&self, lane: &Lane) -> Result<Oid, GitError> {
        self.head_of(lane)
    }

    /// Why what is committed in a lane cannot be taken over; its git directory is then made new, at the last commit that
    /// can. `None` if it can, or if there is nothing to take over: a lane that has to be healed first.
    pub fn damage(&self, lane: &Lane) -> Result<Option<GitError>, GitError> {
        if !lane.own || !lane.own_is_sound() || lane.load_head().ok().flatten().is_none() {
            return Ok(None);
        }
        match self.head_of(lane) {
            Err(error @ GitError::Damaged { .. }) => self.renew_damaged(lane).map(|_| Some(error)),
            head => head.map(|_| None),
        }
    }

    /// A commit of the lane that the project's store has: its HEAD, or the newest one that was taken over.
    pub(crate) fn kept_head(&self, lane: &Lane) -> Result<Oid, GitError> {
        if lane.own { Ok(self.known_head(lane).unwrap_or_else(|| lane.base.clone())) } else { lane.head() }
    }

    /// Every path that differs from the lane's base, committed or not.
    pub fn changed_paths(&self, lane: &Lane) -> Result<Vec<PathBuf>, GitError> {
        let head = self.head_of(lane)?;
        let mut paths = self.work.paths_between(&lane.base, &head)?;
        let status = self.work.status(&lane.path, &lane.git_dir, &head)?;
        paths.extend(status.changes.into_iter().map(|change| change.path));
        paths.sort();
        paths.dedup();
        Ok(paths)
    }

    /// The best common ancestor of the lane's HEAD and another commit, while its agent may be running.
    pub fn forked_from(&self, lane: &Lane, other: &Oid) -> Result<Option<Oid>, GitError> {
        let ran = self.reading(lane).arg("merge-base").arg(&lane.head()?).arg(other).run()?;
        match ran.code {
            Some(0) => crate::git::oid_line(&ran.stdout).map(Some),
            Some(1) => Ok(None),
            _ => Err(ran.into_error()),
        }
    }

    fn take_head(&self, lane: &Lane, head: &Oid) -> Result<(), GitError> {
        let known = self.known_head(lane);
        if known.as_ref() == Some(head) || *head == lane.base {
            return Ok(());
        }
        self.take_commits(lane, &[head])?;
        self.take_large_files(lane)?;
        self.set_known_head(lane, head)
    }

    /// Makes these objects, and everything they need, part of the project's store.
    pub(super) fn take_commits(&self, lane: &Lane, wanted: &[&Oid]) -> Result<(), GitError> {
        if !lane.own || wanted.is_empty() {
            return Ok(());
        }
        self.check_store(lane)?;
        self.check_shallow(lane, wanted)?;
        let gc = GcWatch::new(&self.repo.common_dir);
        let taken = self.transfer(lane, &self.work.objects_dir(), &[], wanted);
        if !matches!(taken, Ok(()) | Err(GitError::Damaged { .. })) || !gc.was_at_work() {
            return taken;
        }
        // A `git gc` may have removed what had just arrived, or a directory that it was about to be written to.
        wait_for_gc(&self.repo.common_dir);
        let mut lost = taken.is_err();
        for oid in wanted {
            lost = lost || !self.work.is_whole(oid, &lane.base)?;
        }
        if lost {
            let _nobody_collects = GcGuard::take(&self.repo.common_dir);
            return self.transfer(lane, &self.work.objects_dir(), &[], wanted);
        }
        Ok(())
    }

    /// Copies from the lane's store to `to`, which `behind` completes.
    pub(super) fn transfer(
        &self,
        lane: &Lane,
        to: &Path,
        behind: &[&Path],
        wanted: &[&Oid],
    ) -> Result<(), GitError> {
        let from = lane.objects();
        let (few, all) = self.known_commits(lane);
        let transfer = Transfer { from: &from, to, behind, wanted, known: &all.iter().collect::<Vec<_>>() };
        match self.work.transfer(&transfer) {
            // A branch of the user's may be broken, which is not the lane's fault.
            Err(GitError::Damaged { .. }) if all.len() > few.len() => {
                self.work.transfer(&Transfer { known: &few.iter().collect::<Vec<_>>(), ..transfer }).map(drop)
            }
            taken => taken.map(drop),
        }
    }

    /// Commits that the project's store has for certain, and those with the tips of branches: work that an agent
    /// based on one of them is not copied.
    fn known_commits(&self, lane: &Lane) -> (Vec<Oid>, Vec<Oid>) {
        let mut few: Vec<Oid> = self.known_head(lane).into_iter().chain([lane.base.clone()]).collect();
        few.dedup();
        let mut all = few.clone();
        all.extend(RefList::some_tips(&self.repo, MAX_KNOWN));
        all.sort();
        all.dedup();
        (few, all)
    }

    /// Refuses a store that git would not keep to, or could not read to its end.
    pub(super) fn check_store(&self, lane: &Lane) -> Result<(), GitError> {
        let damaged = |why: String| GitError::Damaged { why: format!("its git objects are damaged: {why}") };
        if !lane.own_is_sound() {
            return Err(damaged("its git directory is incomplete".to_owned()));
        }
        if !lane.borrows_as_made() {
            return Err(damaged(
                "the list of stores that it borrows from (objects/info/alternates) was changed".to_owned(),
            ));
        }
        match odd_entry(&lane.objects(), 0) {
            Some(path) => Err(damaged(format!("{} is not a plain file", path.display()))),
            None => Ok(()),
        }
    }

    /// Whether the agent's git has written an object.
    pub(super) fn has_new_objects(&self, lane: &Lane) -> bool {
        lane.own && has_file(&lane.objects())
    }

    /// Refuses commits that a shallow mark of the lane cuts off from their history.
    fn check_shallow(&self, lane: &Lane, wanted: &[&Oid]) -> Result<(), GitError> {
        let read = |dir: &Path| read_plain(&dir.join("shallow"), MAX_SHALLOW).map(Option::unwrap_or_default);
        let theirs = read(&lane.git_dir)?;
        let ours = fs::read(self.repo.common_dir.join("shallow")).unwrap_or_default();
        if theirs.is_empty() || theirs == ours {
            return Ok(());
        }
        let theirs = String::from_utf8_lossy(&theirs).into_owned();
        let known: Vec<String> = [&lane.base].map(|oid| format!("^{oid}")).to_vec();
        let listed = self.reading(lane).args(["rev-list"]).args(wanted).args(known).arg("--").run()?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let cut = listed.lines().find(|commit| theirs.lines().any(|line| line.trim() == *commit));
        match cut {
            Some(commit) => Err(GitError::Damaged {
                why: format!(
                    "its commit {} is listed in .git/shallow, so what came before it cannot be seen",
                    &commit[..commit.len().min(12)]
                ),
            }),
            None => Ok(()),
        }
    }

    /// A command on objects alone that also reads the lane's, after the project's own.
    pub(super) fn reading(&self, lane: &Lane) -> GitCommand {
        self.work.bare().borrowing(self.stores_of(lane)).env("GIT_NO_LAZY_FETCH", "1")
    }

    /// The stores to read a lane's objects from, besides the project's. Stores that the project itself borrows from
    /// come before the lane's.
    pub(super) fn stores_of(&self, lane: &Lane) -> Vec<PathBuf> {
        if !lane.own || self.check_store(lane).is_err() {
            return Vec::new();
        }
        let objects = self.work.objects_dir();
        let list = fs::read_to_string(objects.join("info/alternates")).unwrap_or_default();
        let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(|line| objects.join(line)).chain([lane.objects()]).collect()
    }

    /// The newest commit that was taken over: HEAD of the registration.
    pub(super) fn known_head(&self, lane: &Lane) -> Option<Oid> {
        crate::git::head_oid(&self.repo, &lane.admin).ok().flatten()
    }

    /// Holds a commit for the lane: a `git gc` in the project keeps what HEAD of a registration reaches.
    pub(super) fn set_known_head(&self, lane: &Lane, head: &Oid) -> Result<(), GitError> {
        if !lane.own {
            return Ok(());
        }
        if self.repo.reftable {
            let command = self.repo.real_in(&lane.admin).args(["update-ref", "--no-deref", "HEAD"]);
            return command.arg(head).bytes().map(drop);
        }
        replace_file(&lane.admin.join("HEAD"), format!("{head}\n").as_bytes())
    }

    /// Copies files of Git LFS that the agent added into the project's store for them, by their content.
    pub(super) fn take_large_files(&self, lane: &Lane) -> Result<(), GitError> {
        let from = lane.git_dir.join("lfs/objects");
        // A link would have files of another store copied, which the agent may not read.
        if ![lane.git_dir.join("lfs"), from.clone()].iter().all(|dir| is_real_dir(dir)) {
            return Ok(());
        }
        let to = self.work.trust().lfs_storage().join("objects");
        let mut left = MOST_WORK;
        let dirs = |dir: &Path| {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        };
        for first in dirs(&from) {
            for second in dirs(&first.path()) {
                for file in fs::read_dir(second.path()).into_iter().flatten().flatten() {
                    take_large_file(&file.path(), &to, &mut left)?;
                }
            }
        }
        Ok(())
    }
}

/// Copies one file that is named after the hash of its content; any other is left where it is. At most `left` bytes are
/// read, and are taken off it.
fn take_large_file(file: &Path, store: &Path, left: &mut u64) -> Result<(), GitError> {
    use std::io::{Read as _, Write as _};

    use sha2::Digest as _;
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_hash = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hash || !file.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
        return Ok(());
    }
    let dir = store.join(&name[..2]).join(&name[2..4]);
    let place = dir.join(name);
    if place.exists() {
        return Ok(());
    }
    let size = file.symlink_metadata().map_or(0, |meta| meta.len());
    *left = left.checked_sub(size).ok_or_else(|| GitError::TooMuch {
        path: file.to_owned(),
        bytes: MOST_WORK - *left + size,
        most: MOST_WORK,
    })?;
    fs::create_dir_all(&dir).map_err(io("create", &dir))?;
    let aside = dir.join(format!("{name}.{}.tmp", crate::git::unique_suffix()));
    let copied = (|| {
        // A file that grows meanwhile is another one than its name says.
        let (mut source, mut copy) = (fs::File::open(file)?.take(size), fs::File::create(&aside)?);
        let (mut hash, mut part) = (sha2::Sha256::new(), vec![0; 1 << 16]);
        loop {
            match source.read(&mut part)? {
                0 => break,
                n => {
                    hash.update(&part[..n]);
                    copy.write_all(&part[..n])?;
                }
            }
        }
        copy.sync_all()?;
        if regatta_core::hex::hex(&hash.finalize()) == name { fs::rename(&aside, &place) } else { Ok(()) }
    })();
    fs::remove_file(&aside).ok();
    copied.map_err(io("copy", file))
}

/// The first entry of a store that is neither a directory nor a plain file: git would follow a link, and wait for a
/// pipe.
fn odd_entry(dir: &Path, depth: u8) -> Option<PathBuf> {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_file() => {}
            Ok(kind) if kind.is_dir() && depth < 4 => {
                if let Some(odd) = odd_entry(&entry.path(), depth + 1) {
                    return Some(odd);
                }
            }
            _ => return Some(entry.path()),
        }
    }
    None
}

/// Whether a store has an object: a pack, or a file in a directory named by two digits.
fn has_file(objects: &Path) -> bool {
    let entries = fs::read_dir(objects).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name() != "info")
        .any(|dir| fs::read_dir(dir.path()).is_ok_and(|mut entries| entries.next().is_some()))
}
