//! Instants for people: short, and in the local time zone. Documents use RFC 3339.

use jiff::tz::TimeZone;
use regatta_core::time::Timestamp;

/// For a sentence: `17:43` today, `16 Nov 09:00` otherwise, with the year if it is another one.
pub fn moment(at: Timestamp) -> String {
    moment_in(at, regatta_engine::clock::now(), &TimeZone::system())
}

/// For a column: `2026-11-15 17:43:05`.
pub fn stamp(at: Timestamp) -> String {
    shown(at, "%Y-%m-%d %H:%M:%S", &TimeZone::system())
}

/// How long ago, in short form: `now`, `12s`, `3m`, `2h`, `5d`.
pub fn ago(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.since(at).as_secs();
    match seconds {
        0 => "now".to_owned(),
        1..60 => format!("{seconds}s ago"),
        60..3600 => format!("{}m ago", seconds / 60),
        3600..86_400 => format!("{}h ago", seconds / 3600),
        _ => format!("{}d ago", seconds / 86_400),
    }
}

fn moment_in(at: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    let day = |at| shown(at, "%Y-%m-%d", zone);
    let year = |at| shown(at, "%Y", zone);
    let format = if day(at) == day(now) {
        "%H:%M"
    } else if year(at) == year(now) {
        "%-d %b %H:%M"
    } else {
        "%-d %b %Y %H:%M"
    };
    shown(at, format, zone)
}

fn shown(at: Timestamp, format: &str, zone: &TimeZone) -> String {
    match jiff::Timestamp::from_millisecond(at.millis()) {
        Ok(found) => found.to_zoned(zone.clone()).strftime(format).to_string(),
        Err(_) => at.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_as_short_as_it_can_be_and_local() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let now = Timestamp::from_millis(1_763_182_800_123);
        let later = |seconds| now.plus(std::time::Duration::from_secs(seconds));
        let shown = |at| moment_in(at, now, &zone);
        assert_eq!(shown(now), "07:00");
        assert_eq!(shown(later(16 * 3600)), "23:00");
        assert_eq!(shown(later(18 * 3600)), "16 Nov 01:00");
        assert_eq!(shown(later(60 * 86_400)), "14 Jan 2026 07:00");
        assert_eq!(shown(Timestamp::from_millis(i64::MAX)), format!("{}ms", i64::MAX));
    }

    #[test]
    fn an_age_is_one_short_word() {
        let ages: Vec<String> = [0, 59, 60, 7200, 200_000]
            .iter()
            .map(|s| ago(Timestamp::from_millis(0), Timestamp::from_millis(s * 1000)))
            .collect();
        assert_eq!(ages, ["now", "59s ago", "1m ago", "2h ago", "2d ago"]);
    }
}
