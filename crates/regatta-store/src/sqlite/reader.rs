//! The reading connections.
//!
//! Invariant: a read sees one snapshot, taken after the call, and so everything that was acknowledged before.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::open;
use crate::{Result, StoreError};

/// More would not help: reads are short and the page cache is the kernel's.
const CONNECTIONS: usize = 4;

/// A few connections, opened on first use.
pub(super) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(path: PathBuf) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(CONNECTIONS));
        Arc::new(Self { path, idle: Mutex::new(Vec::new()), permits })
    }

    /// Runs `work` on a snapshot, off the runtime's threads.
    pub(super) async fn call<T, F>(self: &Arc<Self>, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let readers = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let db = match readers.take() {
                Some(db) => db,
                None => open::reader(&readers.path)?,
            };
            let answer = snapshot(&db, work);
            readers.put_back(db);
            answer
        });
        read.await.map_err(|error| StoreError::Unavailable(format!("the read was given up: {error}")))?
    }

    fn take(&self) -> Option<Connection> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn put_back(&self, db: Connection) {
        if db.is_autocommit() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(db);
        }
    }
}

fn snapshot<T>(db: &Connection, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
    db.prepare_cached("begin")?.execute([])?;
    let answer = work(db);
    db.prepare_cached("commit")?.execute([])?;
    answer
}
