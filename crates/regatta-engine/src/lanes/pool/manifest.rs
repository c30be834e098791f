//! The files of a lane as Regatta's own git wrote them: git's index of that moment, kept where no agent writes.
//!
//! Invariant: if an entry [`vouches for`](Manifest::vouches_for) a file, no process has written to it, replaced it or
//! changed its mode since. A change time cannot be set, only updated to now; and a change after the index was written
//! has a change time of that tick or a later one. So a file whose change time is the recorded one, and older than the
//! index, is untouched. A file as young as the index proves nothing and does not count.

use std::ops::Range;

use rustix::fs::{FileType, Stat};
use serde::{Deserialize, Serialize};

use crate::git::Oid;

const HEADER: usize = 12;
const STAT: usize = 40;
/// Assume-unchanged, extended flags, and merge stages: none occurs in an index just written for one tree.
const STRANGE_FLAGS: u16 = 0xf000;
const LINK_TO_COMMIT: u32 = 0o160_000;

/// Seconds and nanoseconds of a file's time, 32 bits of each as git stores them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Stamp(pub(crate) u32, pub(crate) u32);

#[derive(Debug)]
pub(super) struct Manifest {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    hash_len: usize,
    written: Stamp,
}

#[derive(Debug)]
struct Entry {
    all: Range<usize>,
    name_end: usize,
}

impl Manifest {
    /// Parses an index of git's version 2; `None` for any other, and for one with unusual entries. `oid` is any id of
    /// the repository, `written` the time of the file when git had just written it.
    pub(super) fn parse(bytes: Vec<u8>, oid: &Oid, written: Stamp) -> Option<Self> {
        let hash_len = oid.as_str().len() / 2;
        if bytes.get(..8)? != b"DIRC\0\0\0\x02" {
            return None;
        }
        let n_entries = number(&bytes, 8)? as usize;
        let mut entries = Vec::with_capacity(n_entries.min(bytes.len() / STAT));
        let mut at = HEADER;
        for _ in 0..n_entries {
            let name_at = at + STAT + hash_len + 2;
            let flags = u16::from_be_bytes(bytes.get(name_at - 2..name_at)?.try_into().ok()?);
            let length = bytes.get(name_at..)?.iter().position(|byte| *byte == 0)?;
            let name_end = name_at + length;
            // One to eight zeros pad an entry to a multiple of eight.
            let end = at + (name_end - at) / 8 * 8 + 8;
            if flags & STRANGE_FLAGS != 0 || length == 0 || end > bytes.len() {
                return None;
            }
            entries.push(Entry { all: at..end, name_end });
            at = end;
        }
        let manifest = Self { bytes, entries, hash_len, written };
        let is_sorted = (1..manifest.len()).all(|n| manifest.name(n - 1) < manifest.name(n));
        is_sorted.then_some(manifest)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The path, with slashes.
    pub(super) fn name(&self, n: usize) -> &[u8] {
        let entry = &self.entries[n];
        &self.bytes[entry.all.start + STAT + self.hash_len + 2..entry.name_end]
    }

    /// The id of its content.
    pub(super) fn content(&self, n: usize) -> &[u8] {
        let at = self.entries[n].all.start + STAT;
        &self.bytes[at..at + self.hash_len]
    }

    /// Whether a submodule is among them.
    pub(super) fn has_submodule(&self) -> bool {
        (0..self.len()).any(|n| self.field(n, 6) == LINK_TO_COMMIT)
    }

    /// The entries that define how other files are checked out.
    pub(super) fn attributes(&self) -> Vec<(&[u8], &[u8])> {
        let all = (0..self.len()).map(|n| (self.name(n), self.content(n)));
        all.filter(|(name, _)| name.rsplit(|byte| *byte == b'/').next() == Some(b".gitattributes")).collect()
    }

    /// Whether the file is untouched since its checkout.
    pub(super) fn vouches_for(&self, n: usize, stat: &Stat) -> bool {
        let is_link = FileType::from_raw_mode(self.field(n, 6)) == FileType::Symlink;
        let same_type = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => !is_link && (self.field(n, 6) ^ stat.st_mode) & 0o100 == 0,
            FileType::Symlink => is_link,
            _ => false,
        };
        let changed = Stamp(stat.st_ctime as u32, stat.st_ctime_nsec as u32);
        same_type
            && changed < self.written
            && changed == Stamp(self.field(n, 0), self.field(n, 1))
            && Stamp(stat.st_mtime as u32, stat.st_mtime_nsec as u32)
                == Stamp(self.field(n, 2), self.field(n, 3))
            && [stat.st_ino as u32, stat.st_uid, stat.st_gid, stat.st_size as u32]
                == [self.field(n, 5), self.field(n, 7), self.field(n, 8), self.field(n, 9)]
    }

    /// An index of the entries that `stay`, for git to continue from.
    pub(super) fn index_of(&self, stay: impl Fn(usize) -> bool) -> Vec<u8> {
        let mut index = Vec::with_capacity(self.bytes.len());
        index.extend_from_slice(&self.bytes[..HEADER]);
        let mut n_entries = 0_u32;
        for (n, entry) in self.entries.iter().enumerate() {
            if stay(n) {
                index.extend_from_slice(&self.bytes[entry.all.clone()]);
                n_entries += 1;
            }
        }
        index[8..HEADER].copy_from_slice(&n_entries.to_be_bytes());
        // Git accepts zeros for an omitted checksum.
        index.resize(index.len() + self.hash_len, 0);
        index
    }

    /// One of the ten numbers that git stores about a file.
    fn field(&self, n: usize, field: usize) -> u32 {
        number(&self.bytes, self.entries[n].all.start + 4 * field).expect("an entry holds ten numbers")
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
