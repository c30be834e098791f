//! The clock of the store's server, as calls learn it. It is shown; no decision rests on it.

use std::time::{Duration, Instant};

use regatta_core::time::Timestamp;

/// The time of a store's server, and when it was that time here.
#[derive(Clone, Copy, Debug)]
pub struct ServerTime {
    /// By the server's clock.
    at: Timestamp,
    /// By a clock of this machine that nobody sets.
    seen: Instant,
}

impl ServerTime {
    /// A time that the server gave in an exchange which began at `begun` and has just ended. `None` if it took so long
    /// that it says little.
    pub fn learned(at: Timestamp, begun: Instant) -> Option<Self> {
        let took = begun.elapsed();
        (took <= SLOW).then(|| Self { at, seen: begun + took / 2 })
    }

    /// How far a clock that shows `here` now is ahead of the server's, in milliseconds; negative if it is behind.
    pub fn ahead(&self, here: Timestamp) -> i64 {
        here.millis().saturating_sub(self.at.plus(self.seen.elapsed()).millis())
    }
}

/// An exchange that takes longer says too little about the server's time.
const SLOW: Duration = Duration::from_secs(1);

/// What a handle has learned last.
#[cfg(any(feature = "postgres", feature = "zookeeper"))]
#[derive(Debug, Default)]
pub(crate) struct Learned(std::sync::Mutex<Option<ServerTime>>);

#[cfg(any(feature = "postgres", feature = "zookeeper"))]
impl Learned {
    /// Takes in the server's time, in milliseconds, as an exchange that began at `begun` says.
    pub(crate) fn learn(&self, millis: i64, begun: Instant) {
        if let Some(time) = ServerTime::learned(Timestamp::from_millis(millis), begun) {
            *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(time);
        }
    }

    pub(crate) fn get(&self) -> Option<ServerTime> {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_an_exchange_is_compared_and_a_slow_one_is_not() {
        let at = Timestamp::from_millis(1_000_000);
        let begun = Instant::now().checked_sub(Duration::from_millis(400)).unwrap();
        let time = ServerTime::learned(at, begun).unwrap();
        // The server's clock is at 1,000,200 now.
        let ahead = time.ahead(Timestamp::from_millis(1_003_200));
        assert!((2_900..=3_000).contains(&ahead), "{ahead}");
        assert!(time.ahead(Timestamp::from_millis(0)) <= -1_000_200);
        let slow = Instant::now().checked_sub(Duration::from_secs(2)).unwrap();
        assert!(ServerTime::learned(at, slow).is_none());
    }
}
