//! Deletes what an agent left, whatever it looks like: closed directories, and more directories inside each other than
//! a path or this process's descriptors can reach.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, chmod, fchmod, fstat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

/// How many directories are open at once. What is deeper is moved up first.
const DEEPEST: usize = 64;
/// How often to begin again because another process deletes the same.
const MOST_ROUNDS: usize = 100;

/// Deletes a directory and everything in it. Follows no link; a link in its place is deleted itself.
pub(crate) fn remove_tree(dir: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(dir)?.is_dir() {
        return fs::remove_file(dir);
    }
    let top = open(CWD, dir)?;
    let mut number = 0;
    let mut rounds = 0;
    loop {
        // Each round deletes all of it, or brings up what is deeper.
        while clear(&top, &top, 1, &mut number)? {}
        rounds += 1;
        match fs::remove_dir(dir) {
            // Another process deletes the same, and brought something up.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && rounds < MOST_ROUNDS => {}
            removed => return removed,
        }
    }
}

/// Deletes what is in a directory; returns whether something was moved up to `top`.
fn clear(dir: &OwnedFd, top: &OwnedFd, depth: usize, number: &mut u64) -> io::Result<bool> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push((entry.file_name().to_owned(), entry.file_type()));
        }
    }
    let mut moved = false;
    for (name, kind) in names {
        let kind = match kind {
            FileType::Unknown => {
                FileType::from_raw_mode(statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)
            }
            kind => kind,
        };
        if kind != FileType::Directory {
            gone(unlinkat(dir, &name, AtFlags::empty()))?;
            continue;
        }
        let child = match open(dir, name.as_c_str()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            child => child?,
        };
        if depth < DEEPEST {
            moved |= clear(&child, top, depth + 1, number)?;
            gone(unlinkat(dir, &name, AtFlags::REMOVEDIR))?;
            continue;
        }
        loop {
            *number += 1;
            match renameat(dir, &name, top, format!(".regatta-{number}")) {
                Ok(()) => break,
                Err(Errno::NOENT) => break,
                // The name is taken.
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        moved = true;
    }
    Ok(moved)
}

/// Opens a directory in which everything can be deleted.
fn open(dir: impl AsFd, name: impl rustix::path::Arg + Copy) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let all = Mode::RWXU;
    let opened = match openat(&dir, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let closed = openat(&dir, name, flags | OFlags::PATH, Mode::empty())?;
            // By its descriptor: a name could be that of a link by now.
            chmod(format!("/proc/self/fd/{}", closed.as_raw_fd()), all)?;
            openat(&dir, name, flags, Mode::empty())?
        }
        opened => opened?,
    };
    if !Mode::from_raw_mode(fstat(&opened)?.st_mode).contains(all) {
        fchmod(&opened, all)?;
    }
    Ok(opened)
}

/// What another process deleted is deleted.
fn gone(deleted: rustix::io::Result<()>) -> io::Result<()> {
    match deleted {
        Err(Errno::NOENT) => Ok(()),
        deleted => Ok(deleted?),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::process::Command;

    use super::*;

    #[test]
    fn whatever_is_in_it_goes_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, kept) = (dir.path().join("tree"), dir.path().join("kept"));
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::create_dir_all(&kept).unwrap();
        fs::write(kept.join("x"), "x").unwrap();
        fs::write(tree.join(".regatta-1"), "taken").unwrap();
        symlink(&kept, tree.join("a/link")).unwrap();
        for closed in ["a/b", "a"] {
            fs::set_permissions(tree.join(closed), fs::Permissions::from_mode(0o000)).unwrap();
        }
        // Deeper than a path can name.
        let deep = "i=0; while [ $i -lt 1500 ]; do mkdir dir && cd -P dir || exit 1; i=$((i+1)); done 2>/dev/null; : >x";
        assert!(Command::new("sh").args(["-c", deep]).current_dir(&tree).status().unwrap().success());
        remove_tree(&tree).unwrap();
        assert!(!tree.exists() && kept.join("x").exists());
        symlink(&kept, &tree).unwrap();
        remove_tree(&tree).unwrap();
        assert!(fs::symlink_metadata(&tree).is_err() && kept.join("x").exists());
        assert_eq!(remove_tree(&tree).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
