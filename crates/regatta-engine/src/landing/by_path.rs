//! Updates a checkout path by path when git could not do it in one go: it was killed, the disk was full, or the user
//! changed something at the last moment.
//!
//! Invariant: for every path that the move touches, the index has the new entry unless the user staged something there,
//! so that a commit of the user's reverts nothing; a file that is neither the old one nor a part of the new one is the
//! user's, and stays.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::follow::Follower;
use crate::git::{Entry, GitError, Oid, Shift, io};

impl Follower<'_> {
    /// Updates index and files from `from` to `to`, except for paths in `skip`. Returns the files that stay as the user
    /// has them. Can be repeated after an error at any point.
    pub(super) fn settle(
        &mut self,
        from: &Oid,
        to: &Oid,
        skip: &BTreeSet<PathBuf>,
    ) -> Result<Vec<PathBuf>, GitError> {
        self.start_over()?;
        let staged = self.staged()?;
        let mut shifts = self.work.shifts_between(from, to)?;
        shifts.retain(|shift| !skip.contains(&shift.path));
        let is_ours = |shift: &Shift| {
            let now = staged.get(&shift.path);
            now == shift.old.as_ref() || now == shift.new.as_ref()
        };
        let (ours, theirs): (Vec<Shift>, Vec<Shift>) = shifts.into_iter().partition(is_ours);
        let mut kept: Vec<PathBuf> = theirs.into_iter().map(|shift| shift.path).collect();
        let behind: Vec<&Shift> =
            ours.iter().filter(|shift| staged.get(&shift.path) != shift.new.as_ref()).collect();
        if !behind.is_empty() {
            self.put(self.scratch(), behind.iter().map(|shift| (&shift.path, shift.new.as_ref())))?;
            // The index comes before the files: whatever happens next, a commit of the user's reverts nothing.
            self.replace_index()?;
        }
        let not_wanted = self.not_wanted(to)?;
        let files: Vec<&Shift> =
            ours.iter().filter(|shift| !shift.is_submodule() && !not_wanted.contains(&shift.path)).collect();
        kept.extend(self.move_files(&files)?);
        // This only speeds up the user's next `git status`.
        if self.start_over().is_ok() {
            let _ = self.git(None)?.args(["update-index", "-q", "--refresh"]).run()?;
            self.replace_index()?;
        }
        Ok(kept)
    }

    /// Writes and deletes files; returns those that are the user's.
    fn move_files(&self, shifts: &[&Shift]) -> Result<Vec<PathBuf>, GitError> {
        let root = &self.checkout.path;
        let (old, new) = (self.aside("old"), self.aside("new"));
        let moved = || -> Result<Vec<PathBuf>, GitError> {
            let not_old = self.differing(&old, shifts, |shift| shift.old.as_ref())?;
            let not_new = self.differing(&new, shifts, |shift| shift.new.as_ref())?;
            let (mut write, mut delete, mut kept) = (Vec::new(), Vec::new(), Vec::new());
            for shift in shifts {
                let path = &shift.path;
                let there = root.join(path).symlink_metadata().is_ok();
                let is_new = if shift.new.is_some() { !not_new.contains(path) } else { !there };
                if is_new {
                    continue;
                }
                // A missing file was deleted by git on its way to the new one.
                let is_old = !there || (shift.old.is_some() && !not_old.contains(path));
                match &shift.new {
                    _ if !is_old && !self.is_half(shift) => kept.push(path.clone()),
                    Some(_) => write.push(path),
                    None => delete.push(path),
                }
            }
            for path in delete {
                let file = root.join(path);
                fs::remove_file(&file).map_err(io("delete", &file))?;
                remove_empty_dirs(root, path);
            }
            write.retain(|path| {
                let free = !has_file_above(root, path);
                if !free {
                    kept.push((*path).clone());
                }
                free
            });
            if !write.is_empty() {
                let list: Vec<u8> =
                    write.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat()).collect();
                let command = self.git_on(&new, None)?.args(["checkout-index", "-f", "-z", "--stdin"]);
                command.stdin(list).bytes()?;
            }
            Ok(kept)
        };
        let kept = moved();
        for index in [old, new] {
            fs::remove_file(index).ok();
        }
        kept
    }

    /// The user's index by path, without conflicts.
    fn staged(&self) -> Result<HashMap<PathBuf, Entry>, GitError> {
        let listed = self.git(None)?.args(["ls-files", "-s", "-z"]).bytes()?;
        let entries = listed.split(|b| *b == 0).filter(|line| !line.is_empty());
        Ok(entries.filter_map(Entry::listed).collect())
    }

    /// Writes entries into an index; paths without an entry are removed first.
    fn put<'p>(
        &self,
        index: &Path,
        entries: impl Iterator<Item = (&'p PathBuf, Option<&'p Entry>)>,
    ) -> Result<(), GitError> {
        let (mut gone, mut there) = (Vec::new(), Vec::new());
        for (path, entry) in entries {
            let (list, head) = match entry {
                Some(entry) => (&mut there, format!("{} {}\t", entry.mode, entry.oid)),
                None => (&mut gone, format!("0 {}\t", "0".repeat(40))),
            };
            list.extend_from_slice(head.as_bytes());
            list.extend_from_slice(path.as_os_str().as_bytes());
            list.push(0);
        }
        let script = [gone, there].concat();
        let command = self.git_on(index, None)?.args(["update-index", "-z", "--index-info"]);
        command.stdin(script).bytes().map(drop)
    }

    /// Files whose presence or content differs from this side.
    fn differing<'s>(
        &self,
        index: &Path,
        shifts: &'s [&Shift],
        side: impl Fn(&'s Shift) -> Option<&'s Entry>,
    ) -> Result<BTreeSet<PathBuf>, GitError> {
        fs::remove_file(index).ok();
        let there: Vec<(&PathBuf, Option<&Entry>)> = shifts
            .iter()
            .map(|shift| (&shift.path, side(shift)))
            .filter(|(_, entry)| entry.is_some())
            .collect();
        if there.is_empty() {
            return Ok(BTreeSet::new());
        }
        self.put(index, there.into_iter())?;
        let _ = self.git_on(index, None)?.args(["update-index", "-q", "--refresh"]).run()?;
        let listed = self.git_on(index, None)?.args(["diff-files", "-z", "--name-only"]).bytes()?;
        Ok(crate::git::paths(&listed))
    }

    /// Paths that a sparse checkout leaves out.
    fn not_wanted(&self, to: &Oid) -> Result<BTreeSet<PathBuf>, GitError> {
        if !self.is_sparse() {
            return Ok(BTreeSet::new());
        }
        let index = self.aside("sparse");
        let listed = self
            .git_on(&index, None)?
            .arg("read-tree")
            .arg(to)
            .bytes()
            .and_then(|_| self.git_on(&index, None)?.args(["ls-files", "-t", "-z"]).bytes());
        fs::remove_file(&index).ok();
        let listed = listed?;
        let left_out = listed.split(|b| *b == 0).filter_map(|line| line.strip_prefix(b"S "));
        Ok(left_out.map(|path| PathBuf::from(std::ffi::OsStr::from_bytes(path))).collect())
    }

    /// Whether git wrote only the beginning of the new file.
    fn is_half(&self, shift: &Shift) -> bool {
        let file = self.checkout.path.join(&shift.path);
        let is_file = file.symlink_metadata().is_ok_and(|meta| meta.is_file());
        let (Some(new), true) = (&shift.new, is_file) else { return false };
        let Ok(there) = fs::read(&file) else { return false };
        let whole = self.work.bare().args(["cat-file", "blob"]).arg(&new.oid).bytes();
        whole.is_ok_and(|whole| whole.len() > there.len() && whole.starts_with(&there))
    }

    fn aside(&self, what: &str) -> PathBuf {
        let mut name = OsString::from(self.scratch());
        name.push(format!("-{what}"));
        name.into()
    }
}

/// Whether something other than a directory is in place of one of the path's directories.
fn has_file_above(root: &Path, path: &Path) -> bool {
    let above = path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty());
    above.into_iter().any(|dir| root.join(dir).symlink_metadata().is_ok_and(|meta| !meta.is_dir()))
}

fn remove_empty_dirs(root: &Path, path: &Path) {
    for dir in path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty()) {
        if fs::remove_dir(root.join(dir)).is_err() {
            return;
        }
    }
}
