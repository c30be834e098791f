//! Durations as users write them: `90m`, `1h30m`, `45s`, `500ms`, `none`.

use std::time::Duration;

/// Units from the longest to the shortest, in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
/// Longest duration: longer than any real wait, short enough to be added to any clock.
const LONGEST_MILLIS: u64 = 366 * 86_400_000;

/// Parses a duration. `0` and `none` mean no limit; a plain number counts seconds.
///
/// The error follows the offending text: `"soon" is not a duration`.
pub fn parse_duration(text: &str) -> Result<Option<Duration>, String> {
    let text = text.trim();
    if matches!(text, "none" | "never" | "off") {
        return Ok(None);
    }
    let millis = match text.parse::<f64>() {
        Ok(seconds) if text.starts_with(|c: char| c.is_ascii_digit()) => from_seconds(seconds)?,
        Ok(_) => return Err("is not a positive number".into()),
        Err(_) => from_parts(text)?,
    };
    if millis > LONGEST_MILLIS {
        return Err("is longer than a year; write `none` for no limit".into());
    }
    Ok((millis > 0).then(|| Duration::from_millis(millis)))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded on the line above")]
fn from_seconds(seconds: f64) -> Result<u64, String> {
    let millis = (seconds * 1000.0).round();
    if millis > LONGEST_MILLIS as f64 {
        return Ok(LONGEST_MILLIS + 1);
    }
    Ok(millis as u64)
}

fn from_parts(text: &str) -> Result<u64, String> {
    let bad = || "is not a duration such as `90m`, `1h30m`, `45s`, `500ms` or `none`".to_owned();
    let mut rest = text;
    let mut units = UNITS.iter();
    let mut total = 0u64;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let count: u64 = rest[..digits].parse().map_err(|_| bad())?;
        rest = &rest[digits..];
        let letters = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let unit = &rest[..letters];
        rest = &rest[letters..];
        // Each unit at most once, the longer before the shorter.
        let (_, millis) = units.find(|(name, _)| *name == unit).ok_or_else(bad)?;
        total = total.saturating_add(count.saturating_mul(*millis));
    }
    if text.is_empty() { Err(bad()) } else { Ok(total) }
}

/// The shortest text that parses as the same duration.
pub fn format_duration(span: Option<Duration>) -> String {
    let Some(span) = span else { return "none".into() };
    let mut rest = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (unit, millis) in UNITS {
        if rest >= millis {
            text.push_str(&format!("{}{unit}", rest / millis));
            rest %= millis;
        }
    }
    if text.is_empty() { "none".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_people_write_them() {
        let check = |text: &str, millis: u64| {
            let expected = (millis > 0).then(|| Duration::from_millis(millis));
            assert_eq!(parse_duration(text), Ok(expected), "{text}");
            assert_eq!(parse_duration(&format_duration(expected)), Ok(expected), "{text}");
        };
        check("90m", 5_400_000);
        check("1h30m", 5_400_000);
        check("45s", 45_000);
        check("500ms", 500);
        check("1d2h3m4s5ms", 93_784_005);
        check("0", 0);
        check("0s", 0);
        check("none", 0);
        check("30", 30_000);
        check("1.5", 1_500);
        check(" 5s ", 5_000);
    }

    #[test]
    fn what_is_no_span_is_refused() {
        for bad in [
            "", "soon", "m", "-5", "-5s", "5x", "30m1h", "1h1h", "1.5h", "5 s", "inf", "NaN", "+5", "1m30",
            "٣s",
        ] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
        for long in ["400d", "99999999999999999999", "1e300", "18446744073709551615d"] {
            assert!(parse_duration(long).unwrap_err().contains("longer than a year"), "{long}");
        }
    }

    #[test]
    fn spans_are_written_in_the_longest_units() {
        assert_eq!(format_duration(Some(Duration::from_secs(5400))), "1h30m");
        assert_eq!(format_duration(Some(Duration::from_millis(1))), "1ms");
        assert_eq!(format_duration(None), "none");
    }
}
