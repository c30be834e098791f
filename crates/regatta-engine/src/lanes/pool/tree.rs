//! Restores the files of a used lane to its manifest.
//!
//! Invariant: what is left afterwards are files that the manifest vouches for, in plain directories, and declared build
//! directories. Everything else is removed, whatever it was: git gets the list of files to write again.
//!
//! Nothing here follows a link or leaves the file system: each step is taken from an open directory.

use std::ffi::{CStr, CString};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat, unlinkat};
use rustix::io::Errno;

use super::manifest::Manifest;
use super::pattern::TreePattern;

/// Deeper than any real tree.
const DEEPEST: usize = 200;

/// The result of cleaning a tree.
#[derive(Debug, Default)]
pub(super) struct Cleaned {
    /// For each entry of the manifest, whether it is gone and must be written again.
    pub(super) gone: Vec<bool>,
    /// Build directories that stayed, with slashes, relative to the root.
    pub(super) build_dirs: Vec<Vec<u8>>,
    /// Whether any input of the setup was touched.
    pub(super) inputs_touched: bool,
}

/// Why a tree is not reused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// Another file system is mounted in it, which must not be deleted.
    Mounted(String),
    /// Something is not as Regatta left it and cannot be judged.
    Odd(String),
}

/// What may stay, and what to watch for.
#[derive(Debug)]
pub(super) struct Rules<'a> {
    pub(super) build_dirs: &'a [TreePattern],
    pub(super) setup_inputs: &'a [TreePattern],
    /// The mode of a newly created directory.
    pub(super) dir_mode: u32,
}

/// Removes what does not belong.
pub(super) fn clean(root: &Path, manifest: &Manifest, rules: &Rules<'_>) -> Result<Cleaned, Doubt> {
    let opened = rustix::fs::open(root, DIRECTORY, Mode::empty());
    let (dir, stat) =
        opened.and_then(|dir| fstat(&dir).map(|stat| (dir, stat))).map_err(|error| odd(b"", error))?;
    let cleaned = Cleaned { gone: vec![false; manifest.len()], ..Cleaned::default() };
    let mut walk = Walk { manifest, rules, device: stat.st_dev, cleaned, path: Vec::new() };
    walk.directory(dir, &stat, 0..manifest.len(), 0)?;
    Ok(walk.cleaned)
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

struct Walk<'a> {
    manifest: &'a Manifest,
    rules: &'a Rules<'a>,
    device: u64,
    cleaned: Cleaned,
    /// The current path: empty at the root, else with a trailing slash.
    path: Vec<u8>,
}

/// The manifest's entries under one name of a directory.
enum Child {
    File(usize),
    Directory(Range<usize>),
}

impl<'a> Walk<'a> {
    /// Cleans an open directory that contains these entries; returns whether anything is left in it.
    fn directory(
        &mut self,
        dir: OwnedFd,
        stat: &Stat,
        entries: Range<usize>,
        depth: usize,
    ) -> Result<bool, Doubt> {
        if depth > DEEPEST {
            return Err(Doubt::Odd(format!("{} is too deep", shown(&self.path))));
        }
        if stat.st_mode & 0o7777 != self.rules.dir_mode {
            return Err(Doubt::Odd(format!("{}/ has mode {:o}", shown(&self.path), stat.st_mode & 0o7777)));
        }
        if has_attributes(dir.as_fd()).map_err(|error| odd(&self.path, error))? {
            return Err(Doubt::Odd(format!("{}/ has attributes of its own", shown(&self.path))));
        }
        let children = self.children(entries);
        let mut seen = vec![false; children.len()];
        let names = listed(&dir).map_err(|error| odd(&self.path, error))?;
        let mut is_left = false;
        for name in names {
            let found = children.binary_search_by(|(child, _)| (*child).cmp(name.to_bytes())).ok();
            let child = found.map(|n| {
                seen[n] = true;
                &children[n].1
            });
            is_left |= self.entry(dir.as_fd(), &name, child, depth)?;
        }
        let missing = children.iter().zip(seen).filter(|(_, seen)| !seen).map(|((_, child), _)| child);
        missing.for_each(|child| self.forget(child));
        Ok(is_left)
    }

    /// Judges one name; returns whether it stays.
    fn entry(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &CStr,
        child: Option<&Child>,
        depth: usize,
    ) -> Result<bool, Doubt> {
        let back = self.path.len();
        self.path.extend_from_slice(name.to_bytes());
        let stays = self.judge(dir, name, child, depth);
        self.path.truncate(back);
        stays
    }

