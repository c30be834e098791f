//! The SQLite backend: one file, any number of processes, no service.
//!
//! Every write is a call of the rules, carried out in a `writer::Tx`, which only the writer's thread can create:
//! `ledger` reads what the rule asks for, `commit` writes its plan. Every read is a function of a snapshot; these are
//! in the modules below, one per part of the contract.

mod commit;
mod context;
mod crew;
mod documents;
mod events;
mod failure;
mod ledger;
mod members;
mod messages;
mod migrate;
mod open;
mod profiles;
mod prompts;
mod queue;
mod reader;
mod reads;
mod reports;
mod rows;
mod sessions;
mod spending;
mod store;
mod train;
mod transfer;
mod watch;
mod writer;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::{Result, StoreError};
use open::Marks;
use writer::Reading;

/// A store in one file. Cheap to open; closing it waits for pending writes.
pub struct SqliteStore {
    path: PathBuf,
    readers: Arc<reader::Readers>,
    /// Started by the first subscriber. Declared before the writer so that it is dropped first.
    watch: Mutex<Option<watch::WalWatch>>,
    writer: writer::Writer,
    /// The identity of the file when it was opened.
    file: Option<(u64, u64)>,
}

impl SqliteStore {
    /// Opens the store at `path`, creating it, its directory and its schema if they are missing.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path.as_ref(), Reading::AtOnce, Marks::Refused)
    }

    /// The same, even if it is being moved or copied. Calls that write are refused then, except those of
    /// [`Transfer`](crate::transfer::Transfer).
    pub fn open_marked(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path.as_ref(), Reading::AtOnce, Marks::Accepted)
    }

    /// The same, but its rules read in rounds, as they do in a store over a network.
    #[cfg(feature = "conformance")]
    pub fn open_in_rounds(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path.as_ref(), Reading::InRounds, Marks::Refused)
    }

    fn open_with(path: &Path, reading: Reading, marks: Marks) -> Result<Self> {
        let path = std::path::absolute(path)
            .map_err(|error| StoreError::Invalid(format!("the store's path is no path: {error}")))?;
        let writer = writer::Writer::start(open::writer(&path, marks)?, &path, reading)?;
        let (readers, file) = (reader::Readers::new(path.clone()), file_at(&path));
        Ok(Self { readers, watch: Mutex::new(None), writer, file, path })
    }

    /// The version of the schema at `path`, zero if there is none, and the one that this program knows.
    pub fn versions(path: impl AsRef<Path>) -> Result<(usize, usize)> {
        migrate::versions(path.as_ref())
    }

    /// Writes to a removed file would succeed without an error, and no other process would ever see them.
    fn require_file(&self) -> Result<()> {
        if file_at(&self.path) == self.file {
            return Ok(());
        }
        Err(StoreError::Corrupt(format!(
            "{} was removed or replaced while it was in use",
            self.path.display()
        )))
    }
}

fn file_at(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    path.metadata().ok().map(|meta| (meta.dev(), meta.ino()))
}
