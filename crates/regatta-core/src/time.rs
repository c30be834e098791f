//! Recorded instants. Nothing in the core asks what time it is: the caller passes it in.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch, shown and stored as RFC 3339 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Timestamp(i64);

impl Timestamp {
    /// From milliseconds since the epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the epoch.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch, as git expects them.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// This instant, later by `span`.
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Text for sentences that are stored or read elsewhere: `2025-11-15 05:00 UTC`.
    pub fn in_utc(self) -> String {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => at.strftime("%Y-%m-%d %H:%M UTC").to_string(),
            Err(_) => self.to_string(),
        }
    }

    /// The span since `earlier`; zero if the clock went backwards.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => write!(f, "{at:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

impl TryFrom<String> for Timestamp {
    type Error = jiff::Error;
    fn try_from(text: String) -> Result<Self, jiff::Error> {
        // Outside the calendar, `Display` writes plain numbers.
        if let Some(millis) = text.strip_suffix("ms").and_then(|number| number.parse().ok()) {
            return Ok(Self(millis));
        }
        text.parse::<jiff::Timestamp>().map(|at| Self(at.as_millisecond()))
    }
}

impl From<Timestamp> for String {
    fn from(at: Timestamp) -> String {
        at.to_string()
    }
}

/// `1 task`, `2 tasks`.
pub fn counted(n: impl TryInto<u64>, thing: &str) -> String {
    counted_as(n, thing, &format!("{thing}s"))
}

/// The same for a noun whose plural is irregular: `1 process`, `2 processes`.
pub fn counted_as(n: impl TryInto<u64>, one: &str, many: &str) -> String {
    let n = n.try_into().unwrap_or(u64::MAX);
    format!("{n} {}", if n == 1 { one } else { many })
}

/// `1h 02m`, `3m 04s`, `5.2s`: short enough for a column.
pub fn human(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{:.1}s", span.as_secs_f64()),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// Clocks that differ by less than this, in milliseconds, are shown as the same.
pub const SAME_CLOCK_MS: i64 = 2000;

/// The difference between two clocks with its two largest units: `+1h 3s`, `-2m 5s`.
pub fn ahead(millis: i64) -> String {
    let span = unsigned(Duration::from_millis(millis.unsigned_abs()));
    format!("{}{span}", if millis < 0 { '-' } else { '+' })
}

/// A span of time with its two largest units: `1h 3s`.
pub fn unsigned(span: Duration) -> String {
    let seconds = span.as_secs();
    let units =
        [(seconds / 86400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let parts: Vec<String> =
        units.iter().filter(|(n, _)| *n > 0).take(2).map(|(n, unit)| format!("{n}{unit}")).collect();
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_between_clocks_is_short() {
        for (millis, shown) in [
            (3_603_000, "+1h 3s"),
            (-125_999, "-2m 5s"),
            (2_000, "+2s"),
            (90_061_000, "+1d 1h"),
            (999, "+0s"),
            (i64::MIN, "-106751991167d 7h"),
        ] {
            assert_eq!(ahead(millis), shown);
        }
    }

    #[test]
    fn a_timestamp_survives_json() {
        let at = Timestamp::from_millis(1_763_182_800_123);
        let text = serde_json::to_string(&at).unwrap();
        assert_eq!(text, "\"2025-11-15T05:00:00.123Z\"");
        assert_eq!(serde_json::from_str::<Timestamp>(&text).unwrap(), at);
        assert_eq!(at.in_utc(), "2025-11-15 05:00 UTC");
        for millis in [0, -1, i64::MIN, i64::MAX, 253_402_300_800_000] {
            let at = Timestamp::from_millis(millis);
            assert_eq!(Timestamp::try_from(at.to_string()).unwrap(), at, "{millis}");
        }
    }
}
