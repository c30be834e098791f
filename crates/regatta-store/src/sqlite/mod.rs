//! The SQLite backend: one file, any number of processes, no service.
//!
//! Every write is a function of a `writer::Tx`, which only the writer's thread can hand out; every read is a
//! function of a snapshot. The functions are in the modules below, one per part of the contract; what is here
//! only carries arguments to them.

mod claims;
mod context;
mod crew;
mod cycle;
mod dependents;
mod enqueue;
mod events;
mod failure;
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
mod watch;
mod writer;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::{Result, StoreError};

/// A store in one file. Cheap to open; closing it waits for writes that are under way.
pub struct SqliteStore {
    path: PathBuf,
    readers: Arc<reader::Readers>,
    /// Started by the first subscriber. Stands before the writer: it is stopped first.
    watch: Mutex<Option<watch::Watch>>,
    writer: writer::Writer,
}

impl SqliteStore {
    /// Opens the store at `path`, creating it, its directory and its schema where they are missing.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = std::path::absolute(path.as_ref())
            .map_err(|error| StoreError::Invalid(format!("the store's path is no path: {error}")))?;
        let writer = writer::Writer::start(open::writer(&path)?, &path)?;
        Ok(Self { readers: reader::Readers::new(path.clone()), watch: Mutex::new(None), writer, path })
    }
}
