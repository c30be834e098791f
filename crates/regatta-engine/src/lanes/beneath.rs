//! Copies files of a lane while its agent may be at work.
//!
//! Invariant: nothing is read that is not beneath the lane at the moment of reading. Git opens files by their path, so
//! an agent that swaps a directory for a link could make it read a secret that the agent itself cannot read. Here every
//! file is opened without following any link, and git then works on the copy.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    CWD, FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2, readlinkat, symlinkat,
};
use rustix::io::Errno;

use crate::git::{GitError, io as io_at};

const CHUNK: usize = 128 * 1024;
/// The longest `.git` file of a nested repository.
const LONGEST_GIT_FILE: u64 = 8 * 1024;

/// Copies these files and links of the lane at `from` to the directory `to`, which is created, and returns those that
/// were not: a path that is missing by now, leads through a link, or is below another of them. A nested repository is
/// copied as a reference to it. More than `most` bytes are an error.
pub(super) fn copy_beneath(
    from: &Path,
    to: &Path,
    paths: &BTreeSet<PathBuf>,
    most: u64,
) -> Result<BTreeSet<PathBuf>, GitError> {
    fs::create_dir_all(to).map_err(io_at("create", to))?;
    let open = |dir: &Path| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(CWD, dir, flags, Mode::empty()).map_err(|error| io_at("open", dir)(error.into()))
    };
    let (root, copy) = (open(from)?, open(to)?);
    let (mut left_out, mut left) = (BTreeSet::new(), most);
    for path in paths {
        if !copy_one(&root, from, &copy, path, &mut left).map_err(io_at("read", &from.join(path)))? {
            left_out.insert(path.clone());
        }
    }
    Ok(left_out)
}

/// False if it is left out.
fn copy_one(root: &OwnedFd, from: &Path, copy: &OwnedFd, path: &Path, left: &mut u64) -> io::Result<bool> {
    let Some(place) = place(root, path)? else { return Ok(false) };
    let stat = fstat(&place)?;
    let made = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => {
            let target = readlinkat(&place, "", Vec::new())?;
            room(copy, path).and_then(|(dir, name)| symlinkat(target, dir, name)).map_err(io::Error::from)
        }
        FileType::RegularFile => {
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            // It grew since its size was added to the others.
            *left = left.checked_sub(size).ok_or(io::ErrorKind::FileTooLarge)?;
            let source = reopen(&place)?;
            let made = create(copy, path, Mode::from_raw_mode(0o600 | (stat.st_mode & 0o100)));
            made.map_err(io::Error::from).and_then(|made| contents(&source, size, &made))
        }
        FileType::Directory => match repository(root, from, path)? {
            Some(text) => create(copy, &path.join(".git"), Mode::from_raw_mode(0o600))
                .map_err(io::Error::from)
                .and_then(|mut made| made.write_all(&text)),
            None => return Ok(false),
        },
        // Git knows nothing else.
        _ => return Ok(false),
    };
    match made {
        // Another of the paths is where this one belongs: each was there at another moment.
        Err(error)
            if matches!(
                Errno::from_io_error(&error),
                Some(Errno::EXIST | Errno::NOTDIR | Errno::LOOP | Errno::NOENT)
            ) =>
        {
            Ok(false)
        }
        made => made.map(|()| true),
    }
}

/// The directory of the copy in which a path is made, and its name there. A link in the copy is not followed either:
/// its target is the agent's choice.
fn room<'a>(copy: &OwnedFd, path: &'a Path) -> Result<(OwnedFd, &'a OsStr), Errno> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::NOENT) };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut dir = openat(copy, ".", flags, Mode::empty())?;
    for part in parent.components() {
        let Component::Normal(part) = part else { return Err(Errno::NOENT) };
        match mkdirat(&dir, part, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        dir = openat(&dir, part, flags, Mode::empty())?;
    }
    Ok((dir, name))
}

fn create(copy: &OwnedFd, path: &Path, mode: Mode) -> Result<File, Errno> {
    let (dir, name) = room(copy, path)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(dir, name, flags, mode).map(File::from)
}

/// What is at a path beneath the directory; nothing is opened by this. `None` if there is nothing, or a link on the way.
fn place(root: &impl AsFd, path: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    loop {
        return match openat2(root, path, flags, Mode::empty(), resolve) {
            Ok(place) => Ok(Some(place)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Ok(None),
            // A rename elsewhere made the answer uncertain.
            Err(Errno::AGAIN | Errno::INTR) => continue,
            Err(error) => Err(error.into()),
        };
    }
}

/// The same file for reading, whatever its path leads to by now.
fn reopen(place: &OwnedFd) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(openat(CWD, format!("/proc/self/fd/{}", place.as_raw_fd()), flags, Mode::empty())?.into())
}

/// Copies as much as there was. Zeros take no space: a file of a terabyte may have none.
fn contents(mut from: &File, size: u64, mut to: &File) -> io::Result<()> {
    let (mut chunk, mut left) = (vec![0; CHUNK], size);
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let n = from.read(&mut chunk[..most])?;
        if n == 0 {
            break;
        }
        left -= n as u64;
        if chunk[..n].iter().all(|byte| *byte == 0) {
            to.seek(SeekFrom::Current(n as i64))?;
        } else {
            to.write_all(&chunk[..n])?;
        }
    }
    to.set_len(size - left)
}