    fn judge(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &CStr,
        child: Option<&Child>,
        depth: usize,
    ) -> Result<bool, Doubt> {
        let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| odd(&self.path, error))?;
        let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if stat.st_dev != self.device {
            return Err(Doubt::Mounted(shown(&self.path)));
        }
        match child {
            Some(Child::File(n)) if self.manifest.vouches_for(*n, &stat) => return Ok(true),
            Some(Child::Directory(entries)) if is_dir => {
                return self.below(dir, name, &stat, entries.clone(), depth);
            }
            Some(child) => self.forget(child),
            None if is_dir && name.to_bytes() != b".git" => {
                if self.rules.build_dirs.iter().any(|pattern| pattern.covers(&self.path)) {
                    self.cleaned.build_dirs.push(self.path.clone());
                    return Ok(true);
                }
                // A build directory may be below.
                return self.below(dir, name, &stat, 0..0, depth);
            }
            None => self.note_touched(),
        }
        let removed =
            if is_dir { self.remove(dir, name, depth) } else { unlinkat(dir, name, AtFlags::empty()) };
        removed.map_err(|error| odd(&self.path, error))?;
        Ok(false)
    }

    fn below(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &CStr,
        stat: &Stat,
        entries: Range<usize>,
        depth: usize,
    ) -> Result<bool, Doubt> {
        let is_ours = !entries.is_empty();
        // An untracked directory may have any mode: it is removed, unless a build directory is below.
        let plain = stat.st_mode & 0o7777 == self.rules.dir_mode;
        if !is_ours && !plain {
            self.remove(dir, name, depth).map_err(|error| odd(&self.path, error))?;
            return Ok(false);
        }
        let opened = openat(dir, name, DIRECTORY, Mode::empty()).map_err(|error| odd(&self.path, error))?;
        self.path.push(b'/');
        let is_left = self.directory(opened, stat, entries, depth + 1);
        self.path.pop();
        if is_left? {
            return Ok(true);
        }
        unlinkat(dir, name, AtFlags::REMOVEDIR).map_err(|error| odd(&self.path, error))?;
        Ok(false)
    }

    /// Removes a directory with everything in it.
    fn remove(&self, dir: BorrowedFd<'_>, name: &CStr, depth: usize) -> Result<(), Errno> {
        if depth > DEEPEST {
            return Err(Errno::LOOP);
        }
        let opened = openat(dir, name, DIRECTORY, Mode::empty())?;
        for name in listed(&opened)? {
            let stat = statat(&opened, &name, AtFlags::SYMLINK_NOFOLLOW)?;
            if stat.st_dev != self.device {
                return Err(Errno::XDEV);
            }
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => self.remove(opened.as_fd(), &name, depth + 1)?,
                _ => unlinkat(&opened, &name, AtFlags::empty())?,
            }
        }
        unlinkat(dir, name, AtFlags::REMOVEDIR)
    }

    /// The names right below the current directory, sorted.
    fn children(&self, entries: Range<usize>) -> Vec<(&'a [u8], Child)> {
        let manifest = self.manifest;
        let mut children: Vec<(&[u8], Child)> = Vec::new();
        for n in entries {
            let rest = &manifest.name(n)[self.path.len()..];
            match rest.iter().position(|byte| *byte == b'/') {
                None => children.push((rest, Child::File(n))),
                // Everything below one directory is adjacent.
                Some(slash) => match children.last_mut() {
                    Some((name, Child::Directory(range))) if *name == &rest[..slash] => range.end = n + 1,
                    _ => children.push((&rest[..slash], Child::Directory(n..n + 1))),
                },
            }
        }
        children.sort_unstable_by_key(|(name, _)| *name);
        children
    }

    fn forget(&mut self, child: &Child) {
        let entries = match child {
            Child::File(n) => *n..*n + 1,
            Child::Directory(entries) => entries.clone(),
        };
        for n in entries {
            self.cleaned.gone[n] = true;
            let is_input = |pattern: &TreePattern| pattern.covers(self.manifest.name(n));
            self.cleaned.inputs_touched |= self.rules.setup_inputs.iter().any(is_input);
        }
    }

    fn note_touched(&mut self) {
        let is_input = |pattern: &TreePattern| pattern.covers(&self.path);
        self.cleaned.inputs_touched |= self.rules.setup_inputs.iter().any(is_input);
    }
}

/// The names in a directory except `.` and `..`, all read before anything is removed.
fn listed(dir: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}

/// Access rules and extended attributes that an agent can set on a directory, and that new files would inherit.
fn has_attributes(dir: BorrowedFd<'_>) -> Result<bool, Errno> {
    let mut names = [0_u8; 1024];
    match rustix::fs::flistxattr(dir, &mut names[..]) {
        Ok(length) => {
            let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
            // The system's own attributes are on every file.
            Ok(names.into_iter().any(|name| !name.starts_with(b"security.")))
        }
        Err(Errno::NOTSUP) => Ok(false),
        Err(Errno::RANGE) => Ok(true),
        Err(error) => Err(error),
    }
}

fn odd(path: &[u8], error: Errno) -> Doubt {
    match error {
        Errno::XDEV => Doubt::Mounted(shown(path)),
        _ => Doubt::Odd(format!("{}: {error}", shown(path))),
    }
}

fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).trim_end_matches('/').to_owned()
}

/// A manifest path as a system path.
pub(super) fn native(path: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    PathBuf::from(std::ffi::OsStr::from_bytes(path))
}
