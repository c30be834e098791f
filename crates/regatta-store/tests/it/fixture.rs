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
    in_rounds: bool,
}

impl File {
    pub(crate) fn fresh(percent: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory, percent, machines: AtomicU64::new(1), in_rounds: false }
    }

    /// The rules read as they do in a store over a network: what they usually need, then what they ask for.
    pub(crate) fn in_rounds() -> Self {
        Self { in_rounds: true, ..Self::fresh(0) }
    }
}

#[async_trait]
impl Fixture for File {
    async fn machine(&self) -> Arc<dyn Store> {
        let path = self.directory.path().join("regatta.db");
        let open = if self.in_rounds { SqliteStore::open_in_rounds } else { SqliteStore::open };
        let store = open(path).unwrap();
        match self.percent {
            0 => Arc::new(store),
            percent => Arc::new(Faulty::new(store, percent, self.machines.fetch_add(1, Ordering::Relaxed))),
        }
    }
}
