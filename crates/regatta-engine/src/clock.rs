//! The wall clock, asked in one place. It dates records; it decides no lease. And the clock that does.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use regatta_core::time::Timestamp;

/// How long this machine has been up, the time it was suspended included.
pub(crate) fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(time).unwrap_or_default()
}

/// Now.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
