//! Reset times in prose: "resets 4:12am (UTC)", "try again at Nov 18th, 2026 2:22 AM", "reset after 4h17m26s".

use std::time::Duration;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, Zoned};
use regatta_core::time::Timestamp;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// No quota is reset later than that; a larger number is not a wait.
const LONGEST_RESET: Duration = Duration::from_secs(10 * 366 * 86_400);

/// Phrases before a time of day or a date.
const BEFORE: [&str; 6] =
    ["resets ", "reset at ", "reset on ", "try again at ", "try again on ", "regain access on "];

/// Zone abbreviations that are ambiguous or in no database. A guess would be worse than a backoff.
const VAGUE: [&str; 12] =
    ["pst", "pdt", "mst", "mdt", "cst", "cdt", "est", "edt", "bst", "ist", "cest", "jst"];

/// The default time zone in which Regatta starts agents.
pub(super) const HOME_ZONE: &str = "utc";

/// The instant that the text names, at or after `now`. `None` if it names none, or an unknown zone. Without a zone it
/// is UTC: Regatta starts agents with `TZ=UTC`.
pub(super) fn reset_time(text: &str, now: Timestamp) -> Option<Timestamp> {
    reset_time_in(HOME_ZONE, text, now)
}

/// The same, with `home` as the zone of times without one.
fn reset_time_in(home: &str, text: &str, now: Timestamp) -> Option<Timestamp> {
    if let Some((_, epoch)) = text.split_once("limit reached|") {
        let digits: String = epoch.chars().take_while(char::is_ascii_digit).collect();
        return digits.parse().ok().and_then(from_epoch_seconds);
    }
    let lower = text.to_ascii_lowercase().replace(['\u{202f}', '\u{a0}'], " ");
    let lower = lower.replace("a.m.", "am").replace("p.m.", "pm").replace(" am", "am").replace(" pm", "pm");
    let (_, rest) = BEFORE.iter().find_map(|opening| lower.split_once(opening))?;
    let rest = rest.lines().next()?;
    let (when, zone) = match rest.split_once('(') {
        Some((when, zone)) => (when, zone.split_once(')')?.0.trim()),
        None => (rest.trim_end_matches('.'), home),
    };
    let zone = match zone.trim_start_matches(':') {
        "" | "utc" | "gmt" | "etc/utc" | "UTC" | "UTC0" => TimeZone::UTC,
        other => TimeZone::get(other).or_else(|_| TimeZone::posix(other)).ok()?,
    };
    if let Some(at) = when.split_whitespace().next().and_then(|word| word.parse::<jiff::Timestamp>().ok()) {
        return Some(Timestamp::from_millis(at.as_millisecond()));
    }
    let now = jiff::Timestamp::from_millisecond(now.millis()).ok()?.to_zoned(zone.clone());
    let at = next_occurrence(when, &now)?;
    Some(Timestamp::from_millis(at.to_zoned(zone).ok()?.timestamp().as_millisecond()))
}

/// The instant at which a spent quota is reset, however the text expresses it.
pub(super) fn renewal(text: &str, now: Timestamp) -> Option<Timestamp> {
    renewal_in(HOME_ZONE, text, now)
}

/// The same, with `home` as the zone of times without one.
pub(super) fn renewal_in(home: &str, text: &str, now: Timestamp) -> Option<Timestamp> {
    reset_time_in(home, text, now).or_else(|| wait(text).map(|wait| now.plus(wait)))
}

/// How long the text says to wait: "try again in 1 day 2 hours", "reset after 4h17m26s", "retry after 1.5s".
pub(super) fn wait(text: &str) -> Option<Duration> {
    const OPENINGS: [&str; 6] =
        ["try again in ", "retry in ", "retry after ", "reset after ", "reset in ", "resets in "];
    let lower = text.to_ascii_lowercase();
    let mut rest = OPENINGS.iter().find_map(|opening| lower.split_once(opening))?.1;
    let mut seconds = None;
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let Ok(amount) = rest[..digits].parse::<f64>() else { break };
        rest = rest[digits..].trim_start();
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "d" | "day" | "days" => 86_400.0,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "ms" => 0.001,
            _ => break,
        };
        seconds = Some(seconds.unwrap_or(0.0) + amount * unit);
        rest = &rest[letters..];
    }
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).filter(|wait| *wait < LONGEST_RESET)
}

/// An instant from `resetsAt`: seconds since the epoch, or milliseconds if the number could be nothing else.
pub(super) fn from_epoch_seconds(seconds: i64) -> Option<Timestamp> {
    match seconds {
        1..=99_999_999_999 => Some(Timestamp::from_millis(seconds * 1000)),
        100_000_000_000.. => Some(Timestamp::from_millis(seconds)),
        _ => None,
    }
}

