//! Store calls that have to get an answer: repeated, unchanged, while the store is away.

use std::future::Future;
use std::time::Duration;

use regatta_store::{Result, StoreError};

/// Longest pause between two tries.
const LONGEST: Duration = Duration::from_secs(2);
/// After so long without an answer the caller learns that the store is gone.
const PATIENCE: Duration = Duration::from_secs(60);

/// Calls until the store answers, or has been away for too long.
pub(crate) async fn until_answered<T, F, Fut>(mut call: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T>>,
{
    let started = std::time::Instant::now();
    let mut pause = Duration::from_millis(10);
    loop {
        match call().await {
            Err(StoreError::Unavailable(why)) if started.elapsed() > PATIENCE => {
                return Err(StoreError::Unavailable(why));
            }
            Err(StoreError::Unavailable(_)) => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST);
            }
            answer => return answer,
        }
    }
}
