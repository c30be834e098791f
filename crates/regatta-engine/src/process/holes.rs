//! **A log is bounded on disk, and every offset in it stays valid.** The recorder frees the middle of a log that
//! exceeds its limit: the file keeps its length, its beginning and its end, with a hole between them. All log readers
//! read through here, so that they see the content and never the zeros of the hole.
//!
//! A hole in the file and not several files: one `fallocate` changes everything at once, so that at no moment a killed
//! recorder, or a reader with an offset, could lose what is still there.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;

/// Holes begin and end at multiples of this, which is at least the block size of any file system.
const ALIGN: u64 = 1 << 20;

/// Reads like `read_at`, but continues behind a hole: returns where the data begins, and its length.
pub fn read_past_holes(file: &File, buffer: &mut [u8], mut at: u64) -> io::Result<(u64, usize)> {
    loop {
        let n = file.read_at(buffer, at)?;
        // What was freed before or during this read is zeros; without a zero there was no hole.
        if !buffer[..n].contains(&0) {
            return Ok((at, n));
        }
        let hole = found(seek(file, SeekFrom::Hole(at)))?.unwrap_or(u64::MAX);
        let whole = usize::try_from(hole.saturating_sub(at)).unwrap_or(usize::MAX).min(n);
        if whole > 0 {
            return Ok((at, whole));
        }
        match found(seek(file, SeekFrom::Data(at)))? {
            Some(data) if data > at => at = data,
            _ => return Ok((at, n)),
        }
    }
}

/// Where to continue reading backwards from `end`: there, or at the beginning of the hole that ends there.
pub fn before_holes(file: &File, end: u64) -> io::Result<u64> {
    let Some(last) = end.checked_sub(1) else { return Ok(0) };
    if found(seek(file, SeekFrom::Data(last)))? == Some(last) {
        return Ok(end);
    }
    // There is only one hole.
    Ok(found(seek(file, SeekFrom::Hole(0)))?.unwrap_or(end).min(end))
}

/// An offset behind the end is not an error here.
fn found(offset: rustix::io::Result<u64>) -> io::Result<Option<u64>> {
    match offset {
        Ok(offset) => Ok(Some(offset)),
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// How much of one log stays on disk.
pub(crate) struct Bound {
    /// Minimum length of the end that stays.
    tail: u64,
    /// How much more than that accumulates before any of it is freed.
    step: u64,
    /// The offset up to which the file was freed.
    freed: u64,
}

impl Bound {
    pub(crate) fn new(limit: u64) -> Self {
        // The beginning stays.
        let head = (limit / 4).next_multiple_of(ALIGN);
        Self { tail: limit / 2, step: (limit / 4).max(ALIGN), freed: head }
    }

    /// Frees the excess of a file with this length.
    pub(crate) fn keep(&mut self, file: &File, size: u64) -> io::Result<()> {
        if size.saturating_sub(self.freed) <= self.tail + self.step {
            return Ok(());
        }
        let until = (size - self.tail) / ALIGN * ALIGN;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(file, flags, self.freed, until - self.freed)?;
        self.freed = until;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    const MB: u64 = 1 << 20;
    /// The kept beginning for a limit of eight.
    const HEAD: u64 = 2 * MB;

    fn written(limit: u64, megabytes: u64) -> (File, Bound) {
        let mut file = tempfile::tempfile().unwrap();
        let mut bound = Bound::new(limit);
        for n in 0..megabytes {
            file.write_all(&[b'a' + (n % 26) as u8; MB as usize]).unwrap();
            bound.keep(&file, (n + 1) * MB).unwrap();
        }
        (file, bound)
    }

    #[test]
    fn a_file_keeps_its_length_and_no_more_than_its_limit() {
        let (file, bound) = written(8 * MB, 100);
        let meta = file.metadata().unwrap();
        assert_eq!(meta.len(), 100 * MB);
        assert!(meta.blocks() * 512 <= 9 * MB, "{} bytes", meta.blocks() * 512);
        assert!((94 * MB..=96 * MB).contains(&bound.freed), "{}", bound.freed);
    }

    #[test]
    fn who_reads_sees_only_what_is_there() {
        let (file, bound) = written(8 * MB, 100);
        let mut buffer = vec![0; 64 * 1024];
        let near = HEAD - 1000;
        assert_eq!(read_past_holes(&file, &mut buffer, near).unwrap(), (near, 1000));
        for at in [HEAD, HEAD + 1, bound.freed - 1] {
            assert_eq!(read_past_holes(&file, &mut buffer, at).unwrap(), (bound.freed, buffer.len()));
            assert!(!buffer.contains(&0));
        }
        assert_eq!(read_past_holes(&file, &mut buffer, 100 * MB).unwrap(), (100 * MB, 0));
        assert_eq!(before_holes(&file, bound.freed + 1).unwrap(), bound.freed + 1);
        assert_eq!(before_holes(&file, bound.freed).unwrap(), HEAD);
        assert_eq!(before_holes(&file, HEAD).unwrap(), HEAD);
        assert_eq!(before_holes(&file, 0).unwrap(), 0);
    }

    #[test]
    fn zeros_that_were_written_are_read() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[0; 300_000]).unwrap();
        file.write_all(b"x").unwrap();
        let mut buffer = vec![1; 400_000];
        assert_eq!(read_past_holes(&file, &mut buffer, 0).unwrap(), (0, 300_001));
    }
}