fn next_occurrence(when: &str, now: &Zoned) -> Option<DateTime> {
    let mut words: Vec<&str> = when
        .split(|c: char| c.is_whitespace() || c == ',' || c == '·')
        .filter(|word| !word.is_empty() && !matches!(*word, "at" | "on" | "utc" | "gmt"))
        .take(5)
        .collect();
    if words.iter().any(|word| VAGUE.contains(&word.trim_end_matches('.'))) {
        return None;
    }
    let later = |days: i64| now.date().checked_add(Span::new().days(days)).ok();
    if words.len() > 1 && month(words[0]).is_none() && month(words[1]).is_some() {
        words.swap(0, 1);
    }
    let first = *words.first()?;
    if let Some(month) = month(first) {
        return date(month, &words[1..], now);
    }
    let at = |word: Option<&&str>| word.map_or(Some((0, 0)), |word| clock(word));
    let day = match first {
        _ if first.parse::<Date>().is_ok() => first.parse().ok()?,
        "today" => later(0)?,
        "tomorrow" => later(1)?,
        _ if weekday(first).is_some() => {
            let ahead = (weekday(first)? - now.weekday().to_monday_zero_offset()).rem_euclid(7);
            let (hour, minute) = at(words.get(1))?;
            let soonest = later(ahead.into())?.at(hour, minute, 0, 0);
            return if is_missed(soonest, now)? {
                soonest.checked_add(Span::new().days(7)).ok()
            } else {
                Some(soonest)
            };
        }
        _ => {
            let (hour, minute) = clock(first)?;
            let today = now.date().at(hour, minute, 0, 0);
            return if is_missed(today, now)? {
                today.checked_add(Span::new().days(1)).ok()
            } else {
                Some(today)
            };
        }
    };
    let (hour, minute) = at(words.get(1))?;
    Some(day.at(hour, minute, 0, 0))
}

/// The text has whole minutes: a reset within the current minute is now, and not the next time.
fn is_missed(at: DateTime, now: &Zoned) -> Option<bool> {
    Some(at < now.datetime().checked_sub(Span::new().minutes(1)).ok()?)
}

/// `18th, 2026 2:22am`, behind its month.
fn date(month: i8, rest: &[&str], now: &Zoned) -> Option<DateTime> {
    let mut words = rest.iter().peekable();
    let day: i8 = words.next()?.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok()?;
    let year = words.next_if(|word| word.len() == 4 && word.parse::<i16>().is_ok());
    let (hour, minute) = words.next().map_or(Some((0, 0)), |word| clock(word))?;
    let in_year = |year| Some(Date::new(year, month, day).ok()?.at(hour, minute, 0, 0));
    match year {
        Some(year) => in_year(year.parse().ok()?),
        None => {
            let this = in_year(now.year())?;
            let missed = this < now.datetime().checked_sub(Span::new().days(1)).ok()?;
            if missed { in_year(now.year() + 1) } else { Some(this) }
        }
    }
}

/// Days after Monday.
fn weekday(word: &str) -> Option<i8> {
    const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let at = DAYS.iter().position(|day| word.len() >= 3 && day.starts_with(word))?;
    i8::try_from(at).ok()
}

fn month(word: &str) -> Option<i8> {
    let at = MONTHS.iter().position(|month| word.starts_with(month))?;
    i8::try_from(at + 1).ok()
}