/// What a file `.git` says that leads to the repository in this directory, so that git finds the commit it is at.
fn repository(root: &OwnedFd, from: &Path, path: &Path) -> io::Result<Option<Vec<u8>>> {
    let inside = path.join(".git");
    let Some(place) = place(root, &inside)? else { return Ok(None) };
    Ok(match FileType::from_raw_mode(fstat(&place)?.st_mode) {
        FileType::Directory => Some([b"gitdir: ", from.join(&inside).as_os_str().as_bytes(), b"\n"].concat()),
        FileType::RegularFile => {
            let mut text = Vec::new();
            reopen(&place)?.take(LONGEST_GIT_FILE).read_to_end(&mut text)?;
            let named = text.strip_prefix(b"gitdir: ").unwrap_or_default().trim_ascii_end();
            // Relative to the directory that it is in.
            let named = from.join(path).join(OsStr::from_bytes(named));
            Some([b"gitdir: ", named.as_os_str().as_bytes(), b"\n"].concat())
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const MOST: u64 = 1 << 40;

    #[test]
    fn only_what_is_beneath_is_copied() {
        let dir = tempfile::tempdir().unwrap();
        let (lane, to, secret) = (dir.path().join("lane"), dir.path().join("to"), dir.path().join("secret"));
        fs::create_dir_all(lane.join("real")).unwrap();
        fs::create_dir_all(&secret).unwrap();
        fs::write(secret.join("key"), "secret").unwrap();
        fs::write(lane.join("real/tool"), "tool").unwrap();
        fs::set_permissions(lane.join("real/tool"), Permissions::from_mode(0o755)).unwrap();
        symlink(&secret, lane.join("linked")).unwrap();
        symlink(secret.join("key"), lane.join("link")).unwrap();
        fs::create_dir_all(lane.join("nested/.git")).unwrap();
        fs::create_dir_all(lane.join("module")).unwrap();
        fs::write(lane.join("module/.git"), "gitdir: ../modules/m\n").unwrap();
        let names = ["real/tool", "linked/key", "link", "gone", "../secret/key", "nested", "module"];
        let left_out = copy_beneath(&lane, &to, &names.map(PathBuf::from).into(), MOST).unwrap();
        assert_eq!(left_out, ["../secret/key", "gone", "linked/key"].map(PathBuf::from).into());
        assert_eq!(fs::read_to_string(to.join("real/tool")).unwrap(), "tool");
        assert_eq!(fs::metadata(to.join("real/tool")).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read_link(to.join("link")).unwrap(), secret.join("key"));
        assert!(!to.join("linked").exists() && !to.join("gone").exists());
        let named = |name: &str| fs::read_to_string(to.join(name).join(".git")).unwrap();
        assert_eq!(named("nested"), format!("gitdir: {}\n", lane.join("nested/.git").display()));
        assert_eq!(named("module"), format!("gitdir: {}\n", lane.join("module/../modules/m").display()));
    }

    /// A path and one below it cannot be there at once, but both may be asked for.
    #[test]
    fn nothing_is_written_through_a_link_in_the_copy() {
        let dir = tempfile::tempdir().unwrap();
        let (lane, to, outside) =
            (dir.path().join("lane"), dir.path().join("to"), dir.path().join("outside"));
        for dir in [&lane, &outside] {
            fs::create_dir_all(dir).unwrap();
        }
        symlink(&outside, lane.join("dir")).unwrap();
        copy_beneath(&lane, &to, &["dir".into()].into(), MOST).unwrap();
        fs::remove_file(lane.join("dir")).unwrap();
        fs::create_dir_all(lane.join("dir")).unwrap();
        fs::write(lane.join("dir/file"), "x").unwrap();
        let left_out = copy_beneath(&lane, &to, &["dir/file".into()].into(), MOST).unwrap();
        assert_eq!(left_out.len(), 1);
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }

    #[test]
    fn zeros_take_no_space() {
        use std::os::unix::fs::MetadataExt as _;
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let mut file = File::create(&from).unwrap();
        file.set_len(64 << 20).unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(b"end").unwrap();
        copy_beneath(dir.path(), &to, &["from".into()].into(), MOST).unwrap();
        let made = fs::metadata(to.join("from")).unwrap();
        assert_eq!(made.len(), (64 << 20) + 3);
        assert!(made.blocks() * 512 < 1 << 20, "{} blocks", made.blocks());
        // What grew since it was measured is not copied.
        let few = copy_beneath(dir.path(), &dir.path().join("few"), &["from".into()].into(), 64 << 20);
        assert!(few.is_err());
    }
}
