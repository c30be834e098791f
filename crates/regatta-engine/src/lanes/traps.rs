//! Pipes in a lane that git would wait for without end: it reads some files wherever it finds them, and opening a pipe
//! waits for a person at its other end.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat, unlinkat};

use super::{Lane, Lanes};
use crate::git::{GitError, io as git_io};

/// What git reads in every directory of a worktree.
const READ_BY_GIT: [&[u8]; 4] = [b".git", b".gitattributes", b".gitignore", b".gitmodules"];

/// Removes pipes, sockets and devices where git would open them: under the names above, and everywhere in a nested
/// repository. Returns their paths. For a lane whose agent has ended; no link is followed.
///
/// A directory that cannot be read is left out: git cannot read it either.
pub(crate) fn remove_traps(lane: &Path) -> io::Result<Vec<PathBuf>> {
    let dir = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = match openat(CWD, lane, dir, Mode::empty()) {
        Ok(root) => root,
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error.into()),
    };
    let mut removed = Vec::new();
    let mut waiting = vec![(PathBuf::from("."), false)];
    while let Some((path, in_repository)) = waiting.pop() {
        let Ok(opened) = openat(&root, &path, dir, Mode::empty()) else { continue };
        for (name, kind) in entries(&opened) {
            let is_named = READ_BY_GIT.contains(&name.as_bytes());
            let here = path.join(&name);
            match kind {
                FileType::Directory => {
                    waiting.push((here, in_repository || name.as_bytes() == b".git"));
                }
                FileType::RegularFile | FileType::Symlink => {}
                _ if (is_named || in_repository)
                    && unlinkat(&opened, name.as_os_str(), AtFlags::empty()).is_ok() =>
                {
                    removed.push(here.strip_prefix(".").map_or_else(|_| here.clone(), Path::to_owned));
                }
                _ => {}
            }
        }
    }
    removed.sort();
    Ok(removed)
}

impl Lanes {
    /// See [`remove_traps`].
    pub(super) fn clear_traps(&self, lane: &Lane) -> Result<(), GitError> {
        remove_traps(&lane.path).map(drop).map_err(git_io("look for pipes in", &lane.path))
    }
}

fn entries(dir: &OwnedFd) -> Vec<(std::ffi::OsString, FileType)> {
    let listed = Dir::read_from(dir).into_iter().flatten().flatten();
    let named = listed.filter(|entry| !matches!(entry.file_name().to_bytes(), b"." | b".."));
    let known = named.filter_map(|entry| {
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat = statat(dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
                FileType::from_raw_mode(stat.st_mode)
            }
            kind => kind,
        };
        Some((OsStr::from_bytes(entry.file_name().to_bytes()).to_owned(), kind))
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::mkfifoat;

    use super::*;

    #[test]
    fn only_what_git_would_wait_for_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (lane, outside) = (dir.path().join("lane"), dir.path().join("outside"));
        for made in [lane.join("a/b"), lane.join("nested/.git/refs/heads"), outside.clone()] {
            fs::create_dir_all(made).unwrap();
        }
        let pipe = |path: PathBuf| mkfifoat(CWD, path, Mode::RWXU).unwrap();
        let traps = ["a/.gitignore", "a/b/.gitattributes", "nested/.git/HEAD", "nested/.git/refs/heads/x"];
        traps.iter().for_each(|name| pipe(lane.join(name)));
        pipe(lane.join("a/pipe"));
        pipe(outside.join(".gitignore"));
        std::os::unix::fs::symlink(&outside, lane.join("link")).unwrap();
        fs::write(lane.join(".gitignore"), "x\n").unwrap();
        assert_eq!(remove_traps(&lane).unwrap(), traps.map(PathBuf::from));
        assert!(lane.join("a/pipe").symlink_metadata().is_ok() && lane.join(".gitignore").is_file());
        assert!(outside.join(".gitignore").symlink_metadata().is_ok(), "it is not in the lane");
        assert_eq!(remove_traps(&dir.path().join("gone")).unwrap(), Vec::<PathBuf>::new());
    }
}
