//! Store calls that need an answer: repeated, unchanged, while the store is unreachable, and for as long as another
//! process on this machine has its lock.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use regatta_store::{Result, StoreError};
use tokio::time::Instant;

/// Longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// A store that does not answer for this long is gone for the caller, which then waits without agents
/// ([`until_back`](crate::away::until_back)).
const STORE_PATIENCE: Duration = Duration::from_secs(60);

/// How long a call waits for a store that does not answer.
pub(crate) fn patience() -> Duration {
    for_test("REGATTA_TEST_PATIENCE_MS").unwrap_or(STORE_PATIENCE)
}

/// A time that a test shortens by a variable. Debug builds only.
pub(crate) fn for_test(variable: &str) -> Option<Duration> {
    let millis = std::env::var(variable).ok().filter(|_| cfg!(debug_assertions))?;
    Some(Duration::from_millis(millis.parse().ok()?))
}

/// How often calls of this process found the store unreachable or busy.
static TIMES_AWAY: AtomicU64 = AtomicU64::new(0);

/// How often calls of this process found the store unreachable or busy so far: events may have been missed meanwhile.
pub(crate) fn times_away() -> u64 {
    TIMES_AWAY.load(Ordering::SeqCst)
}

/// Calls until the store answers, or has been unreachable for too long.
pub(crate) async fn until_answered<T, F, Fut>(mut call: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T>>,
{
    let mut away_since = Instant::now();
    let patience = patience();
    let mut pause = Duration::from_millis(10);
    loop {
        match call().await {
            Err(StoreError::Unavailable(why)) if away_since.elapsed() > patience => {
                return Err(StoreError::Unavailable(why));
            }
            Err(StoreError::Unavailable(_)) => {
                TIMES_AWAY.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            // Nothing is lost, and no other process gets ahead meanwhile: wait for as long as it takes.
            Err(StoreError::Busy(_)) => {
                TIMES_AWAY.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                away_since = Instant::now();
            }
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_busy_store_is_waited_for_and_one_that_is_gone_is_given_up() {
        let begun = Instant::now();
        let answer = until_answered(|| async {
            if begun.elapsed() < Duration::from_secs(3600) {
                Err(StoreError::Busy("held".into()))
            } else {
                Ok(7)
            }
        });
        assert_eq!(answer.await.unwrap(), 7);
        let calls = Cell::new(0);
        let away = until_answered(|| {
            calls.set(calls.get() + 1);
            async { Err::<(), _>(StoreError::Unavailable("gone".into())) }
        });
        assert!(matches!(away.await, Err(StoreError::Unavailable(_))));
        assert!(calls.get() > 10);
    }
}
