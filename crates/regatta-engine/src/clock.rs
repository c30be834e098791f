//! The wall clock, read in one place: it dates records and decides waits, never a session's fence. For fences there is
//! the time since boot.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use regatta_core::time::Timestamp;

/// How long this machine has been up, including the time it was suspended.
pub(crate) fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(time).unwrap_or_default()
}

/// The current time.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.saturating_add(set_by()))
}

/// The milliseconds by which a test has set this process's clock, from the file named in `REGATTA_CLOCK`. Debug builds
/// only.
fn set_by() -> i64 {
    if !cfg!(debug_assertions) {
        return 0;
    }
    let file = std::env::var_os("REGATTA_CLOCK");
    file.and_then(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok()).unwrap_or(0)
}

/// One day of this machine's calendar, by `TZ` or `/etc/localtime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Day {
    /// Its first instant.
    pub begins: Timestamp,
    /// The first instant of the next.
    pub ends: Timestamp,
}

impl Day {
    /// The day that contains `at`. Outside the calendar, a day of 24 hours in UTC.
    pub fn of(at: Timestamp) -> Self {
        Self::in_zone(at, &jiff::tz::TimeZone::system())
    }

    fn in_zone(at: Timestamp, zone: &jiff::tz::TimeZone) -> Self {
        const PLAIN: i64 = 24 * 60 * 60 * 1000;
        let local = jiff::Timestamp::from_millisecond(at.millis()).map(|at| at.to_zoned(zone.clone()));
        let bounds = local.and_then(|local| {
            let begins = local.start_of_day()?;
            let ends = local.tomorrow()?.start_of_day()?;
            Ok((begins.timestamp().as_millisecond(), ends.timestamp().as_millisecond()))
        });
        let (begins, ends) = bounds.unwrap_or_else(|_| {
            let begins = at.millis() - at.millis().rem_euclid(PLAIN);
            (begins, begins.saturating_add(PLAIN))
        });
        Self { begins: Timestamp::from_millis(begins), ends: Timestamp::from_millis(ends) }
    }
}

/// The date of an instant on this machine, as `2026-11-15`.
pub fn date_of(at: Timestamp) -> String {
    let local = jiff::Timestamp::from_millisecond(at.millis())
        .map(|at| at.to_zoned(jiff::tz::TimeZone::system()).date().to_string());
    local.unwrap_or_else(|_| at.to_string())
}

/// The first instant of a date of this machine's calendar.
pub fn begin_of(date: &str) -> Option<Timestamp> {
    let date: jiff::civil::Date = date.parse().ok()?;
    let begins = date.to_zoned(jiff::tz::TimeZone::system()).ok()?;
    Some(Timestamp::from_millis(begins.timestamp().as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_the_calendars_also_when_the_clocks_change() {
        let zone = jiff::tz::TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        for (at, begins, hours) in [
            ("2026-11-15T12:00:00Z", "2026-11-14T23:00:00.000Z", 24),
            ("2026-11-14T23:00:00Z", "2026-11-14T23:00:00.000Z", 24),
            ("2026-11-14T22:59:59Z", "2026-11-13T23:00:00.000Z", 24),
            ("2026-10-25T12:00:00Z", "2026-10-24T22:00:00.000Z", 25),
            ("2026-03-29T12:00:00Z", "2026-03-28T23:00:00.000Z", 23),
        ] {
            let day = Day::in_zone(Timestamp::try_from(at.to_owned()).unwrap(), &zone);
            assert_eq!(day.begins.to_string(), begins, "{at}");
            assert_eq!(day.ends.since(day.begins).as_secs() / 3600, hours, "{at}");
        }
    }
}
