//! Small file helpers: the end of a file, files that are replaced as a whole, and where this user's state is.
//!
//! Invariant: a reader of a replaced file sees the old or the new content and never a part, also when the writer is
//! killed. What else holds is the caller's choice, a [`Durability`].

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use regatta_core::hex::hex;
use sha2::{Digest, Sha256};

use crate::tokens::fresh_token;

/// The directory of this user's state that belongs to no repository: `$XDG_STATE_HOME/regatta`, else
/// `~/.local/state/regatta`. `None` if neither variable names a directory. It may not exist yet.
pub(crate) fn user_state(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).filter(|dir| dir.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("regatta"))
}

/// What is true of a written file after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It may be old, new or empty: for what can be found out or made again.
    Volatile,
    /// Once the call has returned, it is the new one: content and name are on disk.
    Durable,
}

/// Replaces `path` as a whole.
pub fn replace(path: &Path, content: &[u8], durability: Durability) -> io::Result<()> {
    replace_as(path, content, durability, None)
}

/// The same with these permissions instead of the default ones.
pub fn replace_as(path: &Path, content: &[u8], durability: Durability, mode: Option<u32>) -> io::Result<()> {
    replace_by(path, |aside| write_new(aside, content, durability, mode))?;
    sync_parent(path, durability)
}

/// Creates `path` as a whole, with its content, unless it exists. Returns whether it was created.
pub fn create(path: &Path, content: &[u8], durability: Durability) -> io::Result<bool> {
    let aside = beside(path);
    let linked = write_new(&aside, content, durability, None).and_then(|()| fs::hard_link(&aside, path));
    drop(fs::remove_file(&aside));
    let created = match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        linked => linked.map(|()| true)?,
    };
    // Also if another process created it: the caller relies on the name.
    sync_parent(path, durability)?;
    Ok(created)
}

/// A random id of 128 bits that is made once and kept in `dir/name`, private to the user.
pub(crate) fn kept_id(dir: &Path, name: &str) -> io::Result<String> {
    let path = dir.join(name);
    let kept = || -> io::Result<Option<String>> {
        let id = match fs::read_to_string(&path) {
            Ok(text) => text.trim().to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(Some(id));
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} holds no id; delete it", path.display())))
    };
    if let Some(id) = kept()? {
        return Ok(id);
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let id = hex(&Sha256::digest(fresh_token())[..16]);
    // A name of its own: processes of two pid namespaces can share this directory.
    let aside = dir.join(format!(".{name}.{}", &fresh_token()[..16]));
    let linked = write_new(&aside, id.as_bytes(), Durability::Durable, Some(0o600))
        .and_then(|()| fs::hard_link(&aside, &path));
    drop(fs::remove_file(&aside));
    match linked {
        // The first process decides, also for the others that do this at the same time.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => sync_parent(&path, Durability::Durable)?,
    }
    kept()?.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Replaces `path` by what `make` makes at a path beside it; nothing is left there after an error.
pub(crate) fn replace_by(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let aside = beside(path);
    make(&aside).and_then(|()| fs::rename(&aside, path)).inspect_err(|_| drop(fs::remove_file(&aside)))
}

/// A suffix that no other call on this machine uses at this time.
pub(crate) fn unique_suffix() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", unique_suffix()));
    path.with_file_name(name)
}

fn write_new(path: &Path, content: &[u8], durability: Durability, mode: Option<u32>) -> io::Result<()> {
    let open = || OpenOptions::new().write(true).create_new(true).mode(mode.unwrap_or(0o666)).open(path);
    let mut file = match open() {
        // A process with the same number was killed here, or a link was planted: it is removed, not followed.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            open()?
        }
        opened => opened?,
    };
    if let Some(mode) = mode {
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    file.write_all(content)?;
    if durability == Durability::Durable { file.sync_all() } else { Ok(()) }
}

fn sync_parent(path: &Path, durability: Durability) -> io::Result<()> {
    match path.parent() {
        Some(dir) if durability == Durability::Durable => File::open(dir)?.sync_all(),
        _ => Ok(()),
    }
}

/// The last `len` bytes of a file as text; empty if it cannot be read.
pub(crate) fn end_of(path: &Path, len: u64) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(path)?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(len)))?;
        let mut bytes = Vec::new();
        file.take(len).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_processes_keep_the_same_id() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("state");
        let make = || kept_id(&below, "node").unwrap();
        let ids = std::thread::scope(|scope| {
            let made: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            made.into_iter().map(|made| made.join().unwrap()).collect::<std::collections::BTreeSet<_>>()
        });
        assert_eq!(ids.len(), 1);
        let path = below.join("node");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&below).unwrap().count(), 1);
        fs::write(&path, "").unwrap();
        assert!(
            kept_id(&below, "node").unwrap_err().to_string().ends_with("/state/node holds no id; delete it")
        );
    }

    #[test]
    fn a_file_is_replaced_or_created_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record.json");
        replace(&path, b"one", Durability::Volatile).unwrap();
        replace_as(&path, b"two", Durability::Durable, Some(0o600)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!create(&path, b"three", Durability::Durable).unwrap());
        assert!(create(&dir.path().join("other"), b"three", Durability::Durable).unwrap());
        assert!(replace(&dir.path().join("absent/x"), b"", Durability::Durable).is_err());
        fs::create_dir(dir.path().join("in-the-way")).unwrap();
        assert!(replace(&dir.path().join("in-the-way"), b"", Durability::Volatile).is_err());
        let mut names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["in-the-way", "other", "record.json"]);
        assert_eq!(fs::read(path).unwrap(), b"two");
    }
}
