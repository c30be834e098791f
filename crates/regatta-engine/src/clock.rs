//! The wall clock, asked in one place. It dates records; it decides no lease.

use std::time::{SystemTime, UNIX_EPOCH};

use regatta_core::time::Timestamp;

/// Now.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
