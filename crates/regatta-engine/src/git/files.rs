//! Small file operations that must happen completely or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags};

use super::GitError;
use crate::files::{self, Durability};

/// Adds the path and the operation to an IO error.
pub(crate) fn io<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(std::io::Error) -> GitError + 'a {
    move |source| GitError::Io { doing, path: path.to_owned(), source }
}

/// Turns "not found" into `None`: a missing file is an answer, not an error.
pub(crate) fn absent_is_none<T>(result: std::io::Result<T>) -> std::io::Result<Option<T>> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces `path` as a whole; see [`Durability::Volatile`].
pub(crate) fn replace_file(path: &Path, content: &[u8]) -> Result<(), GitError> {
    files::replace(path, content, Durability::Volatile).map_err(io("write", path))
}

/// The largest index that is copied: that of about ten million files.
const LARGEST_INDEX: u64 = 1 << 30;

/// Copies an index with its time: git considers a file unchanged whose times are older than its index's, so a copy that
/// looks newer than it is would hide changes made in the second before. `None` if there is no index to copy; a link or
/// a pipe in its place does not count, nor does a file of any size that takes no space until it is copied.
pub(crate) fn copy_index(from: &Path, to: &Path) -> Result<Option<()>, GitError> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).expect("the flags of an open fit");
    let opened = absent_is_none(OpenOptions::new().read(true).custom_flags(flags).open(from));
    let Some(mut source) = opened.map_err(io("open", from))? else { return Ok(None) };
    let meta = source.metadata().map_err(io("look at", from))?;
    if !meta.is_file() || meta.len() > LARGEST_INDEX {
        return Ok(None);
    }
    let copied = File::create(to).and_then(|mut copy| {
        std::io::copy(&mut source, &mut copy)?;
        copy.set_modified(meta.modified()?)
    });
    copied.map(Some).map_err(io("copy", from))
}

/// Reads a file that an agent may have replaced: only a plain file of at most `most` bytes counts, and no link is
/// followed to it. `None` if there is none.
pub(crate) fn read_plain(path: &Path, most: u64) -> Result<Option<Vec<u8>>, GitError> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).expect("the flags of an open fit");
    let odd = |what: &str| io("read", path)(std::io::Error::other(format!("it is {what}")));
    let opened = match absent_is_none(OpenOptions::new().read(true).custom_flags(flags).open(path)) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(odd("a link"));
        }
        opened => opened.map_err(io("open", path))?,
    };
    let Some(file) = opened else { return Ok(None) };
    let meta = file.metadata().map_err(io("look at", path))?;
    if meta.is_dir() {
        return Ok(None);
    }
    if !meta.is_file() {
        return Err(odd("not a plain file"));
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(io("read", path))?;
    if bytes.len() as u64 > most { Err(odd("too large")) } else { Ok(Some(bytes)) }
}

/// The same for a file that counts as missing if it is anything else, or too large.
pub(crate) fn read_if_plain(path: &Path, most: u64) -> Result<Option<Vec<u8>>, GitError> {
    match read_plain(path, most) {
        // The kernel refused nothing: we did.
        Err(GitError::Io { source, .. }) if source.raw_os_error().is_none() => Ok(None),
        read => read,
    }
}

/// Makes `path` a link to `target` atomically, whatever it was before.
pub(crate) fn replace_link(path: &Path, target: &Path) -> Result<(), GitError> {
    files::replace_by(path, |aside| std::os::unix::fs::symlink(target, aside)).map_err(io("link", path))
}

/// An advisory lock, released when dropped or when the process dies.
#[derive(Debug)]
pub(crate) struct FileLock {
    file: File,
}

impl FileLock {
    /// Waits until the lock at `path` is ours.
    pub(crate) fn wait(path: PathBuf) -> Result<Self, GitError> {
        Self::lock(&path, FlockOperation::LockExclusive)?.map_or_else(|| unreachable!("it waits"), Ok)
    }

    /// Waits for a shared lock at `path`.
    pub(crate) fn share(path: &Path) -> Result<Self, GitError> {
        Self::lock(path, FlockOperation::LockShared)?.map_or_else(|| unreachable!("it waits"), Ok)
    }

    /// The lock at `path`, if it is free.
    pub(crate) fn if_free(path: &Path) -> Result<Option<Self>, GitError> {
        Self::lock(path, FlockOperation::NonBlockingLockExclusive)
    }

    /// The lock on an existing file, if it is free; a missing file is not created.
    pub(crate) fn if_free_at(path: &Path) -> Result<Option<Self>, GitError> {
        let opened = absent_is_none(File::open(path)).map_err(io("open", path))?;
        let Some(file) = opened else { return Ok(None) };
        Self::flock(file, path, FlockOperation::NonBlockingLockExclusive)
    }

    /// Whether the locked file is still the one at `path`.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let same = |a: &fs::Metadata, b: &fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        matches!((self.file.metadata(), fs::metadata(path)), (Ok(ours), Ok(theirs)) if same(&ours, &theirs))
    }

    fn lock(path: &Path, operation: FlockOperation) -> Result<Option<Self>, GitError> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(io("create", parent))?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(io("open", path))?;
        Self::flock(file, path, operation)
    }

    fn flock(file: File, path: &Path, operation: FlockOperation) -> Result<Option<Self>, GitError> {
        loop {
            match rustix::fs::flock(&file, operation) {
                Ok(()) => return Ok(Some(Self { file })),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(io("lock", path)(error.into())),
            }
        }
    }
}
