//! Waiting for changes of the store.
//!
//! A loop that shows something or waits for something reads first, then waits. What changes while it reads ends the
//! wait at once, so nothing is missed.

use std::time::Duration;

use regatta_store::Store;
use tokio::sync::watch;

use crate::refusal::Refusal;

/// Wakes its holder after changes of the store. A wake-up is only a hint: read the state that it is about.
#[derive(Clone, Debug)]
pub struct StoreChanges {
    news: watch::Receiver<u64>,
}

impl StoreChanges {
    /// Listens from now on.
    pub async fn of(store: &dyn Store) -> Result<Self, Refusal> {
        Ok(Self { news: store.subscribe().await? })
    }

    /// Skips the changes until now, for a caller that is about to read all of them.
    pub fn skip(&mut self) {
        self.news.borrow_and_update();
    }

    /// Waits for a change since the last wait. If the future is dropped early, no change is lost.
    pub async fn next(&mut self) -> Result<(), Refusal> {
        Ok(self.news.changed().await?)
    }

    /// Like [`next`](Self::next), for at most this long.
    pub async fn next_within(&mut self, most: Duration) -> Result<(), Refusal> {
        let waited = tokio::time::timeout(most, self.next()).await.unwrap_or(Ok(()));
        self.skip();
        waited
    }
}