/// `4am`, `4:12am`, `16:12`.
fn clock(word: &str) -> Option<(i8, i8)> {
    let half = if word.ends_with("am") { Some(0) } else { word.ends_with("pm").then_some(12) };
    let digits = if half.is_some() { &word[..word.len() - 2] } else { word };
    let (hour, minute) = match digits.split_once(':') {
        Some((hour, minute)) => (hour.parse::<i8>().ok()?, minute.parse::<i8>().ok()?),
        None => (half.and_then(|_| digits.parse::<i8>().ok())?, 0),
    };
    let hour = match half {
        Some(half) if (1..=12).contains(&hour) => hour % 12 + half,
        Some(_) => return None,
        None => hour,
    };
    ((0..24).contains(&hour) && (0..60).contains(&minute)).then_some((hour, minute))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let now = Timestamp::try_from("2026-11-15T02:12:27Z".to_owned()).unwrap();
        let expected = expected.map(|at| Timestamp::try_from(at.to_owned()).unwrap());
        assert_eq!(renewal(text, now), expected, "{text:?}");
    }

    #[test]
    fn a_clock_time_is_its_next_occurrence() {
        check("You've hit your session limit · resets 4:12am (UTC)", Some("2026-11-15T04:12:00Z"));
        check("resets 4pm (UTC)", Some("2026-11-15T16:00:00Z"));
        check("resets 12am (UTC)", Some("2026-11-16T00:00:00Z"));
        check("resets 12:30pm (UTC)", Some("2026-11-15T12:30:00Z"));
        check("resets 2:12am (UTC)", Some("2026-11-15T02:12:00Z"));
        check("resets 1:59am (UTC)", Some("2026-11-16T01:59:00Z"));
        check("resets 16:05", Some("2026-11-15T16:05:00Z"));
        check("Your limit will reset at 3\u{202f}PM.", Some("2026-11-15T15:00:00Z"));
        check("resets 4:12 a.m. UTC", Some("2026-11-15T04:12:00Z"));
    }

    #[test]
    fn a_date_without_a_year_is_its_next_occurrence() {
        check("weekly limit · resets Nov 18, 5pm (UTC)", Some("2026-11-18T17:00:00Z"));
        check("resets Nov 18 at 5:30pm (UTC)", Some("2026-11-18T17:30:00Z"));
        check("resets Jan 2nd, 5pm (UTC)", Some("2027-01-02T17:00:00Z"));
        check("resets Jan 2, 2028, 5pm (UTC)", Some("2028-01-02T17:00:00Z"));
        check("resets 18 Nov, 5pm (UTC)", Some("2026-11-18T17:00:00Z"));
        check("You will regain access on 2026-12-01 at 00:00 UTC.", Some("2026-12-01T00:00:00Z"));
        check("resets 2026-11-18T02:22:00Z", Some("2026-11-18T02:22:00Z"));
        check("Claude AI usage limit reached|1794715947", Some("2026-11-15T04:12:27Z"));
    }

    #[test]
    fn a_day_of_the_week_is_its_next_occurrence() {
        // It is a Sunday.
        check("weekly limit · resets Mon 9am (UTC)", Some("2026-11-16T09:00:00Z"));
        check("resets Sunday at 4:00 AM", Some("2026-11-15T04:00:00Z"));
        check("resets sun 1am", Some("2026-11-22T01:00:00Z"));
        check("resets Thursday", Some("2026-11-19T00:00:00Z"));
        check("resets tomorrow at 1pm (UTC)", Some("2026-11-16T13:00:00Z"));
        check("resets today at 1pm (UTC)", Some("2026-11-15T13:00:00Z"));
    }

    #[test]
    fn a_time_in_a_zone_that_is_named_is_that_zones() {
        check("resets 4:12am (Europe/Berlin)", Some("2026-11-15T03:12:00Z"));
        // There it is still the day before.
        check("Your limit will reset at 7pm (America/New_York).", Some("2026-11-16T00:00:00Z"));
        check("resets 10pm (America/New_York)", Some("2026-11-15T03:00:00Z"));
    }

    #[test]
    fn a_time_without_a_zone_is_that_of_the_agents_own_clock() {
        let now = Timestamp::try_from("2026-11-15T02:12:27Z".to_owned()).unwrap();
        let at = |zone: &str, text: &str| renewal_in(zone, text, now).map(|at| at.to_string());
        let said = "try again at 4:21 AM.";
        assert_eq!(at("UTC", said).as_deref(), Some("2026-11-15T04:21:00.000Z"));
        assert_eq!(at("Asia/Tokyo", said).as_deref(), Some("2026-11-15T19:21:00.000Z"));
        assert_eq!(at(":America/New_York", said).as_deref(), Some("2026-11-15T09:21:00.000Z"));
        assert_eq!(at("JST-9", said).as_deref(), Some("2026-11-15T19:21:00.000Z"));
        assert_eq!(at("Nowhere/Land", said), None);
        // A relative wait does not depend on the zone.
        assert_eq!(at("Asia/Tokyo", "try again in 33s"), at("UTC", "try again in 33s"));
    }

    #[test]
    fn a_time_in_the_words_of_other_agents_is_understood() {
        check("try again at Nov 18th, 2026 2:22 AM.", Some("2026-11-18T02:22:00Z"));
        check("or try again at 4:21 AM.", Some("2026-11-15T04:21:00Z"));
        check("Your quota will reset after 1h2m33s.", Some("2026-11-15T03:15:00Z"));
        check("Try again in 1 day 2 hours 3 minutes.", Some("2026-11-16T04:15:27Z"));
        check("Please try again in 59.5s.", Some("2026-11-15T02:13:26.500Z"));
        check("Your limit resets in 2h 30m.", Some("2026-11-15T04:42:27Z"));
        check("Please try again in 400ms", Some("2026-11-15T02:12:27.400Z"));
        for text in
            ["try again in a moment", "try again in 5 parsecs", "retry after 1e400s", "try again in ."]
        {
            check(text, None);
        }
    }

    #[test]
    fn what_is_no_time_or_in_a_zone_nobody_knows_is_not_guessed() {
        for text in [
            "resets 4:12am (Europe/Atlantis)",
            "resets 4pm PST",
            "resets soon (UTC)",
            "resets 25:00 (UTC)",
            "resets 13pm (UTC)",
            "resets Feb 30, 1pm (UTC)",
            "resets ",
            "resets 4:12am (",
            "",
            "it was reset",
        ] {
            check(text, None);
        }
    }
}
