//! Fresh stores for the suites.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use regatta_store::Store;
use regatta_store::conformance::Fixture;
use regatta_store::faulty::Faulty;
use regatta_store::sqlite::SqliteStore;

/// A file in a directory of its own.
pub(crate) struct File {
    directory: tempfile::TempDir,
    percent: u64,
    machines: AtomicU64,
}

impl File {
    pub(crate) fn fresh(percent: u64) -> Self {
        Self { directory: tempfile::tempdir().unwrap(), percent, machines: AtomicU64::new(1) }
    }
}

#[async_trait]
impl Fixture for File {
    async fn machine(&self) -> Arc<dyn Store> {
        let store = SqliteStore::open(self.directory.path().join("regatta.db")).unwrap();
        match self.percent {
            0 => Arc::new(store),
            percent => Arc::new(Faulty::new(store, percent, self.machines.fetch_add(1, Ordering::Relaxed))),
        }
    }
}
