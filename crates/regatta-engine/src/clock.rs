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
    let now = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.saturating_add(set_by()))
}

/// By how many milliseconds a test has set this process's clock: what `REGATTA_CLOCK` names a file of. Debug builds only.
fn set_by() -> i64 {
    if !cfg!(debug_assertions) {
        return 0;
    }
    let file = std::env::var_os("REGATTA_CLOCK");
    file.and_then(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok()).unwrap_or(0)
}
